"""Measures the events of a plan on this machine, in processes of its own."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from os import cpu_count
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Literal

from hierarchies import InputError
from synth.run.processes import Command, supervise
from synth.train.profiles.events import Event
from synth.train.profiles.profile import (
    FORMAT,
    Measured,
    Profile,
    Where,
    check_drift,
    drift_of,
    processor,
    versions_of,
)

MOST_BYTES = 2**33
"""Of all that events read, in all processes."""
LEAST_ROUNDS = 5

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
"""Memory that was used stays the process's, as in the steps of a training that goes on. Else the
C library gives large arrays back, and every step pays for having them again."""


@dataclass(frozen=True)
class Trial:
    """How events are measured: in how many processes at once, with how many threads each.

    Each is pinned to a core where there is one thread each and a core for each. At most ``rounds``
    samples are taken of each event, fewer when the seconds are over.
    """

    runtime: Literal["torch", "jax"]
    processes: int = 1
    threads: int = 1
    rounds: int = 15
    most_seconds: float = 60.0
    timeout_seconds: float = 600.0


def measured(
    events: Iterable[Event],
    trial: Trial,
    model: str,
    plan: str,
    dtype: str,
    go_on: Callable[[], bool] = lambda: True,
) -> Profile:
    """The seconds of each event, which are told apart by their keys.

    Raises InputError where the runtime is not installed, where what events read does not fit, and
    where the machine drifted; RunError where a process fails, with its last words.
    """
    unlike = {one.key: one for one in events}
    _check(unlike.values(), trial)
    with tempfile.TemporaryDirectory(prefix="collsynth-") as place:
        folder = Path(place)
        for one in unlike.values():
            (folder / f"{one.key}.py").write_text(one.text, encoding="utf-8")
        asked = {
            "runtime": trial.runtime,
            "threads": trial.threads,
            "pinned": trial.threads == 1 and trial.processes <= (cpu_count() or 1),
            "rounds": trial.rounds,
            "least_rounds": min(LEAST_ROUNDS, trial.rounds),
            "most_seconds": trial.most_seconds,
            "events": {
                key: [(kind.dtype, kind.shape) for kind in one.inputs]
                for key, one in unlike.items()
            },
        }
        (folder / "events.json").write_text(json.dumps(asked), encoding="utf-8")
        words = (sys.executable, "-m", "synth.train.profiles.measuring", str(folder))
        environment = {"OMP_NUM_THREADS": str(trial.threads), **ALLOCATOR}
        commands = [
            Command(f"process {number}", (*words, str(number)), environment)
            for number in range(trial.processes)
        ]
        supervise(commands, folder, trial.timeout_seconds, go_on)
        found = [
            json.loads((folder / f"measured{number}.json").read_text(encoding="utf-8"))
            for number in range(trial.processes)
        ]
    profile = _profile(unlike, found, trial, model, plan, dtype)
    check_drift(profile, "--processes" if trial.processes > 1 else "")
    return profile


def _check(events: Iterable[Event], trial: Trial) -> None:
    if find_spec(trial.runtime) is None:
        hint = f"pip install 'collsynth[{trial.runtime}]'"
        raise InputError(
            f"runtime {trial.runtime!r} is not installed", where="--runtime", hint=hint
        )
    size = trial.processes * sum(kind.bytes for one in events for kind in one.inputs)
    if size > MOST_BYTES:
        raise InputError(
            f"what the events read takes {size} bytes",
            where="--plan",
            hint=f"at most {MOST_BYTES} here: give smaller sizes, or cut into more parts",
        )


def _profile(
    events: dict[str, Event],
    found: list[dict[str, Any]],
    trial: Trial,
    model: str,
    plan: str,
    dtype: str,
) -> Profile:
    reference = [median(one["reference"]) for one in found]
    return Profile(
        format=FORMAT,
        model=model,
        plan=plan,
        dtype=dtype,
        date=datetime.now(tz=UTC).date().isoformat(),
        where=Where(
            processor=processor(),
            cores=cpu_count() or 1,
            device=found[0]["device"],
            runtime=trial.runtime,
            versions=versions_of(trial.runtime),
            threads=trial.threads,
            processes=trial.processes,
        ),
        reference_seconds=median(reference),
        drift=max(drift_of(one["reference"]) for one in found),
        events=tuple(
            summed(one, [sample for part in found for sample in part["events"][key]])
            for key, one in events.items()
        ),
    )


def summed(event: Event, samples: list[float]) -> Measured:
    """An event with what was measured of it."""
    seconds = median(samples)
    low, _, high = quantiles(samples, n=4) if len(samples) > 1 else (seconds,) * 3
    return Measured(
        event.key,
        event.name,
        event.operations,
        event.flops,
        event.moved_bytes,
        seconds,
        (high - low) / seconds if seconds else 0.0,
        len(samples),
    )
