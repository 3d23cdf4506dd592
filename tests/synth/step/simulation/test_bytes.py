"""Bytes in memory and bytes sent, held exactly to a replay that shares nothing with the clock."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from byte_oracle import Replay
from exhaustive import RARELY
from grammar.tensors.operations import Step
from message_oracle import messages
from synth.step.sharding import Plan, StepProgram, apply, parse_recipe, plan_of, prepare_step
from synth.step.simulation import PipelineTimeline, Sources, StepRuntime, predict_step
from synth.step.simulation.collected import list_collectives
from synth.step.simulation.predicting import StepPrediction
from traced_steps import step

SAMPLES = 2
"""Of a microbatch on a device."""
ONE_BY_ONE = StepRuntime(flash=False, whole=False)
"""Each operation is a task, and every value a buffer: what is fused has laws of its own."""

PIPELINES = {
    "1F1B": "pipe=2; schedule 1f1b, 4 microbatches",
    "1F1B of four": "pipe=4; schedule 1f1b, 8 microbatches",
    "GPipe": "pipe=2; schedule gpipe, 4 microbatches",
    "interleaved": "pipe=2; schedule interleaved-1f1b, 2 chunks, 4 microbatches",
    "breadth first": "pipe=2; schedule looped-bfs, 2 chunks, 4 microbatches",
    "ZeRO-1": "data=2 pipe=2; batch over data; zero=1; schedule 1f1b, 4 microbatches",
    "ZeRO-2": "data=2 pipe=2; batch over data; zero=2; schedule 1f1b, 4 microbatches",
    "ZeRO-3": "data=2 pipe=2; batch over data; zero=3; schedule 1f1b, 4 microbatches",
    "recomputed": "pipe=2; schedule 1f1b, 4 microbatches; remat layers",
    "one stage": "data=2; batch over data; zero=3; 4 microbatches",
}
HALVES = {
    "zero bubble": "pipe=2; schedule zero-bubble, 4 microbatches",
    "ZB-H1": "pipe=2; schedule zero-bubble-h1, 4 microbatches",
    "ZB-H1 of four": "pipe=4; schedule zero-bubble-h1, 8 microbatches",
    "ZB-H1, recomputed": "pipe=2; schedule zero-bubble-h1, 4 microbatches; remat layers",
    "ZB-H1, interleaved": "pipe=2; schedule zero-bubble-h1, 2 chunks, 4 microbatches",
    "ZB-H1, ZeRO-3": (
        "data=2 pipe=2; batch over data; zero=3; schedule zero-bubble-h1, 4 microbatches"
    ),
}
FOLDED = {
    "ZB-V": "pipe=2; schedule zbv, 4 microbatches",
    "ZB-V, recomputed": "pipe=2; schedule zbv, 4 microbatches; remat layers",
    "ZB-V of one rank": "pipe=1; schedule zbv, 4 microbatches",
    "DualPipeV": "pipe=2; schedule dualpipev, 8 microbatches",
    "DualPipeV, recomputed": "pipe=2; schedule dualpipev, 6 microbatches; remat layers",
    "DualPipeV, ZeRO-3": (
        "data=2 pipe=2; batch over data; zero=3; schedule dualpipev, 4 microbatches"
    ),
}
THIRDS = {
    "1F1B": "data=3 pipe=3; batch over data; zero=2; schedule 1f1b, 4 microbatches",
    "uneven stages": "pipe=3; schedule zero-bubble, 4 microbatches; stages of 3, 2, 1 layers",
    "ZB-H1": "data=3 pipe=3; batch over data; zero=3; schedule zero-bubble-h1, 4 microbatches",
    "ZB-V": "data=3 pipe=3; batch over data; zero=1; schedule zbv, 4 microbatches",
    "DualPipeV": "pipe=3; schedule dualpipev, 6 microbatches",
    "interleaved": (
        "data=2 pipe=3; batch over data; zero=3;"
        " schedule interleaved-1f1b, 2 chunks, 3 microbatches"
    ),
    "fifths": "data=5 pipe=2; batch over data; zero=3; schedule zero-bubble-h1, 3 microbatches",
    "flat, ZeRO-1": "data=3; batch over data; zero=1",
    "flat, ZeRO-3": "data=3; batch over data; zero=3; 4 microbatches",
}
MEGATRON = "weights over tensor as Megatron; vocabulary over tensor"
UNDIVIDED = {
    "all at once, ZeRO-0": "data=2; batch over data",
    "all at once, ZeRO-1": "data=2; batch over data; zero=1",
    "all at once, ZeRO-2": "data=2; batch over data; zero=2",
    "all at once, ZeRO-3": "data=2; batch over data; zero=3",
    "all at once, recomputed": "data=2; batch over data; zero=3; remat layers",
}
LLAMA = {
    "Megatron": f"pipe=2 tensor=2; {MEGATRON}; schedule 1f1b, 4 microbatches",
    "folded, halves in some passes": FOLDED["DualPipeV"],
    "Megatron, ZB-V": f"pipe=2 tensor=2; {MEGATRON}; schedule zbv, 4 microbatches",
    "tokens": f"data=2 tensor=2; batch over data; {MEGATRON}; tokens over tensor; zero=1",
}
EACH = (
    PIPELINES
    | UNDIVIDED
    | HALVES
    | FOLDED
    | {f"thirds, {key}": text for key, text in THIRDS.items()}
)
CASES = [
    *(pytest.param("mlp-tiny", text, id=name) for name, text in EACH.items()),
    *(
        pytest.param("llama3-tiny", text, id=f"Llama, {name}", marks=pytest.mark.thorough)
        for name, text in LLAMA.items()
    ),
    *(
        pytest.param("llama3-tiny", text, id=f"Llama, {name}", marks=RARELY)
        for name, text in EACH.items()
        if text not in LLAMA.values()
    ),
]


@cache
def made(model: str, text: str) -> tuple[Step, Plan, StepProgram, StepPrediction]:
    # Of an MLP the first and the last are none.
    layers = (6 if "pipe=3" in text else 4) + 2 * model.startswith("mlp")
    recipe = parse_recipe(text)
    batch = SAMPLES * recipe.replicas * recipe.microbatches
    one = step(model, (("layers", layers),), batch=batch, dtype="bfloat16")
    plan = plan_of(one, recipe)
    ready, program = prepare_step(one, plan), apply(one, plan)
    sources = Sources(lambda section: 1.0, lambda *how: 1.0, lambda *how: 0.0)
    return ready, plan, program, predict_step(ready, plan, program, sources, ONE_BY_ONE)


@pytest.mark.parametrize(("model", "text"), CASES)
def test_memory_is_that_of_the_replay(model: str, text: str) -> None:
    ready, plan, program, found = made(model, text)
    replay, run = Replay(plan).run(ready, program), found.run
    needed = [one.moment.size_bytes for one in found.ranks]
    if not isinstance(run, PipelineTimeline):
        assert needed == [replay.peak()]
        return
    for rank, actions in enumerate(run.order.ranks):
        passes = [(one.stage, one.kind.value, one.microbatch) for one in actions]
        assert needed[rank] == replay.rank_peak(passes)
        expected = dict(zip(map(str, actions), replay.over_time(passes), strict=True))
        held = over_time(run, rank)
        assert held == {name: expected[name] for name in held}


def over_time(run: PipelineTimeline, rank: int) -> dict[str, int]:
    """Bytes in each pass of a rank that takes time."""
    held = [one[1:4] for one in run.held(rank)]
    return {
        span.name: sum(size for begin, end, size in held if begin <= span.begin_seconds < end)
        for span in run.ranks[rank]
        if span.action and span.end_seconds > span.begin_seconds
    }


@pytest.mark.parametrize(("model", "text"), CASES)
def test_collectives_send_the_bytes_of_the_replay(model: str, text: str) -> None:
    _, plan, program, found = made(model, text)
    sent: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for one in list_collectives(plan, found):
        sent[one.goal.value, one.over] += one.times * one.size_bytes
    stages = found.ranks[found.busiest].stages or (0,)
    assert sent == sum((messages(program, plan, one) for one in stages), Counter())
    assert bool(sent) == any(size > 1 for axis, size in plan.axes if axis != "pipe")
