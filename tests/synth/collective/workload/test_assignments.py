"""Sizes of open axes against brute force; jobs with numbers only against plain fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil, comb, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhaustive import examples
from hierarchies import InputError
from job_texts import ENTRY, JOB
from strategies import jobs
from synth.collective.workload.assignments import SettledJob, assignments, settle_job
from synth.collective.workload.job import JobAxis, NamedNumber, Requirement, Workload
from synth.collective.workload.quantities import (
    Amount,
    AtMostRule,
    evaluate_amount,
    names_in,
    parse_amount,
    parse_rule,
)

DEVICES = st.integers(1, 64)


def by_hand(amount: Amount, job: Workload, sizes: dict[str, int]) -> Fraction:
    """The value with all named numbers put in, those it needs and no others."""
    numbers = {number.name: number.amount for number in job.numbers}
    known = {
        name: Fraction(sizes[name]) if name in sizes else by_hand(numbers[name], job, sizes)
        for name in names_in(amount)
    }
    return evaluate_amount(amount, known)


def brute_force(job: Workload, devices: int) -> list[dict[str, int]]:
    """Every size of every axis up to the number of devices, sieved."""
    choices = [axis.sizes or range(1, devices + 1) for axis in job.axes]
    found = []
    for picked in product(*choices):
        sizes = {axis.name: size for axis, size in zip(job.axes, picked, strict=True)}
        if prod(picked) != devices:
            continue
        for requirement in job.requires:
            rule = requirement.rule
            if isinstance(rule, AtMostRule):
                met = by_hand(rule.left, job, sizes) <= by_hand(rule.right, job, sizes)
            else:
                met = by_hand(rule.amount, job, sizes).denominator == 1
            if not met:
                break
        else:
            found.append(sizes)
    return found


@given(jobs(), DEVICES)
@examples(15, 100)
def test_the_assignments_are_those_of_brute_force(job: Workload, devices: int) -> None:
    wanted = brute_force(job, devices)
    if wanted:
        assert list(assignments(job, devices)) == wanted
    else:
        with pytest.raises(InputError, match="devices"):
            assignments(job, devices)


@given(jobs(), st.data())
@examples(15, 100)
def test_a_settled_job_has_the_numbers_of_its_amounts(job: Workload, data: st.DataObject) -> None:
    sizes = {axis.name: data.draw(st.sampled_from(axis.sizes or (1, 2, 6))) for axis in job.axes}
    settled_job = settle_job(job, sizes)
    assert [(axis.name, axis.size) for axis in settled_job.axes] == list(sizes.items())
    kept = [entry for entry in job.communications if any(sizes[name] > 1 for name in entry.over)]
    told = (*settled_job.entries, *settled_job.unpriced)
    assert [entry.name for entry in told] == [entry.name for entry in kept]
    for entry, given_entry in zip(told, kept, strict=True):
        assert set(entry.over) == {name for name in given_entry.over if sizes[name] > 1}
        assert entry.payload_bytes == ceil(by_hand(given_entry.payload, job, sizes)) >= 1
        assert entry.times == by_hand(given_entry.times, job, sizes) > 0
    for entry in settled_job.entries:
        assert entry.weight == entry.times * (1 - entry.hidden) >= 0


def axes(**sizes: tuple[int, ...] | None) -> Workload:
    return replace(
        JOB, axes=tuple(JobAxis(name, of, f"here, line {len(name)}") for name, of in sizes.items())
    )


def test_open_axes_fill_the_machine() -> None:
    found = assignments(axes(data=None, tensor=(1, 2, 4, 8), pipeline=(2,)), 16)
    told = [tuple(sizes.values()) for sizes in found]
    assert told == [(1, 8, 2), (2, 4, 2), (4, 2, 2), (8, 1, 2)]
    assert len(assignments(axes(data=None, tensor=None, pipeline=None), 64)) == 28


@pytest.mark.parametrize(
    ("job", "devices", "words"),
    [
        (axes(data=(8,), tensor=(16,)), 32, "need at least 128 devices, and the system has 32"),
        (axes(data=(8,), tensor=(2,)), 32, "is 32, .*; the products up to it are 16"),
        (axes(data=(3, 5)), 32, "no size of axis 'data' divides the 32 devices"),
        (axes(data=(3, 5)), 32, r"it may have 3\|5; sizes that do are 1, 2, 4, 8, 16, 32"),
        (axes(data=None, tensor=(4,), pipeline=(16,)), 32, "need at least 64 devices"),
        (axes(data=(2, 4), tensor=(2,)), 32, "the products up to it are 4, 8"),
        (axes(data=None, tensor=(4,), pipeline=(6, 4)), 8, "need at least 16"),
        (axes(data=None, tensor=(4,), pipeline=(4, 2)), 12, "sizes divides 12, .*are 8"),
    ],
)
def test_sizes_that_do_not_fit_are_reported(job: Workload, devices: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        assignments(job, devices)


def test_an_unmet_requirement_is_reported_with_the_nearest_values() -> None:
    memory = Requirement("memory", parse_rule("16 GB / tensor <= 1 GB"), "here, line 9")
    whole = Requirement("stages", parse_rule("9 / tensor is whole"), "here, line 8")
    with pytest.raises(InputError) as caught:
        assignments(replace(axes(data=None, tensor=(2, 8)), requires=(memory,)), 16)
    assert str(caught.value) == (
        "here, line 9: no sizes that multiply to 16 devices meet the requirement 'memory', "
        "16 GB / tensor <= 1 GB; nearest are data=2, tensor=8: 2000000000 against 1000000000"
    )
    with pytest.raises(InputError, match="nearest are data=2, tensor=8: 9/8"):
        assignments(replace(axes(data=None, tensor=(2, 8)), requires=(whole,)), 16)


def test_an_undecidable_requirement_is_reported_with_the_sizes() -> None:
    rule = Requirement("memory", parse_rule("1 / (tensor - 2) <= 1"), "here, line 9")
    with pytest.raises(InputError, match=r"^here, line 9: .*divides by zero at data=8, tensor=2"):
        assignments(replace(axes(data=None, tensor=(2, 8)), requires=(rule,)), 16)


def test_bytes_are_rounded_up() -> None:
    job = replace(JOB, entries=(replace(ENTRY, payload=parse_amount("10 B / data")),))
    told = [
        settle_job(job, {"data": n, "tensor": 1}).entries[0].payload_bytes for n in (2, 3, 8, 64)
    ]
    assert told == [5, 4, 2, 1]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"data": 8}, "sizes are given for data; the axes are data, tensor"),
        ({"data": 8, "tensor": 3}, r"'tensor' cannot have size 3; it may have 1\|8"),
        ({"data": 0, "tensor": 1}, "'data' cannot have size 0; it may have any"),
    ],
)
def test_sizes_are_those_of_the_job(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        settle_job(JOB, sizes)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"payload": parse_amount("8 - data")},
            "bytes of 'gradients' would be 0 at data=8, tensor=1",
        ),
        ({"times": parse_amount("3 - data")}, "times of 'gradients' would be -5 at data=8"),
        (
            {"hidden": parse_amount("data / 4")},
            "hidden of 'gradients' would be 2 at data=8, tensor=1",
        ),
        ({"times": parse_amount("1 / (data - 8)")}, "divides by zero at data=8, tensor=1"),
        ({"times": parse_amount("late")}, "'1 / (data - 8)' divides by zero at data=8"),
    ],
)
def test_numbers_out_of_bounds_are_reported_with_the_sizes(
    changed: dict[str, object], words: str
) -> None:
    late = NamedNumber("late", parse_amount("1 / (data - 8)"), "here, line 2")
    job = replace(JOB, numbers=(late,), entries=(replace(ENTRY, **changed),))
    assert settle_job(job, {"data": 1, "tensor": 8}).entries == ()
    with pytest.raises(InputError) as caught:
        settle_job(job, {"data": 8, "tensor": 1})
    assert words in str(caught.value)
    assert str(caught.value).startswith("here, line 2: ") == ("late" in str(changed))


def test_axes_that_are_all_open_on_a_great_machine_are_refused() -> None:
    job = axes(data=None, **{f"axis{i}": None for i in range(7)})
    assert len(assignments(job, 2**9)) == comb(16, 7)
    with pytest.raises(InputError, match="more than 100000 different sizes; give some of them"):
        assignments(job, 2**20)


def test_a_job_on_one_device_sends_nothing() -> None:
    job = settle_job(JOB, {"data": 1, "tensor": 1})
    assert isinstance(job, SettledJob)
    assert job.entries == job.unpriced == ()
