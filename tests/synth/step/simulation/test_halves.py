"""Steps of every schedule on the clock and in memory, against a replay of the words of their order.

Seconds and bytes of single passes are the simulation's; what comes of them in an order is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from exhaustive import sampled
from hierarchies import InputError
from order_replay import parts, replayed
from synth.step.schedules import SCHEDULES, chunks_of, one_f_one_b
from synth.step.sharding import StepPhase, apply, parse_recipe, plan_of, prepare_step
from synth.step.simulation import Overlap
from synth.step.simulation.device import DeviceTasks, grouping_of, write_device
from synth.step.simulation.passes import PassKey
from synth.step.simulation.pipeline import PassSpan, PipelineTimeline, simulate_pipeline
from traced_steps import step

LAYERS = 14  # two are no part of the loop
Case = tuple[str, int, int, int]
CASES: list[Case] = [*product(SCHEDULES, (2, 3, 6), (2, 3, 5, 6, 9, 13), (1, 2))]
DOES = {
    "F": (StepPhase.FORWARD,),
    "B": (StepPhase.BACKWARD, StepPhase.WEIGHT),
    "I": (StepPhase.BACKWARD,),
}
DOES["W"] = (StepPhase.WEIGHT,)


@cache
def written(stages: int, halves: bool) -> DeviceTasks:
    """A step in so many stages. How it is cut does not depend on the order, but for halves."""
    one = step("mlp-tiny", (("layers", LAYERS),), batch=2)
    schedule = "zero-bubble-h1" if halves else "1f1b"
    plan = plan_of(one, parse_recipe(f"pipe={stages}; schedule {schedule}, 2 microbatches"))
    how = Overlap(False, None)
    return write_device(
        prepare_step(one, plan),
        plan,
        apply(one, plan),
        lambda section: sum(1e-6 * len(one.results) for one in section.operations),
        lambda *how: 0.0,
        how,
        grouping_of(plan, how, whole=True),
    )


def run(case: Case) -> PipelineTimeline | None:
    name, ranks, microbatches, chunks = case
    try:
        order = SCHEDULES[name](ranks, microbatches, chunks)
    except InputError:
        return None
    found = written(ranks * chunks_of(name, chunks), order.halves)
    return simulate_pipeline(found, order, microbatches, lambda size, *ends: 2e-6)


def bytes_at(found: PipelineTimeline, rank: int, times: dict[str, tuple[float, float]]) -> int:
    """The most bytes of activations of a rank, counted anew at each begin of a pass.

    A value is there from the begin of the pass that makes it until the end of the last that reads
    it; what both halves of a whole backward pass have between them is not kept.
    """
    tasks, buffers = found.passes.device.tasks, found.passes.device.buffers
    readers: dict[int, set[StepPhase]] = {}
    for task in tasks:
        for number in task.reads:
            readers.setdefault(number, set()).add(task.place.when)
    passes = [
        (*parts(word), word)
        for word in (str(one.action) for one in found.ranks[rank] if one.action)
    ]
    lives: list[tuple[float, float, int]] = []
    for number, one in enumerate(buffers):
        if one.maker < 0:
            continue
        place = tasks[one.maker].place
        whens = (StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.WEIGHT)
        if place.when not in whens or StepPhase.AFTER in readers.get(number, ()):
            continue
        later = [w for w in whens[whens.index(place.when) + 1 :] if w in readers.get(number, ())]
        if not later:
            continue
        for microbatch in range(found.order.microbatches):
            own = [p for p in passes if (p[0], p[2]) == (place.stage, microbatch)]
            makers = [word for _, kind, _, word in own if place.when in DOES[kind]]
            last = [word for _, kind, _, word in own if later[-1] in DOES[kind]]
            if makers and makers != last:
                lives.append((times[makers[0]][0], times[last[0]][1], one.size_bytes))
    moments = {begin for begin, _, _ in lives}
    return max(sum(size for b, e, size in lives if b <= at < e) for at in moments)


def _first_action(row: Sequence[PassSpan]) -> int:
    return next(at for at, one in enumerate(row) if one.action)


def kept(found: PipelineTimeline, rank: int) -> int:
    """The most bytes that passes of a rank keep for later ones."""
    lives = [
        (begin, end, size)
        for _, begin, end, size, name in found.held(rank)
        if name.startswith("kept by")
    ]
    moments = {begin for begin, _, _ in lives}
    return max(sum(size for b, e, size in lives if b <= at < e) for at in moments)


@sampled(12, seed=5, parts=4)
def test_a_step_matches_a_replay_of_its_order(
    sample: Callable[[Sequence[Case]], list[Case]],
) -> None:
    for case in sample(CASES):
        if (found := run(case)) is None:
            continue
        rows = [row.split() for row in str(found.order).splitlines()]
        named = {str(one.action): one for row in found.ranks for one in row if one.action}

        def seconds(word: str, found: PipelineTimeline = found) -> float:
            stage, kind, _ = parts(word)
            keys = [PassKey(stage, when) for when in DOES[kind]]
            parted = [key for key in keys if found.order.halves or key.when is not StepPhase.WEIGHT]
            return found.alone[tuple(parted)].seconds

        first = {
            rank: max(one.end_seconds for one in row[: _first_action(row)])
            for rank, row in enumerate(found.ranks)
            if not row[0].action
        }
        times = replayed(rows, seconds, 2e-6, first)
        for word, one in named.items():
            assert (one.begin_seconds, one.end_seconds) == pytest.approx(times[word]), (case, word)
        for rank in range(len(rows)):
            most = kept(found, rank)
            assert most == bytes_at(found, rank, times) > 0, (case, rank)


def test_halves_hold_what_weights_read_until_they_are_made() -> None:
    """Later weights: more memory; and a whole backward pass takes what both halves do."""
    whole = run(("1f1b", 3, 6, 1))
    halves = run(("zero-bubble-h1", 3, 6, 1))
    assert whole
    assert halves
    for stage in range(3):
        both = (PassKey(stage, StepPhase.BACKWARD),), (PassKey(stage, StepPhase.WEIGHT),)
        assert sum(halves.alone[keys].seconds for keys in both) == pytest.approx(
            whole.alone[both[0]].seconds, rel=0.2
        )
    assert halves.seconds < whole.seconds
    assert kept(halves, 2) > kept(whole, 2)
    order = one_f_one_b(3, 6)
    same = simulate_pipeline(written(3, True), order, 6, lambda size, *ends: 2e-6)
    assert same.seconds == pytest.approx(whole.seconds, rel=0.2)
