"""Compiles and times kernels in a process of its own: ``-m synth.train.learned.measuring FOLDER``.

Kernels are taken some at a time, and by the processor's clock: what others do on the machine is not
counted as ours. No reference tells how fast the machine is meanwhile, as what that takes says
nothing of a kernel; the same kernels in other processes do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Protocol

from synth.train.profiles.measuring import Bench, Jax, Runtime, Torch, Work

AT_ONCE = 20
ROUNDS = 8
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
    _pin()
    asked = json.loads((folder / "kernels.json").read_text(encoding="utf-8"))
    end = time.process_time() + asked["most_seconds"]
    runtime = Often(COMPILERS[asked["compiler"]]())
    found: dict[str, float] = {}
    refused: dict[str, str] = {}
    keys = sorted(asked["kernels"])
    for begin in range(0, len(keys), AT_ONCE):
        some = keys[begin : begin + AT_ONCE]
        if time.process_time() > end:
            refused |= dict.fromkeys(keys[begin:], "no time left")
            break
        given = {
            key: ((folder / f"{key}.py").read_text(encoding="utf-8"), asked["kernels"][key])
            for key in some
        }
        whole = dict(_compiled(runtime, given, refused))
        found |= _measured(runtime, whole)
        runtime.forget()
    (folder / "measured.json").write_text(
        json.dumps({"found": found, "refused": refused}), encoding="utf-8"
    )


def _pin() -> None:
    """Stay on one core, before a compiler counts cores.

    XLA cuts a loop that makes 256 KiB or more for all the cores that it sees, and the processor's
    clock counts what the other threads spend waiting: 14 to 70 us for one kernel of 300 KB.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _compiled(
    runtime: Often, given: Mapping[str, Event], refused: dict[str, str]
) -> Iterator[tuple[str, Event]]:
    """Those that compile and run."""
    for key, one in given.items():
        try:
            runtime.work(*one)()
        except Exception:  # whatever a compiler says
            refused[key] = "did not compile"
        else:
            yield key, one


def _measured(runtime: Often, given: Mapping[str, Event]) -> dict[str, float]:
    """Seconds of each.

    What disturbs makes slower, never faster (Chen and Revels 2016), and the fastest of all is one
    alone: so the lower quartile is taken.
    """
    bench = Bench(runtime, given)
    for _ in range(ROUNDS):
        bench.round()
    return {
        key: _quartile([seconds for seconds, _ in one]) for key, one in bench.samples.events.items()
    }


def _quartile(samples: Sequence[float]) -> float:
    return quantiles(samples, n=4)[0]


def report(folder: Path) -> Any:
    """What a process left in its folder."""
    return json.loads((folder / "measured.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
