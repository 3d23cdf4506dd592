"""What NCCL is told: a line that gives each call of a program the way that it is priced by."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from grammar import Goal
from hierarchies import Axis, load
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.nccl_model import Ranks
from synth.collective.algorithms.nccl_versions import parse_version
from synth.collective.algorithms.protocols import Protocol
from synth.collective.price.resolution import FINEST
from synth.collective.ranking.explanation import explain_answer
from synth.collective.ranking.how_to_get import advise
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Answer, Request
from synth.collective.ranking.settings import RuntimeCalls, collective_settings, explain_scope
from synth.collective.semantics.programs import Language

CASES = [("dgx-a100:4", 2**18), ("dgx-h100:4", 2**22), ("p2-a100:4", 2**26), ("mi300x:2", 2**20)]


def programs(name: str, payload: int) -> list[Answer]:
    system = load(name)
    axes = (Axis("data", system.devices),)
    request = Request(axes, ("data",), payload, 8, Language(3), stripes=False, exact=True)
    found = answers(system, request).answers
    return [one for one in found if one.called and not one.plain]


def told(line: str) -> dict[str, dict[str, str]]:
    """What each variable says of each collective, as NCCL's parseList cuts it."""
    variables = dict(word.split("=") for word in line.replace("'", "").split())
    return {
        name: dict(one.split(":") for one in value.split(";")) for name, value in variables.items()
    }


@pytest.mark.parametrize(("name", "payload"), CASES)
def test_each_call_is_said_with_what_the_model_of_nccl_would_take(name: str, payload: int) -> None:
    """Without a calibration that is the way whose seconds NCCL's own model has for the least."""
    system = load(name)
    for answer in programs(name, payload):
        assert answer.called
        sent = [one for one in answer.prices if one.algorithm]
        assert [call.price for call in answer.called.each] == sent
        for call in answer.called.each:
            ranks = Ranks(system, call.price.members)
            modelled = {
                way: ranks.seconds(Goal(call.price.what), way, by[0].protocol, by[0].size_bytes)
                for way, by in call.own.options.items()
            }
            assert call.own_way[0] == min(modelled, key=lambda one: modelled[one])
            assert ("by itself" in call.said) == (call.way != call.own_way)
            assert f"among {prod(call.price.members)} by " in call.said


@pytest.mark.parametrize(("name", "payload"), CASES)
def test_a_line_says_what_it_takes_and_no_more(name: str, payload: int) -> None:
    for answer in programs(name, payload):
        calls = answer.called
        assert calls
        assert calls.seconds == pytest.approx(answer.candidate.seconds)
        slower = calls.own_seconds > calls.seconds * (1 + FINEST)
        ways: dict[str, set[object]] = {}
        for call in calls.each:
            ways.setdefault(call.price.what, set()).add(call.way)
        apart = {call.price.what for call in calls.each if call.way != call.own_way}
        assert bool(calls.line) == (slower and all(len(ways[what]) == 1 for what in apart))
        said = " ".join(calls.said)
        assert ("set nothing" in said) == (not slower)
        if calls.line:
            assert calls.line in said
            assert explain_scope(*dict.fromkeys(c.price.what for c in calls.apart)) in said
            variables = told(calls.line)
            assert variables["NCCL_ALGO"].keys() == variables["NCCL_PROTO"].keys()
            assert variables["NCCL_ALGO"].keys() == {one.replace("-", "") for one in apart}
        if answer.gains:
            text = advise(answer).text
            assert ("set NCCL_ALGO" in text) == bool(calls.line)
            assert not calls.line or f"set {calls.line}" in text
        assert calls.said[0] in explain_answer(answer)


def test_one_collective_in_two_ways_is_said_by_no_line() -> None:
    """Two all-reduces of a program, one by a ring, one by a tree: one process knows one way."""
    [answer, *_] = programs("dgx-a100:4", 2**18)
    assert answer.called
    call = answer.called.each[0]
    size = call.price.size_bytes
    rings = replace(call, price=replace(call.price, protocol=Protocol.SIMPLE, size_bytes=size / 2))
    others = replace(call, price=replace(call.price, protocol=Protocol.LL, size_bytes=size / 4))
    own = replace(call, own=replace(call.own, chosen=call.own.chosen))
    longer = tuple(replace(one, latency_seconds=1.0) for one in answer.called.own_prices[0])
    two = RuntimeCalls((rings, others, own), answer.called.lanes, (longer,))
    assert two.own_seconds > two.seconds
    assert two.line == ""
    assert two.contrary == (call.price.what,)
    assert "--target nccl-tuner has a row for each" in " ".join(two.said)
    switched = replace(others, price=replace(others.price, algorithm=Algorithm.IN_NETWORK))
    alike = replace(others, price=replace(others.price, size_bytes=size / 2))
    for each, lanes in (
        ((rings, switched, own), two.lanes),
        ((rings, alike, own), two.lanes),
        (two.each, two.lanes * 2),
        (two.each, (replace(two.lanes[0], segments=2),)),
    ):
        refused = replace(two, each=each, lanes=lanes, own_prices=two.own_prices * len(lanes))
        assert refused.contrary
        assert "two ways in one process" in " ".join(refused.said)
        assert "nccl-tuner" not in " ".join(refused.said)
    assert two.unsaid
    assert not two.foreign
    assert not answer.called.unsaid


def test_several_collectives_are_quoted_for_a_shell() -> None:
    ways = {"all-reduce": ("tree", Protocol.LL128), "all-gather": ("ring", Protocol.SIMPLE)}
    assert collective_settings(ways) == (
        "NCCL_ALGO='allreduce:Tree;allgather:Ring' NCCL_PROTO='allreduce:LL128;allgather:Simple'"
    )


def test_xla_is_told_nothing() -> None:
    system = load("tpu-v5e-slice:4x4")
    request = Request((Axis("data", 16),), ("data",), 2**20, 3, Language(2), stripes=False)
    assert all(one.called is None for one in answers(system, request).answers)


def test_before_settings_name_collectives_there_is_one_for_all_or_none() -> None:
    old, simple = parse_version("2.22.3"), Protocol.SIMPLE
    both = {"all-reduce": ("ring", simple), "all-gather": ("ring", simple)}
    assert collective_settings(both, old) == "NCCL_ALGO=Ring NCCL_PROTO=Simple"
    for name in ("tree", "direct"):
        assert collective_settings({**both, "other": (name, simple)}, old) == ""
    assert collective_settings({}, old) == ""
