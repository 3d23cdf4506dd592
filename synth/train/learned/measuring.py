"""Compiles and times kernels in a process of its own: ``-m synth.train.learned.measuring FOLDER``.

Kernels are taken some at a time, beside the reference of profiles, and by the processor's clock: so
what others do on the machine is seen by how the reference drifts, and is not counted as ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from synth.train.profiles.measuring import Bench, Jax
from synth.train.profiles.profile import MOST_DRIFT, drift_of

AT_ONCE = 20
ROUNDS = 9
TRIALS = 2
"""How often some that drifted are measured."""

Event = tuple[str, list[tuple[str, list[int]]]]


def main(folder: Path) -> None:
    """Measure the kernels of a folder, and leave there what was found."""
    asked = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
    end = time.process_time() + asked["most_seconds"]
    runtime, refused, found = Jax(1, time.process_time), Counter[str](), {}
    keys = sorted(asked["kernels"])
    for begin in range(0, len(keys), AT_ONCE):
        some = keys[begin : begin + AT_ONCE]
        if time.process_time() > end:
            refused["no time left"] += len(keys) - begin
            break
        given = {
            key: ((folder / f"{key}.py").read_text(encoding="utf-8"), asked["kernels"][key])
            for key in some
        }
        whole = dict(_compiled(runtime, given, refused))
        found |= _measured(runtime, whole, refused)
        runtime.forget()
    (folder / "measured.json").write_text(
        json.dumps({"found": found, "refused": refused}), encoding="utf-8"
    )


def _compiled(
    runtime: Jax, given: Mapping[str, Event], refused: Counter[str]
) -> Iterator[tuple[str, Event]]:
    """Those that compile and run."""
    for key, one in given.items():
        try:
            runtime.work(*one)()
        except Exception:  # whatever a compiler says
            refused["did not compile"] += 1
        else:
            yield key, one


def _measured(
    runtime: Jax, given: Mapping[str, Event], refused: Counter[str]
) -> dict[str, tuple[float, float, float]]:
    """Seconds, their spread and the reference beside; nothing of those that drifted twice."""
    bench = Bench(runtime, given)
    for _ in range(TRIALS):
        bench.samples.reference.clear()
        for one in bench.samples.events.values():
            one.clear()
        for _ in range(ROUNDS):
            bench.round()
        if drift_of(bench.samples.reference) <= MOST_DRIFT:
            usual = median(bench.samples.reference)
            return {key: (*_summed(one), usual) for key, one in bench.samples.steady().items()}
    refused["drifted"] += len(given)
    return {}


def _summed(samples: list[float]) -> tuple[float, float]:
    low, seconds, high = quantiles(samples, n=4)
    return seconds, (high - low) / seconds if seconds else 0.0


def report(folder: Path) -> Any:
    """What a process left in its folder."""
    return json.loads((folder / "measured.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
