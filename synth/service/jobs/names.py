"""The names of jobs: what was asked, in a line, in plain words.

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

VERB_PHRASES: Mapping[str, str] = {
    "systems": "Show a machine",
    "import": "Import a topology",
    "graph": "Draw a machine",
    "place": "List placements",
    "count": "Count programs",
    "top": "Ask for a collective",
    "sweep": "Compare machines",
    "cost": "What a fault costs",
    "plan": "Plan a step or place a job",
    "job": "Derive a job",
    "order": "Look at a pipeline",
    "diff": "Tell answers apart",
    "check": "Prove a program",
    "lower": "List the groups of a program",
    "time": "Price a program",
    "emit": "Write code",
    "run": "Run a program",
    "calibrate": "Calibrate",
    "doctor": "Check measurements",
    "trace": "Trace a step",
    "shard": "Shard a step",
    "simulate": "Simulate a step",
    "buckets": "Find buckets for DDP",
    "train": "Train by a plan",
    "profile": "Measure local work",
}
"""What each verb does, in plain words."""
_SUBJECT = ("kind", "order", "digits", "model", "job", "program", "collectives", "systems")
"""What a question is about, in the order in which it is read; the machine comes behind it."""
_FIRST = ("axes", "batch", "sequence", "plan", "tree", "target")
"""What is told next, even as it is by default; of all other keys what is not so."""
_SIDE_KEYS = ("request", "bytes", "reduce", "system", "first", "second", "from")
_NAMED_KEYS = {*_SUBJECT, *_FIRST, *_SIDE_KEYS}
_PHRASES = {
    "digits": "{} digits",
    "max_steps": "at most {} steps",
    "prices": "{} prices",
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
"""Of so many collectives each is told."""
_NAME_LINE = re.compile(r'^name = "([^"\n]+)"', re.MULTILINE)
_SHAPE = re.compile(r":[0-9]+(x[0-9]+)+$")
_CALIBRATION_TABLE = re.compile(r"^\[calibration\]", re.MULTILINE)


def name_of(verb: str, question: Mapping[str, Any]) -> str:
    """What was asked: what is done in plain words, and what tells this question from others."""
    subject = ", ".join(filter(None, _subject(question)))
    on = machine_in(question)
    about = f"{subject} on {on}" if subject and on else subject or on
    parts = ", ".join(filter(None, (about, *_other_words(verb, question))))
    said = " ".join(filter(None, (_lead(verb, question, bool(parts)), parts))).split()
    name = "".join(one if one.isprintable() else "?" for one in " ".join(said))
    return name if len(name) <= _LONGEST_CHARACTERS else f"{name[:_LONGEST_CHARACTERS]}..."


def machine_in(question: Mapping[str, Any]) -> str:
    """The machine of a question as it is called in names; nothing where it has none."""
    match question.get("system"):
        case {"name": str(name), "text": str(text)}:
            return _own_text_name(name, text)
        case str(name):
            return _whole_machine_name(name) if name in catalogue() else name
    return ""


def _lead(verb: str, question: Mapping[str, Any], more: bool) -> str:
    """What is done; a collective says so by itself."""
    match verb:
        case "top" if more:
            return ""
        case "plan":
            lead = "Plan a step" if question.get("model") else "Place a job"
        case "calibrate" if question.get("plan"):
            lead = "Tests to calibrate by"
        case _:
            lead = VERB_PHRASES[verb]
    return f"{lead}:" if more else lead


def _subject(question: Mapping[str, Any]) -> Iterator[str]:
    for key in _SUBJECT:
        yield _words(key, question.get(key))
    if question.get("reduce") and not question.get("program"):
        yield _request(question)
    elif question.get("program"):
        yield _sizes(question)


def _other_words(verb: str, question: Mapping[str, Any]) -> Iterator[str]:
    """What else was asked, where it is not as it would be without a word."""
    by_tests = verb == "calibrate"  # whether there is a plan leads its name
    of_job = ("batch", "sequence") if question.get("job") else ()
    for key in _FIRST:
        if key not in of_job and not by_tests:
            yield _words(key, question.get(key))
    usual = defaults_of(verb)
    for key, given in question.items():
        if key not in _NAMED_KEYS and not (key in usual and given == usual[key]):
            yield _words(key, given)


@cache
def defaults_of(verb: str) -> Mapping[str, Any]:
    """What the keys of a question are without a word, as in JSON."""
    fields = VERBS[verb].question.model_fields
    found = {key: one.get_default(call_default_factory=True) for key, one in fields.items()}
    return {key: one.value if isinstance(one, Enum) else one for key, one in found.items()}


def _words(key: str, given: Any) -> str:
    """A key of a question with its value; nothing for what is empty, and for texts."""
    match given:
        case _ if not given and not isinstance(given, int):
            return ""
        case bool():
            return f"{'' if given else 'no '}{key.replace('_', ' ')}"
        case int() if key == "k":
            return pluralize(given, "answer")
        case [*several] if key == "collectives":
            few = len(several) <= _MOST_NAMED
            return " and ".join(map(_request, several)) if few else f"{len(several)} collectives"
    plain = "{}" if key in _SUBJECT else f"{key.replace('_', ' ')} {{}}"
    return _PHRASES.get(key, plain).format(_value(given))


def _value(given: Any) -> str:
    match given:
        case {"name": str(name), "text": str()}:
            return name
        case dict():
            return " ".join(f"{name}={size}" for name, size in given.items())
        case [[*_], *_]:
            return str(given)
        case list():
            return " ".join(map(_value, given))
    return str(given)


def _own_text_name(name: str, text: str) -> str:
    """A description of one's own: as it calls itself, with its count, and whether prices follow
    measurements; by its bare name where it cannot be read.
    """
    called = _NAME_LINE.search(text)
    said = called[1] if called else name
    with suppress(InputError):
        system, shape = parse_description(name, text), _SHAPE.search(name)
        whole = spell_machine(system.name, system.hierarchy.cardinalities)
        said = f"{system.name}{shape[0]}" if shape else whole
    return f"{said}, calibrated" if _CALIBRATION_TABLE.search(text) else said


@cache
def _whole_machine_name(name: str) -> str:
    """A machine of the catalogue with the count that it has if none is asked for."""
    return spell_machine(name, load_known(name).hierarchy.cardinalities)


def _request(asked: Mapping[str, Any]) -> str:
    """One collective: what, of how many bytes, over which axes, and how often."""
    request, sizes, times = asked.get("request") or "all-reduce", _sizes(asked), asked.get("times")
    said = f"{request} of {sizes}" if sizes else request
    often = f" {times:g} times" if isinstance(times, int | float) and times != 1 else ""
    return f"{said} over {', '.join(map(str, asked['reduce']))}{often}"


def _sizes(asked: Mapping[str, Any]) -> str:
    """The bytes, or both ends of a range of them."""
    size = asked.get("bytes")
    ends = size if isinstance(size, list) else [size]
    return " to ".join(format_bytes(one) for one in ends if isinstance(one, int))
