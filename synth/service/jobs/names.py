"""The names of jobs: what was asked, in a line.

>>> name_of("top", {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}, "reduce": ["data"],
...     "request": "all-reduce", "bytes": 2**30, "k": 3})
'top dgx-h100:4, data=8 model=4, all-reduce of 1 GiB over data'
>>> name_of("place", {"system": "dgx-a100", "axes": {"data": 32}})
'place dgx-a100:4, data=32'
>>> name_of("emit", {"system": {"name": "ours", "text": "..."}, "program": "p", "target": "torch"})
'emit ours, p, torch'
>>> text = 'name = "ours"\\n[calibration]'
>>> name_of("doctor", {"system": {"name": "own.toml", "text": text}})
'doctor ours, calibrated'
>>> name_of("plan", {"system": "dgx-h100:2", "model": "llama3-8b", "batch": 64, "pin": "tensor=4"})
'plan llama3-8b, batch 64, dgx-h100:2, with tensor=4'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from hierarchies import asked_as, catalogue, known
from hierarchies.units import volume

_SHOWN = (
    *("kind", "order", "digits", "model", "batch", "sequence", "job", "system", "systems"),
    *("pin", "explain", "axes", "plan", "tree", "program", "collectives", "target"),
)
"""The keys of questions that tell one from another, in the order in which they are read."""
_BEFORE = {"pin": "with", "explain": "why not"}
_LONGEST_CHARACTERS = 160
_CALLED = re.compile(r'^name = "([^"\n]+)"', re.MULTILINE)
_CALIBRATED = re.compile(r"^\[calibration\]", re.MULTILINE)


def name_of(verb: str, question: Mapping[str, Any]) -> str:
    """What was asked: the verb, and what tells this question from others of the same verb."""
    said = " ".join((verb, ", ".join(_parts(question)))).split()
    name = "".join(one if one.isprintable() else "?" for one in " ".join(said))
    return name if len(name) <= _LONGEST_CHARACTERS else f"{name[:_LONGEST_CHARACTERS]}..."


def _parts(question: Mapping[str, Any]) -> Iterator[str]:
    for key in _SHOWN:
        if text := _words(key, question.get(key)):
            yield text
    if question.get("reduce") and not question.get("program"):
        yield _request(question)


def _words(key: str, given: Any) -> str:
    match key, given:
        case "digits", int(most):
            return f"{most} digits"
        case ("batch" | "sequence", int(said)) | ("pin" | "explain", str(said)) if said:
            return f"{_BEFORE.get(key, key)} {said}"
        case "collectives", [_, *_] as several:
            return f"{len(several)} collectives"
        case "system", {"name": str(name), "text": str(text)}:
            return _own(name, text)
        case _, {"name": str(name)}:
            return name
        case "system", str(name) if name in catalogue():
            return _whole(name)
        case _, str(text):
            return text
        case _, dict(sizes):
            return " ".join(f"{name}={size}" for name, size in sizes.items())
        case _, list(several):
            return " ".join(_words("", one) or str(one) for one in several)
    return ""


def _own(name: str, text: str) -> str:
    """A description of one's own: as it calls itself, and whether prices follow measurements."""
    called = _CALLED.search(text)
    said = called[1] if called else name
    return f"{said}, calibrated" if _CALIBRATED.search(text) else said


@cache
def _whole(name: str) -> str:
    """A machine of the catalogue with the count that it has if none is asked for."""
    return asked_as(name, known(name).hierarchy.cardinalities)


def _request(question: Mapping[str, Any]) -> str:
    size = question.get("bytes")
    ends = size if isinstance(size, list) else [size]
    sizes = " to ".join(volume(one) for one in ends if isinstance(one, int))
    said = f"{question.get('request') or 'all-reduce'} of {sizes}" if sizes else "reduced"
    return f"{said} over {', '.join(map(str, question['reduce']))}"
