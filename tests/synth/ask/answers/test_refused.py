"""The models of answers refuse whatever has a key more, a key less, or a value of another type."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from hierarchies.calibration import MeasuredRange, TableResidual
from machines import bare, calibration
from replying import COMMANDS, SHAPES, body_of, faults, models_of, told
from synth.ask.answers.machine_parts import MachineInFull
from synth.ask.answers.parts import to_json, verdict_keys
from synth.collective.verify.symbolic import Unknown

Path = tuple[Any, ...]

NAMED_FREELY = {
    *("axes", "sources", "bytes_per_port", "counted", "environment", "delivered"),
    *("hop_us", "gap_us", "peer_us", "defaults", "shares"),
}
"""Keys whose values are tables with keys that depend on the question."""
LEFT_OUT = {
    *("count", "ports", "reduces", "ll_latency_us", "ll128_latency_us"),
    *("collective", "algorithm", "protocol", "residual", "measured", "stray"),
    *("peer_us", "wide", "loss"),
}
"""Keys that some parts may leave out: of a draft's level, and of a calibration."""
ANY_VALUE = {"suggestion"}
ALIEN: list[Any] = [{"surprise": 1}, [["surprise"]]]


def places(body: Any) -> Iterator[tuple[Path, Any]]:
    """Every value inside a body and the way to it, of each kind of item in a list the first."""
    seen: set[Path] = set()
    left: list[tuple[Path, Any]] = [((), body)]
    while left:
        path, value = left.pop()
        kind = tuple("*" if isinstance(part, int) else part for part in path)
        mark = (*kind, type(value), *(sorted(value) if isinstance(value, dict) else ()))
        if mark in seen:
            continue
        seen.add(mark)
        yield path, value
        if isinstance(value, (dict, list)):
            inside = value.items() if isinstance(value, dict) else enumerate(value)
            left += [((*path, part), inner) for part, inner in inside]


def spoiled(body: Any) -> Iterator[tuple[str, Any]]:
    """The body with one thing changed, for each thing that one could change in it."""
    for path, value in places(body):
        for other in others(value, path):
            yield f"{path} = {str(other)[:50]}", changed(body, path, other)
        if isinstance(value, dict) and not named_freely(path):
            yield f"{path}: a key more", changed(body, path, {**value, "surprise": 1})
            for key in value:
                if not may_go(key, path):
                    rest = {name: one for name, one in value.items() if name != key}
                    yield f"{path}: no {key}", changed(body, path, rest)


def changed(body: Any, path: Path, other: Any) -> Any:
    """The body with another value at a place; it shares with the first what is not on the way."""
    if not path:
        return other
    made = copy.copy(body)
    made[path[0]] = changed(body[path[0]], path[1:], other)
    return made


def named_freely(path: Path) -> bool:
    named = {("share",), ("members",), ("wide",), ("loss",)}
    by_level = path[-1:] in named and "calibration" in path
    return bool(path) and (path[-1] in NAMED_FREELY or by_level)


def may_go(key: str, path: Path) -> bool:
    if key == "collective" and "measured" in path:
        return False
    if key in ("calls", "worth_measuring", "trial", "later_default", "unmeasured", "speed"):
        return True  # what is one call, told from the default, or of no framework, is without
    if key == "measured" and not {"draft", "calibration"} & {*path}:
        return True  # without a profile nothing was
    if key == "notes" and not path:
        return True  # a file of a program that gains needs none
    if key == "parts" and "rows" in path:
        return True  # most rows of a timeline are one task
    return key in LEFT_OUT and bool({"draft", "calibration"} & {*path})


def others(value: Any, path: Path) -> list[Any]:
    """Values of another type than one has."""
    if path and path[-1] in ANY_VALUE:
        return ALIEN
    match value:
        case bool():
            return [*ALIEN, 1, "yes"]
        case int():
            return [*ALIEN, "7", value + 0.5, -1 - abs(value), True]
        case float():
            return [*ALIEN, "7.0", True]
        case str():
            return [*ALIEN, 7, True]
        case dict():
            return [7, "surprise", [value]]
        case list():
            return [7, "surprise", {"surprise": value}]
        case _:
            return ALIEN


@pytest.mark.parametrize("name", SHAPES)
def test_an_answer_with_anything_changed_is_refused(name: str) -> None:
    verb = COMMANDS[name][0]
    count = 0
    for change, body in spoiled(small(body_of(name))):
        count += 1
        if verb == "lower" and change == "(): no request":
            continue  # a document without one is of an all-reduce
        assert faults(verb, body), change
    assert count > 20


def test_a_calibrated_machine_with_anything_changed_is_refused() -> None:
    seen = (MeasuredRange("all-reduce", (2, 4), (("ring", "simple"),), 8, 1024),)
    known = replace(calibration(), measured=seen, strays=(TableResidual(0, 3, 0.8, 1.3),))
    system = to_json(MachineInFull.of(replace(bare(), calibration=known)))
    body = {"schema_version": 1, "system": small(system)}
    assert faults("systems", body) == []
    for change, other in spoiled(body):
        assert faults("systems", other), change


def small(value: Any) -> Any:
    """An answer with short lists: every kind of item is in the first few."""
    if isinstance(value, dict):
        return {key: small(inner) for key, inner in value.items()}
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        kinds: dict[tuple[str, ...], Any] = {}
        for item in value:
            kinds.setdefault(tuple(sorted(item)) + tuple(map(str, map(type, item.values()))), item)
        return [small(item) for item in kinds.values()]
    return value


def test_a_verdict_and_what_comes_with_it_belong_together() -> None:
    body = body_of("check")
    unknown = {**body, **verdict_keys(Unknown("ran out of steps"))}
    assert faults("check", unknown) == []
    assert faults("check", {k: v for k, v in unknown.items() if k != "proof_reason"})
    assert faults("check", {**body, "proof_reason": "because"})
    assert faults("check", {**body, "proof": "refuted"})
    assert faults("check", {**body, "counterexample": body_of("check-refuted")["counterexample"]})
    assert faults("check", {**body_of("check-refuted"), "counterexample": None})


@pytest.mark.parametrize("name", SHAPES)
def test_an_answer_is_of_one_shape_only(name: str) -> None:
    verb = COMMANDS[name][0]
    models = list(models_of(verb))
    fits = 0
    for model in models:
        try:
            model.model_validate_json(told(name))
        except ValidationError:
            continue
        fits += 1
    assert fits == 1
