"""Names of jobs: each question as one line of plain words.

>>> name_of("top", {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}, "reduce": ["data"],
...     "request": "all-reduce", "bytes": 2**30, "k": 3, "slow": {"node1": 0.5}})
'all-reduce of 1 GiB over data on dgx-h100:4, data=8 model=4, 3 answers, slow node1=0.5'
>>> name_of("place", {"system": "dgx-a100", "axes": {"data": 32}})
'List placements: dgx-a100:4, data=32'
>>> name_of("emit", {"system": {"name": "ours", "text": "..."}, "program": "p", "target": "torch"})
'Write code: p on ours, torch'
>>> text = 'name = "ours"\\n[calibration]'
>>> name_of("doctor", {"system": {"name": "own.toml", "text": text}})
'Check measurements: ours, calibrated'
>>> name_of("plan", {"system": "dgx-h100:2", "model": "llama3-8b", "batch": 64, "pin": "tensor=4"})
'Plan a step: llama3-8b on dgx-h100:2, batch 64, with tensor=4'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from typing import Any

from hierarchies import InputError, catalogue, load_known, parse_description, spell_machine
from hierarchies.units import format_bytes
from synth.ask.table import VERBS
from synth.show.terminal.style import pluralize

VERB_PHRASES: Mapping[str, str] = {name: verb.phrase for name, verb in VERBS.items()}
"""What each verb does, in plain words."""
_SUBJECT = ("kind", "order", "digits", "model", "job", "program", "collectives", "systems")
"""Keys of a question's subject, in the order of the name; the machine follows."""
_FIRST = ("axes", "batch", "sequence", "plan", "tree", "target")
"""Keys that follow even with default values. Other keys follow only with other values."""
_SIDE_KEYS = ("request", "bytes", "reduce", "system", "first", "second", "from")
_NAMED_KEYS = {*_SUBJECT, *_FIRST, *_SIDE_KEYS}
_PHRASES = {
    "digits": "{} digits",
    "max_steps": "at most {} steps",
    "prices": "{} prices",
    "nccl": "NCCL {}",
    "pin": "with {}",
    "explain": "why not {}",
    "axes": "{}",
    "plan": "{}",
    "tree": "{}",
    "target": "{}",
    "kind": "{}",
    "order": "{}",
}
_LONGEST_CHARACTERS = 160
_MOST_NAMED = 2
"""Up to this many collectives are named; more are counted."""
_NAME_LINE = re.compile(r'^name = "([^"\n]+)"', re.MULTILINE)
_SHAPE = re.compile(r":[0-9]+(x[0-9]+)+$")
_CALIBRATION_TABLE = re.compile(r"^\[calibration\]", re.MULTILINE)


def name_of(verb: str, question: Mapping[str, Any]) -> str:
    """Return the name of a question: what its verb does, and what distinguishes it."""
    swept = question.get("sweep") or ()
    fixed = {key: value for key, value in question.items() if key not in swept}
    subject = ", ".join(filter(None, _subject(fixed)))
    on = machine_in(fixed)
    about = f"{subject} on {on}" if subject and on else subject or on
    parts = ", ".join(filter(None, (about, *_other_words(verb, fixed))))
    words = " ".join(filter(None, (_lead(verb, question, bool(parts)), parts))).split()
    name = "".join(character if character.isprintable() else "?" for character in " ".join(words))
    return name if len(name) <= _LONGEST_CHARACTERS else f"{name[:_LONGEST_CHARACTERS]}..."


def machine_in(question: Mapping[str, Any]) -> str:
    """Return the machine of a question as spelled in names; empty if it has none."""
    match question.get("system"):
        case {"name": str(name), "text": str(text)}:
            return _own_text_name(name, text)
        case str(name):
            return _whole_machine_name(name) if name in catalogue() else name
    return ""


def _lead(verb: str, question: Mapping[str, Any], followed: bool) -> str:
    """Return the phrase of the verb; empty for a collective, whose request already says it."""
    match verb:
        case "top" if followed:
            return ""
        case "plan":
            lead = "Plan a step" if question.get("model") else "Place a job"
        case "calibrate" if question.get("plan"):
            lead = "Tests to calibrate by"
        case _:
            lead = VERB_PHRASES[verb]
    return f"{lead}:" if followed else lead


