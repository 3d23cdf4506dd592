from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from math import prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exhaustive import examples
from grammar import Collective, Instruction, Program, list_instructions, parse, spell
from grouped_members import distinct
from hierarchies import (
    Axis,
    Domain,
    Hierarchy,
    InputError,
    Level,
    Link,
    Placement,
    Reduction,
    System,
    load,
    placements,
)
from places import ROOT
from strategies import systems
from synth.collective.algorithms.algorithms import Choice
from synth.collective.price.bound import bound
from synth.collective.price.defaults import defaults
from synth.collective.price.resolution import FINEST, OTHERS_LINKS, PriceEstimate, is_beyond
from synth.collective.price.segments import SEGMENTS, price_ticks
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import (
    TICKS_PER_SECOND,
    InstructionPrice,
    limiting_resource,
    ticks_of,
)
from synth.collective.price.ways import PriceLine
from synth.collective.ranking import planner
from synth.collective.ranking.distinct import Member
from synth.collective.ranking.request import Answer, Report, Request, Watcher
from synth.collective.semantics.layout import Move
from synth.collective.semantics.lowering import lower, moves
from synth.collective.semantics.programs import Language
from synth.collective.semantics.rules import Derivation, Refusal, derive
from synth.collective.verify.rehearsal import derive_valid, rehearse
from synth.collective.verify.replay import compare_stripes
from synth.collective.verify.symbolic import Proved
from synth.events.overlap import Lane, makespan_within

GB = 10**9
Texts = tuple[str, ...]
Key = tuple[int, int, Texts, int]


def answers(system: System, request: Request, watcher: Watcher | None = None) -> Report:
    """Every program an answer of its own: what is grouped is tested further down."""
    return planner.answers(system, replace(request, exact=True), watcher)


# Every valid program, found by trying all: no graph, no search.


@cache
def skeletons(depth: int, max_steps: int, across: bool) -> tuple[tuple[Instruction, ...], ...]:
    """Every program that reaches the goal at its last step and not before."""
    if depth == 0:
        return ((),)
    tree = Reduction.plain(*[2] * depth).tree
    known = list_instructions(depth, across=across)
    found = []
    alive: list[tuple[Instruction, ...]] = [()]
    for _ in range(max_steps):
        grown = []
        for start in alive:
            for step in known:
                steps = (*start, step)
                program = Program(tuple(spell(s, tree) for s in steps))
                outcome = derive(program, tree)
                if not isinstance(outcome, Refusal):
                    found.append(steps)
                elif outcome.step is None:
                    grown.append(steps)
        alive = grown
    return tuple(found)


@cache
def brute_force(system: System, request: Request) -> list[list[Key]]:
    """For each placement the ranking keys of all programs, each priced step by step."""
    found = []
    every = (
        placements(system.hierarchy, request.axes)
        if request.placement is None
        else [Placement(system.hierarchy, request.axes, request.placement)]
    )
    for position, placement in enumerate(every):
        reduction = Reduction(placement, request.over, request.collapse)
        tree, language = reduction.tree, request.language
        simulator = Simulator(system, request.choice)
        keys = []
        for steps in skeletons(len(tree.digits), language.max_steps, language.across):
            texts = tuple(str(spell(step, tree)) for step in steps)
            derivation = derive_valid(Program(tuple(spell(step, tree) for step in steps)), tree)
            ticks = min(
                segmented_ticks(simulator, derivation, reduction, request.payload_bytes, segments)
                for segments in request.segments
            )
            keys.append((ticks, len(steps), texts, position))
        found.append(sorted(keys))
    return found


def segmented_ticks(
    simulator: Simulator, derivation: Derivation, reduction: Reduction, payload: int, segments: int
) -> int:
    """By the best choice of algorithms: alone each step's fastest, else all choices are tried."""
    size = payload / segments
    if segments == 1:
        prices = (p for move in moves(derivation) for p in simulator.move(move, reduction, size))
        return sum(price.ticks for price in prices)
    ways = [list(by_any_algorithm(simulator, move, reduction, size)) for move in moves(derivation)]
    return min(
        price_ticks([price.work for prices in steps for price in prices], segments)
        for steps in product(*ways)
    )


