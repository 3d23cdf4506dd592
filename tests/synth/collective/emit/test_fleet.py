"""Emitted programs executed by real runtimes: each equals the plain sum, whatever the rules say.

What must come out is computed here, from the reduction's grid, and not by the emitted file.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain, cycle
from math import prod
from pathlib import Path

import numpy as np
import pytest

import exhaustive
from forking import FLEET, torch_python
from goal_schedules import OTHERS
from grammar import Goal, Instruction
from grammar.tensors.sharding import ReductionKind
from hierarchies import Axis, Hierarchy, Level, Placement, Reduction
from strategies import all_valid, reducing, source, spelled, striped
from synth.collective.emit.mesh import RankOrder
from synth.collective.emit.source import EmitOptions, EmitSource
from synth.collective.emit.targets import emit
from synth.collective.run.backends import find_mpiexec
from synth.collective.run.processes import Command, supervise
from synth.collective.semantics.programs import Language

TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
MPI = pytest.mark.skipif(
    find_spec("mpi4py") is None or find_mpiexec() is None, reason="needs the extra mpi"
)
RUNTIMES = pytest.mark.parametrize(
    "target", [pytest.param("torch", marks=TORCH), pytest.param("mpi", marks=MPI)]
)
MINUTES = 900.0


def run_all(target: str, folder: Path, sources: Sequence[EmitSource]) -> int:
    """Run emitted files one after the other in one job of as many processes as devices.

    Every rank compares every result (tests/fleet); how many files gave what they should. A rank
    that finds another result ends the job, and supervise raises.
    """
    jobs = []
    for number, given in enumerate(sources):
        [text] = emit(target, given).values()
        file = f"emitted{number}.py"
        (folder / file).write_text(str(text))
        schedule = given.schedule
        # Pieces are in the order of ranks, which need not count as members do.
        groups = np.sort(given.mesh.ranks(schedule.reduction.grid()), axis=1).tolist()
        units = sum(stripe.pieces * stripe.segments for stripe in given.schedules)
        jobs.append(
            {
                "file": file,
                "request": schedule.goal.value,
                "op": schedule.op.value,
                "program": str(schedule.program),
                "world": schedule.devices,
                "groups": groups,
                "elements": [
                    *(1, schedule.pieces, schedule.pieces + 1, 3 * schedule.pieces - 1),
                    *([schedule.segments * schedule.pieces + 1] if schedule.segments > 1 else []),
                    *([2, units, 3 * units + 1, 977] if given.beside else []),
                ],
            }
        )
    (folder / "jobs.json").write_text(json.dumps(jobs))
    world = sources[0].schedule.devices
    job = (str(FLEET / f"{target}_fleet.py"), str(folder))
    if target == "torch":
        words = (*torch_python(), str(FLEET / "forked.py"), str(world), *job)
    else:
        words = (str(find_mpiexec()), "-n", str(world), sys.executable, "-m", "mpi4py", *job)
    commands = [Command("the ranks", words, {"OMP_NUM_THREADS": "1"})]
    said = supervise(commands, folder, MINUTES)
    done: int = json.loads(said.splitlines()[-1])["done"]
    return done


Programs = Sequence[tuple[Instruction, ...]]


def sources(programs: Programs, reduction: Reduction, segments: int = 1) -> list[EmitSource]:
    return [
        source(spelled(steps, reduction.tree), reduction, segments, segments) for steps in programs
    ]


def side_by_side(programs: Programs, reduction: Reduction, many: int) -> list[EmitSource]:
    """As many programs side by side, with unequal shares and numbers of segments."""
    draw = random.Random(many)
    return [
        striped(
            [
                (spelled(steps, reduction.tree), draw.randint(1, 400), draw.choice([1, 2, 5]))
                for steps in programs[first : first + many]
            ],
            reduction,
        )
        for first in range(0, len(programs) - many + 1, many)
    ]


def sampled(depth: int, count: int) -> Programs:
    return random.Random(depth).sample(all_valid(depth), count)


def placed(order: RankOrder) -> list[EmitSource]:
    """Two axes on two levels, reduced over one: replicas, and ranks in both orders."""
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 4)))
    axes = (Axis("data", 4), Axis("model", 2))
    reduction = Reduction(Placement(hierarchy, axes, ((2, 2), (1, 2))), ("data",))
    found = sources(sampled(2, 8), reduction)
    options = EmitOptions(rank_order=order)
    return [EmitSource(s.schedule, s.system, s.prices, s.verdict, options) for s in found]


def uncollapsed() -> list[EmitSource]:
    """Two axes on one level, each a digit of its own, their members not in ascending order."""
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 4)))
    axes = (Axis("data", 4), Axis("model", 2))
    reductions = [
        Reduction(Placement(hierarchy, axes, matrix), ("data", "model"), collapse)
        for matrix in (((2, 2), (1, 2)), ((1, 4), (2, 1)))
        for collapse in (True, False)
    ]
    options = EmitOptions(rank_order=RankOrder.AXES)
    return [
        EmitSource(s.schedule, s.system, s.prices, s.verdict, options)
        for reduction in reductions
        for s in sources(sampled(len(reduction.tree.digits), 4), reduction)
    ]


def oddities() -> list[EmitSource]:
    """Four devices: nothing to reduce, hosts of one device, a level of one child, two axes."""
    shapes = {
        (("node", 4), ("gpu", 1)): [((4, 1),)],
        (("node", 2), ("host", 1), ("gpu", 2)): [((2, 1, 2),), ((1, 1, 1), (2, 1, 2))],
        (("node", 2), ("gpu", 2)): [((2, 1), (1, 2)), ((1, 2), (2, 1)), ((2, 2), (1, 1))],
    }
    found = []
    for levels, matrices in shapes.items():
        hierarchy = Hierarchy(tuple(Level(name, size) for name, size in levels))
        for matrix in matrices:
            axes = tuple(
                Axis(n, prod(row)) for n, row in zip(("data", "model"), matrix, strict=False)
            )
            placement = Placement(hierarchy, axes, matrix)
            for over in {("data",), tuple(axis.name for axis in axes)}:
                reduction = Reduction(placement, over)
                depth = len(reduction.tree.digits)
                programs = sampled(depth, min(3, len(all_valid(depth))))
                found += sources(programs, reduction)
    return found


@pytest.mark.slow
@RUNTIMES
def test_a_few_programs_run(target: str, tmp_path: Path) -> None:
    given = [*sources(sampled(2, 6), Reduction.plain(2, 2)), *oddities()]
    assert run_all(target, tmp_path, given) == len(given)


def requested(goal: Goal, reduction: Reduction, some: int, order: RankOrder) -> list[EmitSource]:
    """Programs for a request: with barriers, in segments, and side by side."""
    listed = all_valid(len(reduction.tree.digits), Language(3, goal=goal))
    chosen = random.Random(some).sample(listed, min(some, len(listed)))
    programs = [spelled(steps, reduction.tree) for steps in chosen]
    found = [
        *(source(program, reduction, 64, 1, goal) for program in programs),
        *(source(program, reduction, 5, 5, goal) for program in programs[:2]),
        striped([(programs[0], 40, 2), (programs[-1], 30, 1)], reduction, goal),
    ]
    options = EmitOptions(rank_order=order)
    return [
        replace(one, options=options, beside=tuple(replace(b, options=options) for b in one.beside))
        for one in found
    ]


@pytest.mark.slow
@RUNTIMES
def test_every_request_runs(target: str, tmp_path: Path) -> None:
    given = [
        one
        for goal in OTHERS
        for one in requested(goal, Reduction.plain(2, 2), 3, RankOrder.MACHINE)
    ]
    assert run_all(target, tmp_path, given) == len(given)


@pytest.mark.slow
@RUNTIMES
def test_maxima_and_minima_run(target: str, tmp_path: Path) -> None:
    """Of numbers of which half are below zero; with barriers, in segments, and side by side."""
    given = [
        reducing(one, op)
        for op in (ReductionKind.MAX, ReductionKind.MIN)
        for goal in (one for one in Goal if one.reduces)
        for one in requested(goal, Reduction.plain(2, 2), 3, RankOrder.MACHINE)
    ]
    assert run_all(target, tmp_path, given) == len(given)


@pytest.mark.slow
@RUNTIMES
def test_every_request_runs_on_eight_ranks(target: str, tmp_path: Path) -> None:
    """Three levels; replicas; two axes on two levels, whose ranks may not count as members do.

    Each request in another order of ranks, as all of each take nine minutes.
    """
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 4)))
    cube = Hierarchy.of(pod=2, node=2, gpu=2)
    axes = (Axis("data", 4), Axis("model", 2))
    placement = Placement(hierarchy, axes, ((2, 2), (1, 2)))
    both = Placement(hierarchy, (Axis("data", 2), Axis("model", 4)), ((1, 2), (2, 2)))
    reductions = [
        Reduction(Placement(cube, (Axis("data", 8),), ((2, 2, 2),)), ("data",)),
        Reduction(placement, ("data",)),
        Reduction(placement, ("data", "model")),
        Reduction(both, ("data", "model"), collapse=False),
    ]
    given = [
        one
        for goal, order in zip(OTHERS, cycle(RankOrder), strict=False)
        for made in reductions
        for one in requested(goal, made, 3, order)
    ]
    assert run_all(target, tmp_path, given) == len(given)


@pytest.mark.slow
@RUNTIMES
@pytest.mark.parametrize("sizes", [(2, 2), (2, 4)])
@exhaustive.sampled(32, seed=22)
def test_every_program_of_two_digits_runs(
    target: str, sizes: tuple[int, int], sample: exhaustive.Sample, tmp_path: Path
) -> None:
    programs = sample(all_valid(2))
    assert run_all(target, tmp_path, sources(programs, Reduction.plain(*sizes))) == len(programs)


@pytest.mark.slow
@RUNTIMES
@pytest.mark.parametrize(("sizes", "count"), [((2, 2, 2), 24), ((2, 3, 2), 12), ((2, 2, 2, 2), 12)])
def test_programs_of_three_and_four_digits_run(
    target: str, sizes: tuple[int, ...], count: int, tmp_path: Path
) -> None:
    given = sources(sampled(len(sizes), count), Reduction.plain(*sizes))
    assert run_all(target, tmp_path, given) == count


@pytest.mark.slow
@RUNTIMES
def test_replicas_and_both_rank_orders_run(target: str, tmp_path: Path) -> None:
    given = list(chain(*(placed(order) for order in RankOrder), uncollapsed()))
    assert run_all(target, tmp_path, given) == len(given)


@pytest.mark.slow
@RUNTIMES
def test_stripes_run_on_a_few_ranks(target: str, tmp_path: Path) -> None:
    plain = Reduction.plain(2, 2)
    given = [*side_by_side(sampled(2, 4), plain, 2), *side_by_side(sampled(2, 6), plain, 3)]
    assert run_all(target, tmp_path, given) == 4


@pytest.mark.slow
@RUNTIMES
def test_stripes_run(target: str, tmp_path: Path) -> None:
    """Two to four programs, some of whose ranks idle, on eight ranks; with replicas, too."""
    plain, two = Reduction.plain(2, 2, 2), Reduction.plain(2, 4)
    rooted = random.Random(7).sample([steps for steps in all_valid(3) if _idles(steps)], 6)
    found = [
        *side_by_side(sampled(3, 8), plain, 2),
        *side_by_side(rooted, plain, 3),
        *side_by_side(all_valid(2)[::12], two, 4),
    ]
    hierarchy = Hierarchy((Level("node", 2), Level("gpu", 4)))
    axes = (Axis("data", 4), Axis("model", 2))
    replicas = Reduction(Placement(hierarchy, axes, ((2, 2), (1, 2))), ("data",))
    options = EmitOptions(rank_order=RankOrder.AXES)
    found += [
        replace(s, options=options, beside=tuple(replace(b, options=options) for b in s.beside))
        for s in side_by_side(sampled(2, 6), replicas, 3)
    ]
    assert run_all(target, tmp_path, found) == len(found)


@pytest.mark.slow
@RUNTIMES
def test_segments_run(target: str, tmp_path: Path) -> None:
    """More segments than steps and fewer; ranks that take no part must keep step with the rest."""
    plain = Reduction.plain(2, 2, 2)
    two = Reduction.plain(2, 4)
    found = [*sources(sampled(3, 10), plain, 7), *sources(all_valid(2)[::4], two, 3)]
    rooted = [steps for steps in all_valid(3) if len(steps) == 5 and _idles(steps)]
    found += sources(random.Random(5).sample(rooted, 5), plain, 12)
    assert run_all(target, tmp_path, found) == len(found)


def _idles(steps: tuple[Instruction, ...]) -> bool:
    """Whether some devices take part only at the beginning and at the end."""
    return sum(bool(step.groups.zero) for step in steps) >= 2
