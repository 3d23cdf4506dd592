"""Keys that carry over from an answer to the next question: the machine and its measurements.

>>> keys_for_next("doctor", {"system": "dgx-h100:4", "files": ["a log"]}, {})
{'system': 'dgx-h100:4', 'files': ['a log']}
>>> body = {"findings": [{"tests": ["gpu-alone", "node-alone"]}, {"tests": ["gpu-alone"]}]}
>>> keys_for_next("doctor", {"system": "dgx-h100:4"}, body)
{'system': 'dgx-h100:4', 'only': ['gpu-alone', 'node-alone']}
>>> keys_for_next("calibrate", {"system": "dgx-h100:4"}, {"files": ["the description, calibrated"]})
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
    """Return the keys of a question that hold for the next one on the same machine.

    After a diagnosis the tests are those that would settle its open findings; after a calibration
    the machine is the calibrated one, without the logs, which have been used.
    """
    if verb != "calibrate":
        named = (name for finding in body.get("findings", ()) for name in finding["tests"])
        only = [*dict.fromkeys(named)]
        return {**question, **({"only": only} if only else {})}
    if "experiments" in body:
        return {"system": question["system"]}
    [described] = body["files"]
    return {"system": described}


def boxes(system: str | Mapping[str, str]) -> dict[str, str]:
    """Return a question's machine as the texts in the boxes of a form."""
    text = "" if isinstance(system, str) else system["text"]
    name, _, count = (system if isinstance(system, str) else system["name"]).partition(":")
    return {"own": text, "system": "" if text else name, "count": count}
