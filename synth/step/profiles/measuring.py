"""Measures events in a separate process: ``python -m synth.step.profiles.measuring FOLDER N``.

The events take turns, and each event's results are kept until its next turn, so each event finds
memory in the state that it has in a step. About four times a second a fixed reference is measured
between events. It detects and compensates changes of the machine's speed. On a GPU (PyTorch with
CUDA) the device's own clock is read; this has never been run on a GPU.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

REFERENCE_EVERY_SECONDS = 0.25
WARM_UPS = 2
_SIDE, _NUMBERS = 384, 2**20
"""Sizes of the reference, a matrix product and an array to copy; both take some milliseconds."""

Work = Callable[[], object]


class EventRuntime(Protocol):
    """Runs the text of an event."""

    def work(self, text: str, inputs: Sequence[tuple[str, Sequence[int]]]) -> Work:
        """Returns a function that runs an event once on inputs of these types."""

    def seconds(self, work: Work) -> tuple[float, object]:
        """Returns the seconds of one run, and its result."""

    def reference(self) -> Work:
        """Returns the reference work, which is measured between events."""


@dataclass
class Samples:
    """Seconds of each event, with the number of the preceding reference. Mutable."""

    events: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    reference: list[float] = field(default_factory=list)

    def steady(self) -> dict[str, list[float]]:
        """Returns seconds scaled as if the reference always took its median."""
        usual = median(self.reference)
        return {
            key: [seconds * usual / self._beside(at) for seconds, at in samples]
            for key, samples in self.events.items()
        }

    def _beside(self, at: int) -> float:
        return median(self.reference[max(0, at - 1) : at + 3])


class Bench:
    """Events ready to be measured repeatedly."""

    def __init__(
        self,
        runtime: EventRuntime,
        events: Mapping[str, tuple[str, Sequence[tuple[str, list[int]]]]],
    ) -> None:
        self._runtime = runtime
        self._works = {key: runtime.work(*event) for key, event in events.items()}
        self._reference = runtime.reference()
        self._kept: dict[str, object] = {}
        self._since = 0.0
        self.samples = Samples({key: [] for key in events})
        for _ in range(WARM_UPS):
            for work in (self._reference, *self._works.values()):
                runtime.seconds(work)

    def refer(self) -> None:
        """Measures the reference."""
        self.samples.reference.append(self._runtime.seconds(self._reference)[0])
        self._since = time.perf_counter()

    def round(self) -> None:
        """Measures each event once, in order."""
        self.refer()
        for key, work in self._works.items():
            if time.perf_counter() - self._since > REFERENCE_EVERY_SECONDS:
                self.refer()
            seconds, self._kept[key] = self._runtime.seconds(work)
            self.samples.events[key].append((seconds, len(self.samples.reference) - 1))
        self.refer()


def draw_numbers(dtype: str, shape: Sequence[int], draw: np.random.Generator) -> Any:
    """Draws numbers between 1/2 and 3/2, which neither overflow, vanish nor become NaN.

    Integers are 0 or 1, because they may be indices.
    """
    if dtype == "bool":
        return draw.integers(0, 2, shape).astype(bool)
    if not dtype.startswith(("f", "bf")):
        return draw.integers(0, 2, shape)
    return draw.uniform(0.5, 1.5, shape).astype(np.float32)


class Torch:
    """PyTorch in eager mode: every operation is a call, as in the emitted file."""

    def __init__(self, threads: int) -> None:
        import torch  # Not at the top of the file: optional, and Jax runs without it.

        self._torch = torch
        torch.set_num_threads(threads)
        self._cuda = torch.cuda.is_available()
        if self._cuda:
            torch.set_default_device("cuda")
        self._draw = np.random.default_rng(0)

    @property
    def device(self) -> str:
        return str(self._torch.cuda.get_device_name()) if self._cuda else "cpu"

    def work(self, text: str, inputs: Sequence[tuple[str, Sequence[int]]]) -> Work:
        from synth.primitives.calls.torch import TORCH_SPELLING  # this runs in a process of its own

        torch = self._torch
        space = _execute_text(text)
        # A block has no communication, so the process stands in for rank 0 without a process group.
        space["dist"] = SimpleNamespace(get_rank=lambda: 0)
        given = [
            torch.as_tensor(draw_numbers(dtype, shape, self._draw)).to(
                getattr(torch, TORCH_SPELLING.dtypes[dtype].removeprefix("torch."))
            )
            for dtype, shape in inputs
        ]
        if self._cuda:
            given = [tensor.cuda() for tensor in given]
        step = space["device_step"]

        def once() -> object:
            with torch.no_grad():
                return step(given)

        return once

    def seconds(self, work: Work) -> tuple[float, object]:
        return self._on_gpu(work) if self._cuda else _time_work(work)

    def _on_gpu(self, work: Work) -> tuple[float, object]:
        torch = self._torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        made = work()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3, made

    def reference(self) -> Work:
        square = self._torch.ones(_SIDE, _SIDE)
        many = self._torch.ones(_NUMBERS)
        return lambda: (square @ square, many.clone())


class Jax:
    """JAX: each event is compiled, and the overhead of a call is subtracted."""

    def __init__(self, threads: int) -> None:
        if threads == 1 and "XLA_FLAGS" not in os.environ:
            os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        import jax  # Not at the top of the file: optional, and XLA_FLAGS comes first.

        self._jax = jax
        self._draw = np.random.default_rng(0)
        empty = jax.jit(lambda: ())
        for _ in range(WARM_UPS):
            empty()
        self._call = median(_time_work(empty)[0] for _ in range(100))

    @property
    def device(self) -> str:
        return str(self._jax.devices()[0].device_kind)

    def work(self, text: str, inputs: Sequence[tuple[str, Sequence[int]]]) -> Work:
        from synth.step.emit.files import LONG_DTYPES  # As above.

        jax = self._jax
        space = _execute_text(text)
        axes = space["AXES"]
        space["lax"] = SimpleNamespace(
            **{name: getattr(jax.lax, name) for name in dir(jax.lax) if name[0] != "_"}
            | {
                "axis_index": lambda names: 0,
                "axis_size": lambda names: prod(axes[name] for name in names),
            }
        )
        given = [
            jax.numpy.asarray(draw_numbers(dtype, shape, self._draw), LONG_DTYPES[dtype])
            for dtype, shape in inputs
        ]
        step = jax.jit(space["device_step"])
        return lambda: jax.block_until_ready(step(given))

    def seconds(self, work: Work) -> tuple[float, object]:
        taken, made = _time_work(work)
        return max(0.0, taken - self._call), made

    def reference(self) -> Work:
        jax = self._jax
        square, many = jax.numpy.ones((_SIDE, _SIDE)), jax.numpy.ones(_NUMBERS)
        step = jax.jit(lambda x, y: (x @ x, y + 1))
        return lambda: jax.block_until_ready(step(square, many))


def _time_work(work: Work) -> tuple[float, object]:
    begin = time.perf_counter()
    made = work()
    return time.perf_counter() - begin, made


def _execute_text(text: str) -> dict[str, Any]:
    """Executes an emitted file as a module that is not ``__main__``; returns its names."""
    space: dict[str, Any] = {"__name__": "event"}
    exec(compile(text, "<event>", "exec"), space)  # Safe: our own emitter wrote the text.
    return space


RUNTIMES: Mapping[str, Callable[[int], Torch | Jax]] = {"torch": Torch, "jax": Jax}


def main(folder: Path, number: int) -> None:
    """Measures the events of a folder, and writes the results there."""
    settings = json.loads((folder / "events.json").read_text(encoding="utf-8"))
    if settings["pinned"] and hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[number % len(allowed)]})
    runtime = RUNTIMES[settings["runtime"]](settings["threads"])
    given = {
        key: ((folder / f"{key}.py").read_text(encoding="utf-8"), inputs)
        for key, inputs in settings["events"].items()
    }
    bench = Bench(runtime, given)
    end = time.monotonic() + settings["most_seconds"]
    for done in range(settings["rounds"]):
        if done >= settings["least_rounds"] and time.monotonic() > end:
            break
        bench.round()
    found = {
        "device": runtime.device,
        "reference": bench.samples.reference,
        "events": bench.samples.steady(),
    }
    (folder / f"measured{number}.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