def by_any_algorithm(
    simulator: Simulator, move: Move, reduction: Reduction, size: float
) -> Iterator[list[InstructionPrice]]:
    """The phases of a step by each algorithm and protocol that some other does not better."""
    seen: list[PriceLine] = []
    simulator.move(move, reduction, size, lambda lines, _: seen.extend(lines) or lines[0])
    asks = [
        {"latency": line.waiting_seconds(size)} | {n: size * load for n, load in line.resources}
        for line in seen
    ]

    def beats(one: int, other: int) -> bool:
        """Whether one asks for no more; of two that ask for the same, the faster, or the first."""
        more, less = (
            all(asks[a][n] <= asks[b].get(n, 0.0) * (1 + 1e-9) for n in asks[a])
            for a, b in ((one, other), (other, one))
        )
        first = (seen[one].seconds(size), one) < (seen[other].seconds(size), other)
        return more and (first or not less)

    for number in range(len(seen)):
        if not any(beats(other, number) for other in range(len(seen)) if other != number):
            yield simulator.move(move, reduction, size, lambda lines, _, n=number: lines[n])


def key(answer: Answer, system: System, request: Request) -> Key:
    """The ranking key of an answer, from what is told."""
    placement = answer.candidate.reduction.placement
    position = 0
    if request.placement is None:
        position = list(placements(system.hierarchy, request.axes)).index(placement)
    parts = answer.candidate.parts
    texts = tuple(str(step) for part in parts for step in part.program.steps)
    return told_ticks(answer), len(texts), texts, position


def told_ticks(answer: Answer) -> int:
    """The price by the phases that are told: of one program, or of several side by side."""
    lanes = [
        Lane(tuple(price.work for price in stripe.prices), stripe.part.segments)
        for stripe in answer.stripes
    ]
    if len(lanes) == 1:
        return price_ticks(lanes[0].phases, lanes[0].segments)
    return ticks_of(makespan_within(lanes))


def expected(system: System, request: Request) -> list[tuple[int, Key]]:
    """The ranks and keys of the answers by brute force."""
    every = brute_force(system, request)
    if request.per_placement:
        return [(r, k) for keys in every for r, k in enumerate(keys[: request.k], start=1)]
    flat = sorted(k for keys in every for k in keys)
    return list(enumerate(flat[: request.k], start=1))


def told(report: Report) -> list[tuple[int, Key]]:
    return [(a.rank, key(a, report.system, report.request)) for a in report.answers]


def check(report: Report) -> None:
    """What holds of every report."""
    system, request = report.system, report.request
    for answer in report.answers:
        candidate = answer.candidate
        reduction = candidate.reduction
        assert candidate.ticks == told_ticks(answer)
        assert sum(part.size_bytes for part in candidate.parts) == request.payload_bytes
        assert all(part.segments in request.segments for part in candidate.parts)
        slack = 1 if request.exact else 1 + FINEST
        assert candidate.seconds <= slack * answer.barrier_seconds or 1 not in request.segments
        assert candidate.seconds == candidate.ticks / TICKS_PER_SECOND
        assert isinstance(answer.verdict, Proved) or not report.complete
        for part in candidate.parts:
            assert derive(part.program, reduction.tree) == part.derivation
        assert answer.bound == bound(system, reduction, request.payload_bytes)
        assert candidate.ticks >= answer.bound.seconds * TICKS_PER_SECOND * (1 - 1e-9)
        named = answer.defaults.seconds
        assert answer.baseline_seconds == named[answer.defaults.chosen]
        if answer.rank == 1 and report.complete and request.choice is Choice.AUTO:
            steps = min(seconds for name, seconds in named.items() if name != "xla")
            assert answer.least_seconds <= steps or 1 not in request.segments
        names = {*system.hierarchy.names, "memory", "latency"}
        if candidate.program.steps:
            assert answer.limited_by in names
        if len(candidate.parts) == 1:
            assert answer.limited_by == limiting_resource(answer.prices, candidate.segments)
        assert all(price.limited_by in names for price in answer.prices)


