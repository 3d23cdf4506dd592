"""The tests to run: their groups are what they say, and their logs are read back as that."""

from __future__ import annotations

import re
import shlex
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchies import Domain, Hierarchy, InputError, Level, Link, System, catalogue, load
from log_writer import Written, devices, text
from synth.ask.measured import CalibrateQuestion, calibrate
from synth.collective.ranking.request import Watcher
from synth.measure.calibration.experiments import (
    SMALLEST_BYTES,
    Experiment,
    experiments,
    isolating_experiment,
    launch_lines,
    log_command,
    script,
)
from synth.measure.logs.matching import match_log
from synth.measure.logs.reading import parse_logs

LEVELS = ("rack", "node", "gpu")


@st.composite
def systems(draw: st.DrawFn) -> System:
    counts = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3).filter(lambda c: prod(c) > 1))
    names = LEVELS[-len(counts) :]
    hierarchy = Hierarchy(tuple(Level(n, c) for n, c in zip(names, counts, strict=True)))
    link = Link(Domain.SWITCH, 50e9, 5e-6, ll_latency_seconds=1e-6)
    return System("machine", "a machine", hierarchy, (link,) * len(counts), 2e12)


def colored(split: str, rank: int) -> int:
    """The README of rccl-tests, read anew: the operation applied to the rank."""
    if not split:
        return 0
    rule, value = split.split()
    number = int(value, 0)
    return {
        "AND": rank & number,
        "OR": rank | number,
        "MOD": rank % number,
        "DIV": rank // number,
    }[rule]


def digits(rank: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    found = []
    for size in reversed(sizes):
        rank, digit = divmod(rank, size)
        found.append(digit)
    return tuple(reversed(found))


@given(systems())
@settings(max_examples=40)
def test_groups_are_of_the_stated_levels(system: System) -> None:
    for one in experiments(system):
        groups: dict[int, list[tuple[int, ...]]] = {}
        for rank in range(prod(one.groups.busy)):
            color = colored(one.groups.split, rank)
            groups.setdefault(color, []).append(digits(rank, one.groups.busy))
        for found in groups.values():
            assert len(found) == prod(one.groups.members)
            assert tuple(len(set(column)) for column in zip(*found, strict=True)) == (
                one.groups.members
            )


@pytest.mark.slow
@given(systems())
@settings(max_examples=40)
def test_every_level_that_has_several_children_is_timed_alone(system: System) -> None:
    names = [one.name for one in experiments(system)]
    assert len(set(names)) == len(names)
    for position, level in enumerate(system.hierarchy.levels):
        one = isolating_experiment(system, level.name)
        assert (one is None) == (level.cardinality == 1)
        if one is not None:
            assert one.name in names
            spans = [i for i, m in enumerate(one.groups.members) if m > 1]
            assert spans == [position]


def its_log(system: System, one: Experiment, *, notes: bool, listed: bool) -> str:
    """What would come out if the experiment were run."""
    each = prod(system.hierarchy.cardinalities[system.hierarchy.names.index("gpu") :])
    ranks = prod(one.groups.busy)
    hosts = max(1, ranks // each)
    sizes = tuple((SMALLEST_BYTES * ranks * 4**i, 10.0 * 3**i, 10.0 * 3**i) for i in range(5))
    test = one.program.removesuffix("_perf")
    told = Written(test, prod(one.groups.members), 1, sizes)
    colors = [colored(one.groups.split, rank) for rank in range(ranks)]
    body = text(told, head=False)
    head = [f"# Collective test starting: {one.program}"]
    if listed:
        head += devices(Written(test, ranks, hosts, ()), groups=colors)
    return "\n".join([*(one.notes if notes else ()), *head, *body])


@pytest.mark.slow
@given(systems(), st.booleans(), st.data())
@settings(max_examples=40)
def test_a_log_is_mapped_back_onto_its_groups(
    system: System, notes: bool, data: st.DataObject
) -> None:
    one = data.draw(st.sampled_from(experiments(system)))
    if not notes and one.groups.busy != system.hierarchy.cardinalities:
        return  # a part of the machine: only its notes can say which
    [log] = parse_logs(its_log(system, one, notes=notes, listed=not notes), "a.txt")
    found = match_log(system, log).measurement
    assert (found.members, found.busy) == (one.groups.members, one.groups.busy)
    assert found.collective == one.goal.value
    if notes:
        assert (found.algorithm, found.protocol) == (
            one.algorithm,
            one.protocol.value if one.protocol else None,
        )


def test_the_lines_are_shell_that_starts_every_rank() -> None:
    system = load("dgx-h100:4")
    for one in experiments(system):
        both = launch_lines(system, one)
        assert f"-np {prod(one.groups.busy)} " in both.mpirun
        assert f"-n {prod(one.groups.busy)} -N 4 --ntasks-per-node=8" in both.srun
        for command in (both.mpirun, both.srun):
            words = shlex.split(command)
            assert f"$TESTS/{one.program}" in words
            for key, value in one.environment.items():
                assert f"{key}={value}" in words
            assert log_command(command, one).endswith(f"> {one.file}")


def test_the_script_has_every_experiment_and_says_what_it_tells() -> None:
    for name in catalogue():
        system = load(name)
        found = experiments(system)
        said = script(system, found, "srun")
        assert said.count("\n(echo ") == len(found)
        assert said.count("tells: ") == len(found)
        assert all(re.search(rf"> {re.escape(one.file)}$", said, re.MULTILINE) for one in found)


def test_one_device_has_nothing_to_measure() -> None:
    hierarchy = Hierarchy((Level("gpu", 1),))
    with pytest.raises(InputError, match="one device"):
        experiments(System("one", "one", hierarchy, (Link(Domain.SWITCH, 1e9, 0.0),), 1e12))


def test_some_of_the_tests_are_asked_for_by_name() -> None:
    question = CalibrateQuestion(system="dgx-h100:2", plan=True)
    every = [one.name for one in question.tests(load("dgx-h100:2"))]
    some = every[3:0:-2]
    alone = question.model_copy(update={"only": some})
    assert [one.name for one in alone.tests(load("dgx-h100:2"))] == sorted(some, key=every.index)
    body = calibrate(alone, Watcher()).body
    assert [one["name"] for one in body["experiments"]] == sorted(some, key=every.index)
    assert body["files"][0]["text"].startswith("# 2 tests for dgx-h100")
    with pytest.raises(InputError, match="there is no test 'some'"):
        calibrate(question.model_copy(update={"only": ["some"]}), Watcher())
    with pytest.raises(InputError, match="none are asked for"):
        calibrate(CalibrateQuestion(system="dgx-h100:2", only=some), Watcher())
