"""Bytes in memory and bytes sent, held exactly to a replay that shares nothing with the clock."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from byte_oracle import Replay, messages
from exhaustive import RARELY
from grammar.tensors.operations import Step
from synth.train.orders import Pass
from synth.train.plans import Plan, Program, apply, parse_recipe, plan_of, prepared
from synth.train.simulation import Pipelined, Runtime, Sources, predicted
from synth.train.simulation.collected import collected
from synth.train.simulation.predicting import Predicted
from traced_steps import step

BATCH = 8
ONE_BY_ONE = Runtime(flash=False, whole=False)
"""Each operation is a task, and every value a buffer: what is fused has laws of its own."""

PIPELINES = {
    "1F1B": "pipe=2; schedule 1f1b, 4 microbatches",
    "1F1B of four": "pipe=4; schedule 1f1b, 8 microbatches",
    "GPipe": "pipe=2; schedule gpipe, 4 microbatches",
    "interleaved": "pipe=2; schedule interleaved-1f1b, 2 chunks, 4 microbatches",
    "ZeRO-1": "data=2 pipe=2; batch over data; zero=1; schedule 1f1b, 4 microbatches",
    "ZeRO-2": "data=2 pipe=2; batch over data; zero=2; schedule 1f1b, 4 microbatches",
    "ZeRO-3": "data=2 pipe=2; batch over data; zero=3; schedule 1f1b, 4 microbatches",
    "recomputed": "pipe=2; schedule 1f1b, 4 microbatches; remat layers",
    "one stage": "data=2; batch over data; zero=3; 4 microbatches",
}
MEGATRON = "weights over tensor as Megatron; vocabulary over tensor"
UNDIVIDED = {
    "ZeRO-0": "data=2; batch over data",
    "ZeRO-1": "data=2; batch over data; zero=1",
    "ZeRO-2": "data=2; batch over data; zero=2",
    "ZeRO-3": "data=2; batch over data; zero=3",
    "recomputed": "data=2; batch over data; zero=3; remat layers",
}
LLAMA = {
    "Megatron": f"pipe=2 tensor=2; {MEGATRON}; schedule 1f1b, 4 microbatches",
    "tokens": f"data=2 tensor=2; batch over data; {MEGATRON}; tokens over tensor; zero=1",
}
CASES = [
    *(pytest.param("mlp-tiny", text, id=name) for name, text in (PIPELINES | UNDIVIDED).items()),
    *(
        pytest.param("llama3-tiny", text, id=f"Llama, {name}", marks=pytest.mark.thorough)
        for name, text in LLAMA.items()
    ),
    *(
        pytest.param("llama3-tiny", text, id=f"Llama, {name}", marks=RARELY)
        for name, text in (PIPELINES | UNDIVIDED).items()
    ),
]


@cache
def made(model: str, text: str) -> tuple[Step, Plan, Program, Predicted]:
    layers = 4 if model.startswith("llama") else 6
    one = step(model, (("layers", layers),), batch=BATCH, dtype="bfloat16")
    plan = plan_of(one, parse_recipe(text))
    ready, program = prepared(one, plan), apply(one, plan)
    sources = Sources(lambda section: 1.0, lambda *how: 1.0, lambda *how: 0.0)
    return ready, plan, program, predicted(ready, plan, program, sources, ONE_BY_ONE)


@pytest.mark.parametrize(("model", "text"), CASES)
def test_memory_is_that_of_the_replay(model: str, text: str) -> None:
    ready, plan, program, found = made(model, text)
    replay = Replay(plan).run(ready, program)
    needed = [one.moment.size_bytes for one in found.ranks]
    if not isinstance(found.run, Pipelined):
        assert needed == [replay.peak()]
        return
    ranks = [
        [(one.stage, "F" if one.kind is Pass.FORWARD else "B", one.microbatch) for one in row]
        for row in found.run.order.ranks
    ]
    assert needed == [*map(replay.rank_peak, ranks)]


@pytest.mark.parametrize(("model", "text"), [one for one in CASES if "=2;" in one.values[1]])
def test_collectives_send_the_bytes_of_the_replay(model: str, text: str) -> None:
    _, plan, program, found = made(model, text)
    sent: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for one in collected(plan, found):
        sent[one.goal.value, one.over] += one.times * one.size_bytes
    stages = found.ranks[found.busiest].stages or (0,)
    assert sent == sum((messages(program, plan, one) for one in stages), Counter())
    assert bool(sent) == any(size > 1 for axis, size in plan.axes if axis != "pipe")
