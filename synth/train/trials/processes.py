"""The emitted file of a step, run by processes of this machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hierarchies import InputError
from synth.run.processes import Command, supervise
from synth.train.trials.inputs import Array, Values

MOST_PROCESSES = 64


@dataclass(frozen=True)
class Trial:
    """How a step is tried: in which runtime, by how many processes, how many steps."""

    runtime: str
    processes: int
    steps: int = 3
    timeout_seconds: float = 120.0


@dataclass(frozen=True)
class Sharded:
    """What each rank held after each step, by rank and name; steps are the first dimension."""

    parts: dict[tuple[int, str], Array]


def check_runtime(runtime: str) -> None:
    """Raises InputError where a runtime is not installed."""
    if find_spec(runtime) is None:
        raise InputError(
            f"runtime {runtime!r} is not installed",
            where="--runtime",
            hint=f"pip install 'collsynth[{runtime}]'",
        )


def trained(
    text: str,
    world: int,
    inputs: Values,
    trial: Trial,
    folder: Path,
    go_on: Callable[[], bool] = lambda: True,
) -> Sharded:
    """Run an emitted step on these inputs, in processes whose files are kept in a folder.

    Raises InputError for a runtime that is not installed and for numbers of processes that it
    cannot do with; RunError if a process fails or time runs out.
    """
    check_runtime(trial.runtime)
    _check_processes(trial, world)
    file, given = folder / "step.py", folder / "inputs.npz"
    file.write_text(text, encoding="utf-8")
    np.savez(given, allow_pickle=False, **{name: array for name, array in inputs.items()})
    words = (sys.executable, str(file), "--steps", str(trial.steps), "--inputs", str(given))
    words += ("--outputs", str(folder))
    commands = _COMMANDS[trial.runtime](words, world, trial.processes, folder)
    supervise(commands, folder, trial.timeout_seconds, go_on)
    found = {}
    for number in range(trial.processes):
        with np.load(folder / f"process{number}.npz", allow_pickle=False) as saved:
            for key in saved.files:
                rank, _, name = key.partition(":")
                found[int(rank), name] = saved[key]
    return Sharded(found)


def _check_processes(trial: Trial, world: int) -> None:
    """A process for each device; of JAX one may also have several."""
    if world > MOST_PROCESSES:
        problem = f"{world} devices are too many for one machine"
        raise InputError(problem, where="--plan", hint=f"at most {MOST_PROCESSES}")
    fits = trial.processes == world
    if trial.runtime == "jax":
        fits = 1 <= trial.processes <= world and world % trial.processes == 0
    if not fits:
        hint = f"{world}, one for each device"
        raise InputError(
            f"{trial.processes} processes, and the axes of the plan multiply to {world} devices",
            where="--processes",
            hint=hint + (", or a number that divides it" if trial.runtime == "jax" else ""),
        )


def _jax(words: tuple[str, ...], world: int, processes: int, folder: Path) -> list[Command]:
    fake = f"--xla_force_host_platform_device_count={world // processes}"
    environment = {"XLA_FLAGS": fake, "JAX_PLATFORMS": "cpu"}
    if processes == 1:
        return [Command("the JAX process", words, environment)]
    where = ("--coordinator", f"127.0.0.1:{_free_port()}", "--processes", str(processes))
    return [
        Command(f"process {one}", (*words, *where, "--process", str(one)), environment)
        for one in range(processes)
    ]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _torch(words: tuple[str, ...], world: int, processes: int, folder: Path) -> list[Command]:
    shared = {"WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1"}
    more = ("--backend", "gloo", "--init-method", (folder / "rendezvous").as_uri())
    return [
        Command(f"rank {rank}", (*words, *more), {**shared, "RANK": str(rank)})
        for rank in range(world)
    ]


_COMMANDS = {"jax": _jax, "torch": _torch}
