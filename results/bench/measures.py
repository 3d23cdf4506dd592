"""What is measured, each in its own process: ``python -m results.bench.measures NAME``.

Prints the figures as one JSON object. Times are of the work named, without imports.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, pairwise
from math import isclose
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from grammar import Goal, Instruction, Program, parse, spell
from hierarchies import Axis, Reduction, Tree, load, placements
from hierarchies.links import Network
from results.bench import clock
from results.bench import questions as whole
from results.bench.perturbed import perturb
from synth.collective.emit.source import CannotExpressError, EmitOptions, EmitSource
from synth.collective.emit.targets import TARGETS, emit
from synth.collective.price.flows import simulate
from synth.collective.price.step_prices import Simulator
from synth.collective.price.steps import InstructionPrice
from synth.collective.ranking.answers import price_phases
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Report, Request
from synth.collective.semantics.layout import Move
from synth.collective.semantics.lowering import lower
from synth.collective.semantics.programs import Language, Vertex, explore_moves, explore_states
from synth.collective.semantics.rules import State
from synth.collective.semantics.schedule import Exchange, Schedule
from synth.collective.verify.rehearsal import derive_valid
from synth.collective.verify.symbolic import Proved, prove
from synth.collective.workload.files import read_job
from synth.collective.workload.planner import plan_job
from synth.events.overlap import makespan_seconds
from synth.search.best_first import PathGraph

Figures = dict[str, float]
Graph = PathGraph[Vertex, Move]
GOALS = (Goal.ALL_REDUCE, Goal.REDUCE_SCATTER, Goal.ALL_GATHER, Goal.ALL_TO_ALL)
SEED = 2110_10548
PAYLOAD_BYTES = 2**30


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = perf_counter()
    result = work()
    return perf_counter() - begun, result


def programs(digits: str) -> Figures:
    """All valid programs to 5 steps, searched and counted."""
    taken, count = seconds(lambda: sum(explore_states(int(digits), Language()).count()))
    return {"seconds": taken, "programs": count}


def top(system: str, sizes: str, over: str) -> Figures:
    """The ten best of all placements and programs, exactly, proved."""
    taken, report = seconds(lambda: asked(system, sizes, over))
    assert report.complete
    return {
        "seconds": taken,
        "placements": report.looked.placements,
        "programs": report.looked.programs,
    }


def asked(system: str, sizes: str, over: str) -> Report:
    """``sizes`` as in ``8,4`` for axes a0, a1, ...; ``over`` as in ``a0,a1``."""
    axes = tuple(Axis(f"a{i}", int(size)) for i, size in enumerate(sizes.split(",")))
    return answers(load(system), Request(axes, tuple(over.split(",")), PAYLOAD_BYTES))


def plan(system: str) -> Figures:
    """One placement for eight collectives over four axes, exactly, proved.

    The axes have sizes as even as can be. A collective over each axis and one over each two
    neighbours: an all-reduce, a reduce-scatter, an all-gather and an all-to-all by turns.
    """
    machine = load(system)
    sizes = _evenly(machine.devices, 4)
    text = 'name = "eight"\ntitle = "Eight collectives"\n[axes]\n'
    text += "".join(f"a{i} = {size}\n" for i, size in enumerate(sizes))
    for span, payload in ((1, "1 GiB"), (2, "64 MiB")):
        for i, goal in enumerate(GOALS):
            over = [f"a{(i + j) % len(sizes)}" for j in range(span)]
            text += (
                f'[[collective]]\nname = "{goal.value} over {span}"\nrequest = "{goal.value}"\n'
                f'over = {over}\nbytes = "{payload}"\ntimes = 1\nhidden = 0\n'
            )
    job = read_job(text)
    taken, found = seconds(lambda: plan_job(machine, job))
    assert found.complete
    assert len(found.entries) == 8
    return {"seconds": taken, "placements": found.placements, "devices": machine.devices}


def _evenly(number: int, parts: int) -> list[int]:
    """A power of two as a product of so many, as even as can be, the larger ones first."""
    exponent = number.bit_length() - 1
    assert number == 2**exponent
    return [2 ** ((exponent + parts - 1 - i) // parts) for i in range(parts)]


def scale(over: str) -> Figures:
    """The same question on 64 and on 65,536 devices, by turns.

    Both have as many placements and programs, and the same programs to prove among the best.
    """
    small, large = [], []
    for _ in range(9):
        taken, few = seconds(lambda: asked("dgx-h100:8", "8,8", over))
        small.append(taken)
        taken, many = seconds(lambda: asked("dgx-h100:8192", "8192,8", over))
        large.append(taken)
        assert _asked_for(few) == _asked_for(many), "the two are not comparable"
    ratio = median(b / a for a, b in zip(small, large, strict=True))
    return {"ratio": ratio, "seconds_64": median(small), "seconds_65536": median(large)}


def _asked_for(report: Report) -> tuple[int, int, frozenset[str]]:
    """What the work of an answer depends on."""
    proved = frozenset(str(answer.candidate.program) for answer in report.answers)
    return report.looked.placements, report.looked.programs, proved


def pricing(over: str) -> Figures:
    """As ``scale``, but only what ranks: no search of programs, no replays, no proofs."""
    graphs = {depth: explore_moves(depth, Language()) for depth in (1, 2)}
    small, large = [], []
    for _ in range(15):
        small.append(seconds(lambda: _ranked("dgx-h100:8", "8,8", over, graphs))[0])
        large.append(seconds(lambda: _ranked("dgx-h100:8192", "8192,8", over, graphs))[0])
    ratio = median(b / a for a, b in zip(small, large, strict=True))
    return {"ratio": ratio, "seconds_64": median(small), "seconds_65536": median(large)}


def _ranked(name: str, sizes: str, over: str, graphs: dict[int, Graph]) -> list[int]:
    system = load(name)
    simulator = Simulator(system)
    axes = tuple(Axis(f"a{i}", int(size)) for i, size in enumerate(sizes.split(",")))
    found = []
    for placement in placements(system.hierarchy, axes):
        reduction = Reduction(placement, tuple(over.split(",")))
        graph = graphs[len(reduction.tree.digits)]
        prices = simulator.prices(graph.alphabet, reduction, PAYLOAD_BYTES)
        paths = graph.cheapest(prices, range(len(prices)))
        found += [path.price for path in islice(paths, 10)]
    return sorted(found)[:10]


def lowering() -> Figures:
    """Schedules that name each of 65,536 devices: microseconds per device and step."""
    report = asked("dgx-h100:8192", "8192,8", "a0,a1")
    found = []
    for answer in report.answers:
        derivation, reduction = answer.candidate.derivation, answer.candidate.reduction
        taken, schedule = seconds(partial(lower, derivation, reduction, PAYLOAD_BYTES))
        named = max(phase.groups.size for phase in schedule.phases if isinstance(phase, Exchange))
        assert named == schedule.devices, f"{derivation.program} names {named} devices"
        found.append(taken / schedule.devices / len(derivation.instructions) * 1e6)
    return {"slowest_us": max(found), "median_us": median(found), "schedules": len(found)}


def emission() -> Figures:
    """Milliseconds that every target takes for the ten best answers of 512 devices.

    The first call of a target loads what it needs. Refusals count like files: they name the targets
    that can.
    """
    system = load("dgx-h100:64")
    axes = (Axis("data", 128), Axis("model", 4))
    request = Request(axes, ("data",), PAYLOAD_BYTES, placement=((64, 2), (1, 4)), stripes=False)
    first: list[float] = []
    later: list[float] = []
    refused = 0
    for answer in answers(system, request).answers:
        derivation, reduction = answer.candidate.derivation, answer.candidate.reduction
        schedule = lower(derivation, reduction, PAYLOAD_BYTES)
        assert isinstance(answer.verdict, Proved)
        options = EmitOptions(channels=16)
        source = EmitSource(schedule, system, answer.prices, answer.verdict, options)
        for target in TARGETS:
            taken, written = seconds(partial(_emitted, target, source))
            (later if answer.rank > 1 else first).append(taken * 1e3)
            refused += not written
    files = len(first) + len(later) - refused
    return {
        "first_ms": max(first),
        "slowest_ms": max(later),
        "files": files,
        "refused": refused,
    }


def _emitted(target: str, source: EmitSource) -> bool:
    """Whether the target can express the schedule, by writing it."""
    try:
        emit(target, source)
    except CannotExpressError:
        return False
    return True


def flows(name: str, segments: str) -> Figures:
    """Completions a second where every link is perturbed by up to 10 %, setting up included.

    The program scatters level by level to the outermost, reduces there and gathers again.
    """
    schedule, prices, network = _there_and_back(name, int(segments))
    taken, flowed = seconds(partial(simulate, schedule, prices, perturb(network, SEED)))
    assert flowed.complete
    ends = len(set(flowed.ends.ravel().tolist()))
    return {
        "completion_us": taken / flowed.completions * 1e6,
        "per_second": flowed.completions / taken,
        "completions": flowed.completions,
        "different_ends": ends,
    }


def symmetry(name: str, segments: str) -> Figures:
    """A schedule of three steps by the symmetric engine, and all its flows one by one.

    Both say the same where links are as described; the second also with all of them perturbed.
    """
    schedule, prices, network = _there_and_back(name, int(segments))
    works = [price.work for price in prices]
    taken, alike = seconds(partial(makespan_seconds, works, schedule.segments))
    assert isclose(simulate(schedule, prices, network).seconds, alike, rel_tol=1e-9)
    each, _ = seconds(partial(simulate, schedule, prices, perturb(network, SEED)))
    return {"symmetric_seconds": taken, "flows_seconds": each}


def _there_and_back(
    name: str, segments: int
) -> tuple[Schedule, tuple[InstructionPrice, ...], Network]:
    system = load(name)
    axis = Axis("a0", system.devices)
    [placement] = placements(system.hierarchy, (axis,))
    reduction = Reduction(placement, (axis.name,))
    digits = reduction.tree.names
    inward = [f"{low} parallel({up})" for up, low in pairwise(digits[:-1])]
    slices = [f"{digits[-2]} inside", *reversed(inward)]
    steps = [f"reduce-scatter {one}" for one in slices]
    steps.append(f"all-reduce {digits[0]} parallel(root)")
    steps += [f"all-gather {one}" for one in reversed(slices)]
    derivation = derive_valid(parse("; ".join(steps)), reduction.tree)
    schedule = lower(derivation, reduction, PAYLOAD_BYTES, segments)
    each = PAYLOAD_BYTES / segments
    prices = tuple(price_phases(Simulator(system), derivation, reduction, each))
    return schedule, prices, Network.of(system)


def proofs(digits: str, sample: str) -> Figures:
    """Proofs of programs drawn at random, all valid ones being equally likely."""
    depth = int(digits)
    graph = explore_states(depth, Language())
    tree = Tree.of(*[2] * depth)
    found = []
    for steps in _drawn(graph, int(sample)):
        program = Program(tuple(spell(step, tree) for step in steps))
        taken, verdict = seconds(partial(prove, program, tree))
        assert isinstance(verdict, Proved), f"{program}: {verdict}"
        found.append(taken)
    return {"slowest": max(found), "median": median(found), "proofs": len(found)}


def _drawn(graph: PathGraph[State, Instruction], sample: int) -> Iterator[tuple[Instruction, ...]]:
    """Random paths to a goal, each equally likely; always the same ones."""
    random = Random(SEED)
    tables = _completions(graph)
    lengths = [table[0] for table in tables]
    following = _following(graph)
    for left in random.choices(range(len(tables)), lengths, k=sample):
        vertex, steps = 0, []
        for rest in reversed(range(left)):
            edges = following[vertex]
            weights = [tables[rest][target] for _, target in edges]
            [(label, vertex)] = random.choices(edges, weights)
            steps.append(graph.alphabet[label])
        yield tuple(steps)


def _following(graph: PathGraph[State, Instruction]) -> dict[int, list[tuple[int, int]]]:
    following: dict[int, list[tuple[int, int]]] = {}
    edges = zip(graph.sources.tolist(), graph.labels.tolist(), graph.targets.tolist(), strict=True)
    for source, label, target in edges:
        following.setdefault(source, []).append((label, target))
    return following


def _completions(graph: PathGraph[State, Instruction]) -> list[list[int]]:
    """For 0, 1, ... moves: from how many paths each vertex reaches a goal in exactly so many."""
    table = [0] * len(graph.vertices)
    for goal in graph.goals.tolist():
        table[goal] = 1
    tables = [table]
    following = _following(graph)
    for _ in range(graph.max_moves):
        vertices = range(len(graph.vertices))
        table = [sum(tables[-1][to] for _, to in following.get(v, ())) for v in vertices]
        tables.append(table)
    return tables


MEASURES: dict[str, Callable[..., Figures]] = {
    "programs": programs,
    "top": top,
    "plan": plan,
    "scale": scale,
    "pricing": pricing,
    "lowering": lowering,
    "emission": emission,
    "flows": flows,
    "symmetry": symmetry,
    "proofs": proofs,
    "program": clock.program,
    "plans": clock.plans,
    "search": clock.search,
    "question": whole.questions,
    "twice": whole.twice,
    "first": whole.first_plan,
}


if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](*sys.argv[2:])))