# Systems and requests.


def machine(*sizes: int, through: bool = False) -> System:
    """Levels of switches, the outer the slower."""
    names = ("rack", "node", "gpu")[-len(sizes) :]
    levels = tuple(Level(name, size) for name, size in zip(names, sizes, strict=True))
    links = tuple(
        Link(
            Domain.SWITCH,
            bandwidth,
            latency,
            through=(names[i + 1 :] if through else ()),
        )
        for i, (bandwidth, latency) in enumerate(
            [(10e9, 2e-5), (25e9, 1e-5), (300e9, 2e-6)][-len(sizes) :]
        )
    )
    return System("m", "", Hierarchy(levels), links, 1.5e12)


def axes(**sizes: int) -> tuple[Axis, ...]:
    return tuple(Axis(name, size) for name, size in sizes.items())


TWO_BY_FOUR = machine(2, 4)
TORUS = System(
    "t",
    "",
    Hierarchy((Level("y", 2), Level("x", 4))),
    (Link(Domain.TORUS, 40e9, 1e-6, ports=4), Link(Domain.TORUS, 40e9, 1e-6)),
    1e12,
)
MIXED = replace(
    machine(2, 2, 2),
    links=(
        Link(Domain.SWITCH, 10e9, 1e-5, through=("node",)),
        Link(Domain.BUS, 20e9, 5e-6),
        Link(Domain.MESH, 50e9, 1e-6),
    ),
)
CASES: list[tuple[System, Request]] = [
    (TWO_BY_FOUR, Request(axes(data=8), ("data",), k=7)),
    (TWO_BY_FOUR, Request(axes(data=4, model=2), ("data",), 10**6, k=20)),
    (TWO_BY_FOUR, Request(axes(data=2, model=2, pipe=2), ("data", "pipe"), 1, k=9)),
    (
        TWO_BY_FOUR,
        Request(axes(data=4, model=2), ("data",), k=4, per_placement=True, choice=Choice.TREE),
    ),
    (TORUS, Request(axes(data=8), ("data",), k=5, choice=Choice.RING)),
    (TWO_BY_FOUR, Request(axes(data=8), ("data",), k=7, segments=(1, 2, 5, 16))),
    (TORUS, Request(axes(data=4, model=2), ("data",), 10**7, 6, Language(3), segments=(1, 8))),
    (MIXED, Request(axes(data=8), ("data",), k=9, language=Language(3), segments=(4, 7))),
    (
        TWO_BY_FOUR,
        Request(axes(data=4, model=2), ("data",), k=4, per_placement=True, segments=(1, 3)),
    ),
    (TORUS, Request(axes(data=4, model=2), ("data",), k=12, choice=Choice.TREE)),
    (MIXED, Request(axes(data=8), ("data",), 10**7, k=15, language=Language(2))),
    (
        MIXED,
        Request(axes(data=8), ("data",), 10**7, 8, Language(2, across=True), per_placement=True),
    ),
    (
        MIXED,
        Request(
            axes(data=2, model=2, pipe=2),
            ("data", "pipe"),
            k=6,
            language=Language(2),
            collapse=False,
        ),
    ),
    (
        machine(3, 2, through=True),
        Request(axes(data=2, model=3), ("data", "model"), k=30, collapse=False),
    ),
]


@pytest.mark.parametrize(("system", "request_"), CASES)
def test_answers_are_the_first_of_a_brute_force_ranking(system: System, request_: Request) -> None:
    request = request_
    if request.language.max_steps == 5:
        request = replace(request, language=Language(3, request.language.across))
    request = replace(request, stripes=False)
    report = answers(system, request)
    check(report)
    assert report.complete
    assert told(report) == expected(system, request)
    every = brute_force(system, request)
    assert report.looked.placements == len(every)
    assert report.looked.programs == sum(map(len, every))


