"""Kernels of families and models, compiled and measured on this machine."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
from synth.train.profiles.trial import ALLOCATOR

PROCESSES = 3
"""Each kernel is measured in so many, one after the other: where arrays and code lie is drawn once
a process, by which one is 3 % off the others in the middle, and 10 % at nine of ten."""

LEAST_PROCESSES = 2
"""A kernel that fewer of them measured is no sample."""

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
    """The samples; equal kernels once, each measured in PROCESSES processes.

    Raises RunError where a process fails, and InputError for an unknown compiler.
    """
    machine = machine_here(asked.compiler)
    pieces, refused = unlike(asked)
    with tempfile.TemporaryDirectory(prefix="collsynth-") as place:
        folder = Path(place)
        _write(folder, asked, pieces)
        found = [measured_once(folder, asked.most_seconds, go_on) for _ in range(PROCESSES)]
    samples = tuple(samples_of(pieces, found, refused))
    kept = {why: count for why, count in refused.items() if count}
    return Samples(machine, _today(), asked.seed, kept, samples)


def unlike(asked: Collection) -> tuple[dict[str, tuple[Piece, Event]], Counter[str]]:
    """Unlike pieces by key, each with its event; and how many were not taken, by why."""
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
    return pieces, refused


def _write(folder: Path, asked: Collection, pieces: Mapping[str, tuple[Piece, Event]]) -> None:
    """What each process reads."""
    for key, (_, event) in pieces.items():
        (folder / f"{key}.py").write_text(event.text, encoding="utf-8")
    told = {
        "kernels": {
            key: [(kind.dtype, kind.shape) for kind in event.inputs]
            for key, (_, event) in pieces.items()
        },
        "most_seconds": asked.most_seconds / PROCESSES,
        "compiler": asked.compiler,
    }
    (folder / "kernels.json").write_text(json.dumps(told), encoding="utf-8")


def measured_once(folder: Path, most_seconds: float, go_on: Callable[[], bool]) -> Any:
    """What a process of its own reports of the kernels of a folder."""
    words = (sys.executable, "-m", "synth.train.learned.measuring", str(folder))
    environment = {"OMP_NUM_THREADS": "1", **ALLOCATOR, **_cache(folder)}
    supervise([Command("kernels", words, environment)], folder, 20 * most_seconds, go_on)
    return report(folder)


def _cache(folder: Path) -> dict[str, str]:
    """What was compiled in one process is not compiled again in the next."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "compiled"),
    }


def _today() -> str:
    return datetime.now(tz=UTC).date().isoformat()


def _event(piece: Piece, runtime: str) -> Event:
    """The piece as one device does it. Raises InputError for what its file has no words for."""
    plan = plan_of(piece.step, parse_recipe("one=1"))
    [(_, event)] = events(runtime, piece.step, apply(piece.step, plan), plan.parts)
    return event


def samples_of(
    pieces: Mapping[str, tuple[Piece, Event]], found: Sequence[Any], refused: Counter[str]
) -> Iterable[Sample]:
    """Those that took long enough, and about alike in several of the processes.

    Of each process there is ``found``, its seconds by key, and ``refused``, why there are none.
    """
    for key, (piece, _) in pieces.items():
        each = [one["found"][key] for one in found if key in one["found"]]
        if len(each) < LEAST_PROCESSES:
            whys = Counter(one["refused"][key] for one in found if key in one["refused"])
            refused[whys.most_common(1)[0][0]] += 1
            continue
        sample = Sample(piece.group, piece.number, kernel_of(piece.step.graph), tuple(each))
        if sample.seconds < LEAST_SECONDS:
            refused["shorter than 5 us"] += 1
        elif sample.spread > MOST_SPREAD:
            refused["spread too far"] += 1
        else:
            yield sample
