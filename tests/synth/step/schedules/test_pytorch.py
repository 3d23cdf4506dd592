"""Orders beside PyTorch's: its own schedules, and its runtime on real processes."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from forking import FLEET, torch_python
from hierarchies import InputError
from synth.collective.run.processes import Command, supervise
from synth.step.schedules import (
    ONE_STAGE,
    SCHEDULES,
    V_SHAPED,
    Action,
    Pass,
    PipelineSchedule,
    check_sizes,
    chunks_of,
    parse_schedule,
    to_csv,
)

pytestmark = [
    pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch"),
    pytest.mark.slow,
]

CLASSES = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved-1f1b": "ScheduleInterleaved1F1B",
    "zero-bubble-h1": "ScheduleInterleavedZeroBubble",
    "looped-bfs": "ScheduleLoopedBFS",
    "zbv": "ScheduleZBVZeroBubble",
    "dualpipev": "ScheduleDualPipeV",
}
SIZES = [
    *[(1, 2, 1), (2, 2, 1), (4, 8, 1), (3, 9, 2), (4, 8, 3), (4, 10, 2), (4, 3, 2)],
    *[(1, 2, 2), (2, 1, 2), (2, 5, 2), (3, 6, 2), (5, 11, 2), (6, 12, 2), (7, 21, 2)],
]


def pytorch_s(cases: list[tuple[str, int, int, int]]) -> list[str]:
    """PyTorch's CSV of its own schedules, each by class, ranks, microbatches and chunks."""
    words = [str(word) for case in cases for word in case]
    command = [*torch_python(), str(FLEET / "torch_orders.py"), *words]
    found: list[str] = json.loads(subprocess.check_output(command, text=True))
    return found


def test_schedules_are_pytorch_s() -> None:
    """PyTorch 2.13 numbers the microbatches on the last rank of 1F1B from 1: that row is not asked.

    (Its rows of 1F1B and GPipe are drawn only; those classes run by loops of their own.)
    """
    cases = [
        (name, *sizes)
        for name in CLASSES
        for sizes in SIZES
        if chunks_of(name, sizes[2]) == sizes[2] and _is_order(name, *sizes)
    ]
    assert {name for name, *_ in cases} == {*CLASSES}
    theirs = pytorch_s([(CLASSES[name], *sizes) for name, *sizes in cases])
    for (name, *sizes), text in zip(cases, theirs, strict=True):
        ours = SCHEDULES[name](*sizes)
        if name == "1f1b":
            rows = [",".join(filter(None, line.split(","))) for line in text.splitlines()]
            assert rows[:-1] == to_csv(ours).splitlines()[:-1]
        else:
            assert parse_schedule(text) == ours


def _is_order(name: str, ranks: int, microbatches: int, chunks: int) -> bool:
    try:
        check_sizes(name, ranks, microbatches, chunks)
    except InputError:
        return False
    return True


def shuffled(order: PipelineSchedule, swaps: int, seed: int) -> PipelineSchedule:
    """Another order of the same passes: neighbours swapped wherever that is an order."""
    random = Random(seed)
    rows = [list(row) for row in order.ranks]
    for _ in range(swaps):
        row = random.choice(rows)
        place = random.randrange(len(row) - 1)
        row[place : place + 2] = row[place + 1], row[place]
        try:
            to_csv(PipelineSchedule(tuple(map(tuple, rows))))
        except ValueError:
            row[place : place + 2] = row[place + 1], row[place]
    return PipelineSchedule(tuple(map(tuple, rows)))


def halved(order: PipelineSchedule) -> PipelineSchedule:
    """The same with every other backward pass in halves, one right after the other."""
    halves = (Pass.INPUT, Pass.WEIGHT)
    return PipelineSchedule(
        tuple(
            tuple(
                Action(action.stage, kind, action.microbatch)
                for action in row
                for kind in (
                    halves
                    if action.kind is Pass.BACKWARD and action.microbatch % 2
                    else (action.kind,)
                )
            )
            for row in order.ranks
        )
    )


def errors_of(names: list[str], ranks: int, folder: Path) -> list[float]:
    """Train a step by each file on real ranks; the largest relative error of its gradients."""
    files = [str(folder / f"{name}.csv") for name in names]
    words = (str(FLEET / "forked.py"), str(ranks), str(FLEET / "torch_pipeline.py"), *files)
    command = Command("the ranks", (*torch_python(), *words), {"OMP_NUM_THREADS": "1"})
    said = supervise([command], folder, 300).split()
    assert said[::2] == names
    return list(map(float, said[1::2]))


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_in_pytorch_s_runtime_are_the_whole_model_s(ranks: int, tmp_path: Path) -> None:
    """Schedules, V-shaped ones, and orders that nobody has a name for."""
    orders = {name: SCHEDULES[name](ranks, 2 * ranks, 1) for name in ONE_STAGE}
    for name in ("interleaved-1f1b", "zero-bubble-h1", "looped-bfs"):
        for chunks in (1, 2):
            orders[f"{name}-{chunks}"] = SCHEDULES[name](ranks, 2 * ranks, chunks)
    orders |= {name: SCHEDULES[name](ranks, 2 * ranks, 2) for name in V_SHAPED}
    for seed in range(6):
        base = orders[list(orders)[seed]]
        orders[f"shuffled-{seed}"] = shuffled(halved(base) if seed % 2 else base, 300, seed)
    assert len({str(order) for order in orders.values()}) >= len(orders) - 1  # of one chunk
    for name, order in orders.items():
        (tmp_path / f"{name}.csv").write_text(to_csv(order))
    assert max(errors_of(list(orders), ranks, tmp_path)) < 1e-12


def test_losses_are_taken_in_the_order_of_microbatches(tmp_path: Path) -> None:
    """Why such an order is not handed out: torch 2.13 runs it, with gradients that are wrong."""
    (tmp_path / "first.csv").write_text("0F1,0F0,0B0,0B1\n1F0,1F1,1B0,1B1\n")
    (tmp_path / "last.csv").write_text("0F0,0F1,0B0,0B1\n1F1,1F0,1B0,1B1\n")
    right, wrong = errors_of(["first", "last"], 2, tmp_path)
    assert right < 1e-12
    assert wrong > 1e-3
