"""Compiles and times kernels in a process of its own: ``-m synth.train.learned.measuring FOLDER``.

Kernels are taken some at a time, beside the reference of profiles, and by the processor's clock: so
what others do on the machine is seen by how the reference drifts, and is not counted as ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Protocol

from synth.train.profiles.measuring import Bench, Jax, Runtime, Torch, Work
from synth.train.profiles.profile import MOST_DRIFT, drift_of

AT_ONCE = 20
ROUNDS = 16
TRIALS = 10
"""How often kernels are measured whose reference drifted, at most."""

LEAST_SECONDS = 2e-3
MOST_TIMES = 100
"""A sample is a kernel done so often that it takes so long, as one call alone is mostly noise."""

Event = tuple[str, list[tuple[str, list[int]]]]


class Compiler(Runtime, Protocol):
    """What compiles the text of an event, and lets go of what it compiled."""

    def forget(self) -> None:
        """Let go of it."""


class Xla(Jax):
    """JAX on one core, each call in its caller's thread."""

    def __init__(self) -> None:
        import jax  # Not at the top of the file, as XLA's flags come before it.

        jax.config.update("jax_cpu_enable_async_dispatch", False)
        super().__init__(1, time.process_time)
        self.forget: Callable[[], None] = jax.clear_caches


class Inductor(Torch):
    """PyTorch's compiler on one core; what calling it costs is taken off."""

    def __init__(self) -> None:
        import torch  # Not at the top of the file: only who measures with it has it.

        super().__init__(1, time.process_time)
        self._compiled = partial(torch.compile, fullgraph=True, dynamic=False)
        self.forget: Callable[[], None] = torch.compiler.reset
        self._call = 0.0
        empty, given = self._compiled(lambda given: given[:1]), [torch.ones(1)]
        self._call = median(self.seconds(lambda: empty(given))[0] for _ in range(200))

    def prepared(self, step: Callable[..., object]) -> Callable[..., object]:
        """What the compiler makes of it."""
        made: Callable[..., object] = self._compiled(step)
        return made

    def seconds(self, work: Work) -> tuple[float, object]:
        """Less those of an empty call."""
        taken, made = super().seconds(work)
        return max(0.0, taken - self._call), made


COMPILERS: Mapping[str, Callable[[], Compiler]] = {"xla": Xla, "inductor": Inductor}


class Often:
    """A runtime whose samples are of several calls; what was compiled is kept by its text."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._made: dict[str, Work] = {}
        self._times: dict[Work, int] = {}
        self._reference = compiler.reference()

    def work(self, text: str, inputs: Sequence[tuple[str, Sequence[int]]]) -> Work:
        """What does it once."""
        if text not in self._made:
            self._made[text] = self._compiler.work(text, inputs)
        return self._made[text]

    def seconds(self, work: Work) -> tuple[float, object]:
        """Of one of several calls; how many follows from the seconds of the last time."""
        times = self._times.get(work, 1)
        taken, made = 0.0, None
        for _ in range(times):
            one, made = self._compiler.seconds(work)
            taken += one / times
        self._times[work] = max(1, min(MOST_TIMES, ceil(LEAST_SECONDS / max(taken, 1e-9))))
        return taken, made

    def reference(self) -> Work:
        """The same one whenever it is asked for: made anew, it takes up to 1.4 times as long."""
        return self._reference

    def forget(self) -> None:
        """Let go of what was compiled."""
        self._made.clear()
        self._times.clear()
        self._compiler.forget()


def main(folder: Path) -> None:
    """Measure the kernels of a folder, and leave there what was found."""
    asked = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
    end = time.process_time() + asked["most_seconds"]
    runtime, refused = Often(COMPILERS[asked["compiler"]]()), Counter[str]()
    found: dict[str, tuple[float, float, float]] = {}
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
    runtime: Often, given: Mapping[str, Event], refused: Counter[str]
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
    runtime: Often, given: Mapping[str, Event], refused: Counter[str]
) -> dict[str, tuple[float, float, float]]:
    """Seconds, their spread and the reference beside; nothing of those that drifted every time.

    What disturbs makes slower, never faster (Chen and Revels 2016), and the fastest of all is one
    alone: so the lower quartile is taken. The spread is how far that of every other round is off.
    """
    bench = Bench(runtime, given)
    samples = bench.samples
    for _ in range(TRIALS):
        samples.reference.clear()
        for one in samples.events.values():
            one.clear()
        for _ in range(ROUNDS):
            bench.round()
        third = len(samples.reference) // 3
        parts = (samples.reference[at * third :][:third] for at in range(3))
        if drift_of([_quartile(one) for one in parts]) <= MOST_DRIFT:
            usual = _quartile(samples.reference)
            return {
                key: (*_summed([seconds for seconds, _ in one]), usual)
                for key, one in samples.events.items()
            }
    refused["drifted"] += len(given)
    return {}


def _summed(samples: list[float]) -> tuple[float, float]:
    one, other = _quartile(samples[::2]), _quartile(samples[1::2])
    seconds = _quartile(samples)
    return seconds, abs(one - other) / seconds if seconds else 0.0


def _quartile(samples: Sequence[float]) -> float:
    return quantiles(samples, n=4)[0]


def report(folder: Path) -> Any:
    """What a process left in its folder."""
    return json.loads((folder / "measured.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