def test_ties_between_placements_are_settled_by_spelling_then_by_placement() -> None:
    """Every step takes one picosecond: a later placement enters at the price of the last."""
    system = machine(2, 2, 2)
    links = tuple(
        replace(link, bandwidth_bytes_per_second=1e18, latency_seconds=0.0) for link in system.links
    )
    system = replace(system, links=links, memory_bytes_per_second=1e18)
    for k in range(1, 10):
        request = Request(axes(data=2, model=4), ("data",), 1, k)
        report = answers(system, request)
        assert told(report) == expected(system, request)
        assert [k[3] for _, k in told(report)] == [0, 1, 2, 0, 1, 2, 0, 1, 2][:k]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "request_"),
    [
        (machine(2, 2, 2), Request(axes(data=8), ("data",), k=25, language=Language(3))),
        (MIXED, Request(axes(data=4, model=2), ("data",), k=25, language=Language(4))),
        (MIXED, Request(axes(data=8), ("data",), 10**5, 25, Language(3, across=True))),
    ],
)
def test_larger_brute_force_rankings(system: System, request_: Request) -> None:
    request_ = replace(request_, stripes=False)
    report = answers(system, request_)
    check(report)
    assert told(report) == expected(system, request_)


@given(systems(12), st.data())
@examples(12, 40)
def test_answers_on_any_machine(system: System, data: st.DataObject) -> None:
    devices = system.devices
    size = data.draw(st.sampled_from([d for d in range(1, devices + 1) if devices % d == 0]))
    request = Request(
        axes(data=size, model=devices // size),
        data.draw(st.sampled_from([("data",), ("model",), ("data", "model")])),
        data.draw(st.integers(1, 10**10)),
        k=data.draw(st.integers(1, 3)),
        language=Language(2, data.draw(st.booleans())),
        choice=data.draw(st.sampled_from(Choice)),
        collapse=data.draw(st.booleans()),
        per_placement=data.draw(st.booleans()),
        stripes=False,
    )
    depths = [
        len(Reduction(p, request.over, request.collapse).tree.digits)
        for p in placements(system.hierarchy, request.axes)
    ]
    assume(max(depths) <= 3 and len(depths) <= 6)
    report = answers(system, request)
    check(report)
    assert report.complete
    assert told(report) == expected(system, request)


# What prices cannot tell apart is one answer.


def every_member(
    system: System, request: Request, placement: Placement
) -> list[Member[tuple[Texts, int]]]:
    """Every program of a placement in every number of segments, priced step by step."""
    reduction = Reduction(placement, request.over, request.collapse)
    tree, simulator, found = reduction.tree, Simulator(system, request.choice), []
    for steps in skeletons(len(tree.digits), request.language.max_steps, request.language.across):
        program = Program(tuple(spell(step, tree) for step in steps))
        texts, derivation = tuple(str(step) for step in program.steps), derive_valid(program, tree)
        for count in request.segments:
            size = request.payload_bytes
            ticks = segmented_ticks(simulator, derivation, reduction, size, count)
            simplicity = (1, count, len(steps), texts)
            found.append(Member(PriceEstimate(ticks), simplicity, texts, (texts, count)))
    return found


@pytest.mark.parametrize(("system", "request_"), CASES)
def test_answers_are_the_simplest_members_of_a_brute_force_grouping(
    system: System, request_: Request
) -> None:
    request = replace(request_, stripes=False, per_placement=True, placement=None)
    request = replace(request, language=Language(2, request.language.across))
    report = planner.answers(system, request)
    told_there: list[tuple[Placement, Texts, int, int]] = []
    for placement in placements(system.hierarchy, request.axes):
        grouped = distinct(every_member(system, request, placement), request.k)
        told_there += [(placement, *one.what, one.others) for one in grouped]
    assert told_there == [
        (
            answer.candidate.reduction.placement,
            tuple(str(step) for step in answer.candidate.program.steps),
            answer.candidate.segments,
            answer.others,
        )
        for answer in report.answers
    ]


@given(systems(12), st.integers(1, 10**9), st.integers(1, 4))
@examples(8, 40)
def test_no_two_answers_of_a_placement_are_within_the_resolution(
    system: System, payload: int, k: int
) -> None:
    assume(len(system.hierarchy.levels) <= 3)
    request = Request(axes(data=system.devices), ("data",), payload, k, Language(2))
    report = planner.answers(system, request)
    check(report)
    for one, other in pairwise(report.answers):
        assert is_beyond(one.candidate.ticks, other.candidate.ticks)
    texts = [answer.candidate.text for answer in report.answers]
    assert len(set(texts)) == len(texts)
    for answer in report.answers:
        claimed = (1 + OTHERS_LINKS) * answer.runtime_seconds
        assert not answer.gains or answer.baseline_seconds > claimed
        assert answer.least_seconds <= answer.candidate.seconds
        assert answer.candidate.seconds <= (1 + FINEST) * answer.least_seconds
    [best] = answers(system, replace(request, k=1)).answers
    assert report.answers[0].least_seconds <= best.candidate.seconds


@pytest.mark.parametrize("choice", Choice)
def test_the_best_default_is_the_cheapest_of_what_the_runtime_would_choose(choice: Choice) -> None:
    request = Request(axes(data=4, model=2), ("data",), choice=choice, k=3, per_placement=True)
    simulator = Simulator(TWO_BY_FOUR, choice)
    expected = {}
    for placement in placements(TWO_BY_FOUR.hierarchy, request.axes):
        reduction = Reduction(placement, ("data",))
        expected[placement] = defaults(simulator, reduction, request.payload_bytes)
    report = answers(TWO_BY_FOUR, request)
    chosen = {placement: one.seconds[one.chosen] for placement, one in expected.items()}
    assert report.looked.best_default_seconds == min(chosen.values())
    for answer in report.answers:
        mine = answer.candidate.reduction.placement
        assert answer.baseline_seconds == chosen[mine]
        assert answer.defaults == expected[mine]
    first = report.answers[0]
    same_way = first.defaults.seconds.get(choice.value, first.baseline_seconds)
    assert first.candidate.seconds <= same_way


# How many answers there are.


@pytest.mark.parametrize("per_placement", [False, True])
def test_asking_for_more_than_there_is_gives_all(per_placement: bool) -> None:
    """One digit: 3 programs; two digits: 93 (section 3 of the language definition)."""
    system = machine(2, 2)
    request = Request(axes(data=2, model=2), ("data",), k=1000, per_placement=per_placement)
    report = answers(system, request)
    check(report)
    assert report.looked.placements == 2
    assert report.looked.programs == len(report.answers) == 6
    assert told(report) == expected(system, request)


def test_all_programs_of_two_digits_leave_proved() -> None:
    request = Request(axes(data=4), ("data",), k=1000)
    report = answers(machine(2, 2), request)
    check(report)
    assert len(report.answers) == report.looked.programs == 93
    ranks = [answer.rank for answer in report.answers]
    assert ranks == list(range(1, 94))
    ticks = [answer.candidate.ticks for answer in report.answers]
    assert all(a <= b for a, b in pairwise(ticks))


@pytest.mark.parametrize(
    ("system", "sizes", "over"),
    [
        (machine(1), {"data": 1}, ("data",)),
        (machine(1, 1), {"data": 1, "model": 1}, ("data", "model")),
        (TWO_BY_FOUR, {"data": 1, "model": 8}, ("data",)),
    ],
)
def test_nothing_to_reduce_takes_no_step_and_no_time(
    system: System, sizes: dict[str, int], over: tuple[str, ...]
) -> None:
    report = answers(system, Request(axes(**sizes), over))
    assert report.complete
    [answer] = report.answers
    assert str(answer.candidate.program) == ""
    assert (answer.candidate.ticks, answer.prices) == (0, ())
    assert isinstance(answer.verdict, Proved)
    assert (answer.bound.seconds, answer.baseline_seconds) == (0, 0)
    assert report.looked.best_default_seconds == 0


def test_a_tree_of_one_digit_has_three_programs() -> None:
    report = answers(machine(4), Request(axes(data=4), ("data",)))
    check(report)
    assert {str(a.candidate.program) for a in report.answers} == {
        "all-reduce root inside",
        "reduce-scatter root inside; all-gather root inside",
        "reduce root inside; broadcast root inside",
    }


def test_a_fixed_placement_is_the_only_one_looked_at() -> None:
    request = Request(axes(data=4, model=2), ("data",), k=4)
    everywhere = answers(TWO_BY_FOUR, replace(request, per_placement=True))
    for position, placement in enumerate(placements(TWO_BY_FOUR.hierarchy, request.axes)):
        fixed = answers(TWO_BY_FOUR, replace(request, placement=placement.matrix))
        assert fixed.looked.placements == 1
        mine = [k[:3] for _, k in told(everywhere) if k[3] == position]
        assert [k[:3] for _, k in told(fixed)] == mine


# Stopping.


class Patience(Watcher):
    """Stops when asked for the n-th time."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.told: list[tuple[int, int]] = []

    def go_on(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def placed(self, done: int, of: int) -> None:
        self.told.append((done, of))


REQUEST = Request(axes(data=4, model=2), ("data",), 10**6, k=5, language=Language(3), stripes=False)


@pytest.mark.parametrize("times", [1, 2, 3, 5, 8, 13, 40, 100])
def test_whoever_is_stopped_says_so_and_answers_what_he_has(times: int) -> None:
    report = answers(TWO_BY_FOUR, REQUEST, Patience(times))
    check(report)
    full = answers(TWO_BY_FOUR, REQUEST)
    if report.complete:
        assert report == full
    every = {k for keys in brute_force(TWO_BY_FOUR, REQUEST) for k in keys}
    found = told(report)
    assert {k for _, k in found} <= every
    assert [k for _, k in found] == sorted(k for _, k in found)
    assert [rank for rank, _ in found] == list(range(1, len(found) + 1))


def test_the_first_placement_is_always_priced() -> None:
    report = answers(TWO_BY_FOUR, REQUEST, Patience(0))
    assert not report.complete
    assert report.looked.placements == 1
    check(report)


def test_whoever_is_stopped_at_once_still_has_the_plain_all_reduce() -> None:
    """House rule: a partial answer at a time limit; and that one needs no search."""
    report = answers(TWO_BY_FOUR, REQUEST, Patience(0))
    assert isinstance(report.answers[0].verdict, Proved)
    check(report)


def test_without_a_stop_it_is_complete_and_told_of_every_placement() -> None:
    watcher = Patience(10**9)
    report = answers(TWO_BY_FOUR, REQUEST, watcher)
    assert report.complete
    assert report == answers(TWO_BY_FOUR, REQUEST)
    assert watcher.told == [
        (i, report.looked.placements) for i in range(1, report.looked.placements + 1)
    ]


# Determinism.


SCRIPT = """
from hierarchies import Axis, load
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Request
from synth.collective.price.segments import SEGMENTS, price_ticks
from synth.collective.semantics.programs import Language
request = Request(
    (Axis("data", 8), Axis("model", 2)), ("data",), k=20, language=Language(4, True), exact=True
)
for a in answers(load("dgx-a100:2"), request).answers:
    c = a.candidate
    print(a.rank, c.ticks, c.reduction.placement, c.program, a.prices, a.verdict, a.limited_by)
"""


def test_the_same_question_has_the_same_answer_whatever_the_hash_seed() -> None:
    root = ROOT
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    [output] = outputs
    assert len(output.splitlines()) == 20


# Laws of the whole.


@given(systems(12), st.integers(1, 10**9), st.integers(1, 1000))
@examples(8, 20)
def test_the_best_answer_takes_no_less_for_more_bytes(
    system: System, payload: int, factor: int
) -> None:
    assume(len(system.hierarchy.levels) <= 3)
    request = Request(axes(data=system.devices), ("data",), payload, 1, Language(3), stripes=False)
    small, large = (
        answers(system, replace(request, payload_bytes=p)) for p in (payload, payload * factor)
    )
    assert small.answers[0].candidate.ticks <= large.answers[0].candidate.ticks


@given(systems(12))
@examples(8, 20)
def test_a_larger_choice_never_has_a_worse_best(system: System) -> None:
    assume(len(system.hierarchy.levels) <= 3)
    request = Request(axes(data=system.devices), ("data",), GB, 1, Language(2), stripes=False)

    def best(changed: Request) -> int:
        return answers(system, changed).answers[0].candidate.ticks

    auto = best(request)
    assert auto <= best(replace(request, choice=Choice.RING))
    assert auto <= best(replace(request, choice=Choice.TREE))
    assert best(replace(request, language=Language(3))) <= auto
    assert best(replace(request, language=Language(2, across=True))) <= auto


@given(systems(12), st.integers(1, 10**9))
@examples(8, 20)
def test_overlap_never_has_a_worse_best_and_never_beats_the_bound(
    system: System, payload: int
) -> None:
    assume(len(system.hierarchy.levels) <= 3)
    request = Request(axes(data=system.devices), ("data",), payload, k=3, language=Language(3))
    barriers, overlap = (
        answers(system, replace(request, segments=some)) for some in ((1,), SEGMENTS)
    )
    check(overlap)
    [first, *_], [plain, *_] = overlap.answers, barriers.answers
    assert first.candidate.ticks <= plain.candidate.ticks
    assert first.candidate.seconds <= min(first.baseline_seconds, *first.defaults.seconds.values())


def test_overlap_wins_on_machines_with_a_nic_for_each_device() -> None:
    """Barriers lose to the flat ring there; the same steps overlapped come near the bound."""
    request = Request(axes(data=32), ("data",), k=2, segments=SEGMENTS, stripes=False)
    system = replace(load("dgx-h100:4"), launches=False)
    [first, second] = answers(system, request).answers
    assert min(first.candidate.segments, second.candidate.segments) > 1
    assert first.barrier_seconds > 1.7 * first.candidate.seconds
    assert first.defaults.seconds["ring"] > 1.15 * first.candidate.seconds
    links = tuple(replace(link, reduces=False) for link in load("dgx-h100:4").links)
    plain = replace(load("dgx-h100:4"), links=links)
    reduction = first.candidate.reduction
    least = bound(plain, reduction, request.payload_bytes)
    assert least.seconds > 0.9 * first.candidate.seconds  # a switch that reduces bounds it less


@given(systems(12), st.integers(1, 10**9), st.booleans())
@examples(10, 25)
def test_stripes_join_a_ranking_that_stays_as_it_was(
    system: System, payload: int, per_placement: bool
) -> None:
    """At most one split a placement; no worse than without; each a whole payload, and exact."""
    assume(len(system.hierarchy.levels) <= 3)
    request = Request(
        axes(data=system.devices // 2 or 1, model=min(system.devices, 2)),
        ("data",),
        payload,
        3,
        Language(3),
        per_placement=per_placement,
    )
    assume(prod(axis.size for axis in request.axes) == system.devices)
    report, alone = (answers(system, replace(request, stripes=on)) for on in (True, False))
    check(report)
    split = [answer for answer in report.answers if len(answer.stripes) > 1]
    places = [answer.candidate.reduction.placement for answer in split]
    assert len(set(places)) == len(places)
    assert report.answers[0].candidate.ticks <= alone.answers[0].candidate.ticks
    single = [
        told_of
        for told_of, a in zip(told(report), report.answers, strict=True)
        if len(a.stripes) == 1
    ]
    assert {k for _, k in single} <= {k for _, k in told(alone)}
    for answer in split:
        reduction = answer.candidate.reduction
        schedules = [
            lower(part.derivation, reduction, part.size_bytes, part.segments)
            for part in answer.candidate.parts
        ]
        assert compare_stripes(schedules, 101) is None


def test_stripes_come_near_the_bound() -> None:
    """One program leaves links idle: while messages are waited for, or by the order of levels.

    The bound counts no launches, so neither do these machines.
    """
    for name, size in (("dgx-h100:4", 32), ("tpu-v5e-slice", 256)):
        request = Request(axes(data=size), ("data",), k=1, choice=Choice.ANY)
        [split], [alone] = (
            answers(replace(load(name), launches=False), replace(request, stripes=on)).answers
            for on in (True, False)
        )
        assert 1 < len(split.stripes) <= 4
        assert split.bound.seconds > 0.95 * split.candidate.seconds
        assert alone.bound.seconds < 0.93 * alone.candidate.seconds
        assert isinstance(split.verdict, Proved)


def test_barriers_have_no_stripes() -> None:
    request = Request(axes(data=32), ("data",), segments=(1,))
    assert all(len(answer.stripes) == 1 for answer in answers(load("dgx-h100:4"), request).answers)


def test_a_stop_leaves_stripes_out() -> None:
    request = Request(axes(data=32), ("data",), k=2)
    for times in (0, 3, 10, 30):
        report = answers(load("dgx-h100:4"), request, Patience(times))
        assert report.answers
        assert not report.complete
        check(report)


def test_three_steps_beat_one_on_the_a100_system_of_the_paper() -> None:
    """The published result: all-reduce over nodes with one NIC each is best done in steps.

    One step is a ring there. NCCL takes a tree by itself over 2 nodes, which is as fast as steps.
    """
    for nodes in (2, 4):
        system = load(f"p2-a100:{nodes}")
        request = Request(
            axes(data=system.devices),
            ("data",),
            1 << 30,
            1,
            Language(3),
            Choice.RING,
            stripes=False,
        )
        [answer] = answers(system, request).answers
        assert answer.candidate.program == parse(
            "reduce-scatter node inside; all-reduce node parallel(root); all-gather node inside"
        )
        own = answer.defaults
        assert own.seconds["ring"] > 1.2 * answer.candidate.seconds
        assert own.chosen == ("tree" if nodes == 2 else "ring")
        assert answer.limited_by == "node"


# Refusals, and the small functions.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Request(axes(data=8), ("data",), 0), "payload is 0 bytes"),
        (lambda: Request(axes(data=8), ("data",), k=0), "k is 0"),
        (lambda: answers(TWO_BY_FOUR, Request(axes(data=4), ("data",))), "multiply to 4"),
        (lambda: answers(TWO_BY_FOUR, Request(axes(data=8), ("dat",))), "no axis 'dat'"),
        (lambda: answers(TWO_BY_FOUR, Request(axes(data=8), ())), "no axis to reduce"),
        (
            lambda: answers(TWO_BY_FOUR, Request(axes(data=8), ("data",), placement=((4, 2),))),
            "column",
        ),
        (
            lambda: answers(TWO_BY_FOUR, Request(axes(data=8), ("data",), 10**40)),
            "one step would take",
        ),
    ],
)
def test_what_means_nothing_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_the_plain_program(depth: int) -> None:
    derivation = derive_valid(parse("all-reduce root inside"), Reduction.plain(*[3] * depth).tree)
    assert len(derivation.instructions) == min(depth, 1)
    assert all(s.collective is Collective.ALL_REDUCE for s in derivation.instructions)
    rehearse(derivation)


def test_nothing_limits_nothing() -> None:
    assert limiting_resource(()) == ""


def test_a_search_that_is_cut_short_has_looked_at_what_may_be_best_first() -> None:
    """All 64 by one tree take 1.5 times as long here: choices for one segment come later."""
    request = Request((Axis("data", 64),), ("data",), 6.0 * 2**20, k=1, stripes=False)
    [best] = answers(load("p2-a100:4"), request).answers
    assert len(best.candidate.program.steps) > 1
    assert best.candidate.seconds < 1.45e-3
