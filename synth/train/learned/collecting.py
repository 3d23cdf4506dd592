"""Kernels of families and models, compiled and measured on this machine."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from hierarchies import InputError
from synth.run.processes import Command, supervise
from synth.train.learned.families import FAMILIES as FAMILIES
from synth.train.learned.families import MODELS as MODELS
from synth.train.learned.families import Piece, drawn_pieces
from synth.train.learned.kernels import kernel_of
from synth.train.learned.measuring import report
from synth.train.learned.samples import RUNTIMES, XLA, Sample, Samples, machine_here
from synth.train.plans import apply, parse_recipe, plan_of
from synth.train.profiles import events
from synth.train.profiles.events import Event
from synth.train.profiles.profile import MOST_DRIFT
from synth.train.profiles.trial import ALLOCATOR

LEAST_SECONDS = 5e-6
"""What takes less is mostly the call, which is taken off: no sample."""

MOST_SPREAD = 0.25


@dataclass(frozen=True)
class Collection:
    """What is to be measured: so many kernels of each group, for so many seconds at most."""

    groups: tuple[str, ...]
    each: int
    seed: int = 0
    most_seconds: float = 900.0
    compiler: str = XLA


def collected(asked: Collection, go_on: Callable[[], bool] = lambda: True) -> Samples:
    """The samples; equal kernels once.

    Raises RunError where the process fails, and InputError for an unknown compiler.
    """
    machine = machine_here(asked.compiler)
    refused: Counter[str] = Counter()
    pieces: dict[str, tuple[Piece, Event]] = {}
    for group in asked.groups:
        for piece in drawn_pieces(group, asked.each, asked.seed):
            try:
                event = _event(piece, RUNTIMES[asked.compiler])
            except InputError:
                refused["cannot be written"] += 1
                continue
            refused["equal to another"] += event.key in pieces
            pieces.setdefault(event.key, (piece, event))
    with tempfile.TemporaryDirectory(prefix="collsynth-") as place:
        folder = Path(place)
        for key, (_, event) in pieces.items():
            (folder / f"{key}.py").write_text(event.text, encoding="utf-8")
        kernels = {
            key: [(kind.dtype, kind.shape) for kind in event.inputs]
            for key, (_, event) in pieces.items()
        }
        told = {
            "kernels": kernels,
            "most_seconds": asked.most_seconds,
            "compiler": asked.compiler,
        }
        (folder / "kernels.json").write_text(json.dumps(told), encoding="utf-8")
        words = (sys.executable, "-m", "synth.train.learned.measuring", str(folder))
        environment = {"OMP_NUM_THREADS": "1", **ALLOCATOR}
        command = Command("kernels", words, environment)
        supervise([command], folder, 20 * asked.most_seconds, go_on)
        found = report(folder)
    refused.update(found["refused"])
    measured = {key: (pieces[key][0], *one) for key, one in found["found"].items()}
    samples = tuple(_samples(measured.values(), refused))
    kept = {why: count for why, count in refused.items() if count}
    return Samples(machine, _today(), asked.seed, kept, samples)


def _today() -> str:
    return datetime.now(tz=UTC).date().isoformat()


def _event(piece: Piece, runtime: str) -> Event:
    """The piece as one device does it. Raises InputError for what its file has no words for."""
    plan = plan_of(piece.step, parse_recipe("one=1"))
    [(_, event)] = events(runtime, piece.step, apply(piece.step, plan), plan.parts)
    return event


def _samples(
    measured: Iterable[tuple[Piece, float, float, float]], refused: Counter[str]
) -> Iterable[Sample]:
    """Those that took long enough, alike in all rounds, while the machine was as it mostly was.

    Seconds are as measured: the reference tells when the machine was another, and not by how much
    a kernel was slower then.
    """
    several = list(measured)
    usual = median(one[3] for one in several) if several else 1.0
    for piece, seconds, spread, reference in several:
        if seconds < LEAST_SECONDS:
            refused["shorter than 5 us"] += 1
        elif spread > MOST_SPREAD:
            refused["spread too far"] += 1
        elif abs(reference / usual - 1.0) > MOST_DRIFT:
            refused["drifted"] += 1
        else:
            kernel = kernel_of(piece.step.graph)
            yield Sample(piece.group, piece.number, kernel, seconds, spread, reference)
