"""What goes from an answer to the next question: the machine, and what was measured on it.

>>> carried("doctor", {"system": "dgx-h100:4", "files": ["a log"]}, {})
{'system': 'dgx-h100:4', 'files': ['a log']}
>>> found = {"findings": [{"tests": ["gpu-alone", "node-alone"]}, {"tests": ["gpu-alone"]}]}
>>> carried("doctor", {"system": "dgx-h100:4"}, found)
{'system': 'dgx-h100:4', 'only': ['gpu-alone', 'node-alone']}
>>> carried("calibrate", {"system": "dgx-h100:4"}, {"files": ["the description, calibrated"]})
{'system': 'the description, calibrated'}
>>> boxes("dgx-h100:4"), boxes({"name": "own.toml", "text": "..."})
({'own': '', 'system': 'dgx-h100', 'count': '4'}, {'own': '...', 'system': '', 'count': ''})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def keys_for_next(
    verb: str, question: Mapping[str, Any], body: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys of a question that hold for the next one on the same machine.

    After a check the tests are those that would tell what it leaves open; after a calibration the
    machine is the calibrated one, and its logs have been used.
    """
    if verb != "calibrate":
        named = (name for one in body.get("findings", ()) for name in one["tests"])
        only = [*dict.fromkeys(named)]
        return {**question, **({"only": only} if only else {})}
    if "experiments" in body:
        return {"system": question["system"]}
    [described] = body["files"]
    return {"system": described}


def boxes(system: str | Mapping[str, str]) -> dict[str, str]:
    """A question's machine as the boxes of a form have it."""
    text = "" if isinstance(system, str) else system["text"]
    name, _, count = (system if isinstance(system, str) else system["name"]).partition(":")
    return {"own": text, "system": "" if text else name, "count": count}