def _subject(question: Mapping[str, Any]) -> Iterator[str]:
    for key in _SUBJECT:
        yield _words(key, question.get(key))
    if question.get("reduce") and not question.get("program"):
        yield _request(question)
    elif question.get("program"):
        yield _sizes(question)


def _other_words(verb: str, question: Mapping[str, Any]) -> Iterator[str]:
    """Yield the other keys whose values differ from the default."""
    by_tests = verb == "calibrate"  # _lead has already said whether there is a plan
    of_job = ("batch", "sequence") if question.get("job") else ()
    for key in _FIRST:
        if key not in of_job and not by_tests:
            yield _words(key, question.get(key))
    usual = defaults_of(verb)
    for key, value in question.items():
        if key not in _NAMED_KEYS and not (key in usual and value == usual[key]):
            yield _words(key, value)


@cache
def defaults_of(verb: str) -> Mapping[str, Any]:
    """Return the default values of a verb's keys, as in JSON."""
    fields = VERBS[verb].question.model_fields
    defaults = {key: field.get_default(call_default_factory=True) for key, field in fields.items()}
    return {key: d.value if isinstance(d, Enum) else d for key, d in defaults.items()}


def _words(key: str, value: Any) -> str:
    """Return a key of a question with its value; empty if the value is empty."""
    match value:
        case _ if not value and not isinstance(value, int):
            return ""
        case bool():
            return f"{'' if value else 'no '}{key.replace('_', ' ')}"
        case int() if key == "k":
            return pluralize(value, "answer")
        case [*collectives] if key == "collectives":
            if len(collectives) > _MOST_NAMED:
                return f"{len(collectives)} collectives"
            return " and ".join(map(_request, collectives))
    plain = "{}" if key in _SUBJECT else f"{key.replace('_', ' ')} {{}}"
    return _PHRASES.get(key, plain).format(_value(value))


def _value(value: Any) -> str:
    match value:
        case {"name": str(name), "text": str()}:
            return name
        case dict():
            return " ".join(f"{name}={_swept_or_single(each)}" for name, each in value.items())
        case [[*_], *_]:
            return str(value)
        case list():
            return " ".join(map(_value, value))
    return str(value)


def _swept_or_single(value: Any) -> str:
    """Return the values of a swept key, with commas between them, or a single value."""
    return ",".join(map(_value, value)) if isinstance(value, list) else _value(value)


def _own_text_name(name: str, text: str) -> str:
    """Return the name of a user's system, with its count and whether it is calibrated.

    Returns ``name`` without a count if the description cannot be read.
    """
    name_line = _NAME_LINE.search(text)
    spelled = name_line[1] if name_line else name
    with suppress(InputError):
        system, shape = parse_description(name, text), _SHAPE.search(name)
        whole = spell_machine(system.name, system.hierarchy.cardinalities)
        spelled = f"{system.name}{shape[0]}" if shape else whole
    return f"{spelled}, calibrated" if _CALIBRATION_TABLE.search(text) else spelled


@cache
def _whole_machine_name(name: str) -> str:
    """Return a machine of the catalogue with its default count."""
    return spell_machine(name, load_known(name).hierarchy.cardinalities)


def _request(collective: Mapping[str, Any]) -> str:
    """Return the words for one collective: request, bytes, axes, and how many times."""
    request, times = collective.get("request") or "all-reduce", collective.get("times")
    sizes = _sizes(collective)
    sized = f"{request} of {sizes}" if sizes else request
    often = f" {times:g} times" if isinstance(times, int | float) and times != 1 else ""
    return f"{sized} over {', '.join(map(str, collective['reduce']))}{often}"


def _sizes(collective: Mapping[str, Any]) -> str:
    """Return the bytes, or both ends of a range."""
    size = collective.get("bytes")
    ends = size if isinstance(size, list) else [size]
    return " to ".join(format_bytes(end) for end in ends if isinstance(end, int))
