"""Measures the events of a plan on this machine, in separate processes."""

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
from synth.collective.run.processes import Command, supervise
from synth.step.profiles.events import ProfileEvent
from synth.step.profiles.profile import (
    FORMAT,
    MeasuredEvent,
    Profile,
    ProfileConditions,
    check_drift,
    drift_of,
    processor_name,
    versions_of,
)

MOST_BYTES = 2**33
"""The most bytes that events read, summed over all processes."""
LEAST_ROUNDS = 5

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
"""Makes the process keep freed memory, as it is kept in the steps of a long training.

Otherwise the C library returns large arrays to the system, and every step pays for getting them
again.
"""


@dataclass(frozen=True)
class ProfileTrial:
    """How events are measured: the number of processes at once, and of threads in each.

    Processes are pinned to cores if they have one thread and there is a core for each. Each event
    has at most ``rounds`` samples, and fewer if ``most_seconds`` have passed.
    """

    runtime: Literal["torch", "jax"]
    processes: int = 1
    threads: int = 1
    rounds: int = 15
    most_seconds: float = 60.0
    timeout_seconds: float = 600.0


def measure_events(
    events: Iterable[ProfileEvent],
    trial: ProfileTrial,
    model: str,
    plan: str,
    dtype: str,
    go_on: Callable[[], bool] = lambda: True,
) -> Profile:
    """Measures the seconds of each distinct event, by its key.

    Raises InputError if the runtime is not installed, if the inputs do not fit in memory, and if
    the machine drifted. Raises RunError, with its last output, if a process fails.
    """
    distinct = {event.key: event for event in events}
    _check(distinct.values(), trial)
    with tempfile.TemporaryDirectory(prefix="collsynth-") as place:
        folder = Path(place)
        for event in distinct.values():
            (folder / f"{event.key}.py").write_text(event.text, encoding="utf-8")
        settings = {
            "runtime": trial.runtime,
            "threads": trial.threads,
            "pinned": trial.threads == 1 and trial.processes <= (cpu_count() or 1),
            "rounds": trial.rounds,
            "least_rounds": min(LEAST_ROUNDS, trial.rounds),
            "most_seconds": trial.most_seconds,
            "events": {
                key: [(kind.dtype, kind.shape) for kind in event.inputs]
                for key, event in distinct.items()
            },
        }
        (folder / "events.json").write_text(json.dumps(settings), encoding="utf-8")
        words = (sys.executable, "-m", "synth.step.profiles.measuring", str(folder))
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
    profile = _profile(distinct, found, trial, model, plan, dtype)
    check_drift(profile, "--processes" if trial.processes > 1 else "")
    return profile


def _check(events: Iterable[ProfileEvent], trial: ProfileTrial) -> None:
    if find_spec(trial.runtime) is None:
        hint = f"pip install 'collsynth[{trial.runtime}]'"
        raise InputError(
            f"runtime {trial.runtime!r} is not installed", where="--runtime", hint=hint
        )
    size = trial.processes * sum(kind.bytes for event in events for kind in event.inputs)
    if size > MOST_BYTES:
        raise InputError(
            f"the inputs of the events take {size} bytes",
            where="--plan",
            hint=f"at most {MOST_BYTES} here: give smaller sizes, or shard into more parts",
        )


def _profile(
    events: dict[str, ProfileEvent],
    found: list[dict[str, Any]],
    trial: ProfileTrial,
    model: str,
    plan: str,
    dtype: str,
) -> Profile:
    reference = [median(result["reference"]) for result in found]
    return Profile(
        format=FORMAT,
        model=model,
        plan=plan,
        dtype=dtype,
        date=datetime.now(tz=UTC).date().isoformat(),
        where=ProfileConditions(
            processor=processor_name(),
            cores=cpu_count() or 1,
            device=found[0]["device"],
            runtime=trial.runtime,
            versions=versions_of(trial.runtime),
            threads=trial.threads,
            processes=trial.processes,
        ),
        reference_seconds=median(reference),
        drift=max(drift_of(result["reference"]) for result in found),
        events=tuple(
            summarise(event, [sample for part in found for sample in part["events"][key]])
            for key, event in events.items()
        ),
    )


def summarise(event: ProfileEvent, samples: list[float]) -> MeasuredEvent:
    """Returns an event with the statistics of its samples."""
    seconds = median(samples)
    low, _, high = quantiles(samples, n=4) if len(samples) > 1 else (seconds,) * 3
    return MeasuredEvent(
        event.key,
        event.name,
        event.operations,
        event.flops,
        event.moved_bytes,
        seconds,
        (high - low) / seconds if seconds else 0.0,
        len(samples),
    )
