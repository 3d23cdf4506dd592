"""Runs the emitted file of a step in processes of this machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hierarchies import InputError
from synth.collective.run.processes import Command, supervise
from synth.step.trials.inputs import Array, Values

MOST_PROCESSES = 64
MOST_BYTES = 2**33
"""The most bytes kept for the comparison: all values on every device after every step."""


@dataclass(frozen=True)
class TrialSettings:
    """How a step is run: its runtime, number of processes, and number of steps."""

    runtime: str
    processes: int
    steps: int = 3
    timeout_seconds: float = 120.0


@dataclass(frozen=True)
class RankOutputs:
    """Values of each rank after each step, by rank and name; steps are the first dimension.

    ``seconds``: how long each rank took for each step; all ranks begin a step together.
    """

    parts: dict[tuple[int, str], Array]
    seconds: dict[int, Array] = field(default_factory=dict)


def check(trial: TrialSettings, world: int, size_bytes: int, stages: int = 1) -> None:
    """Checks a trial before it starts.

    Raises InputError for a runtime that is not installed, for a number of processes that does not
    fit the plan (in JAX a single process has the devices of all stages), and for inputs that do not
    fit on this machine.
    """
    if find_spec(trial.runtime) is None:
        raise InputError(
            f"runtime {trial.runtime!r} is not installed",
            where="--runtime",
            hint=f"pip install 'collsynth[{trial.runtime}]'",
        )
    if world > MOST_PROCESSES:
        problem = f"the axes of the plan multiply to {world} devices, too many for one machine"
        raise InputError(problem, where="--plan", hint=f"at most {MOST_PROCESSES}")
    if trial.runtime == "jax" and stages > 1 and trial.processes != 1:
        problem = f"{trial.processes} processes of JAX for {stages} stages"
        hint = "1 process has all devices; or --runtime torch, one process for each"
        raise InputError(problem, where="--processes", hint=hint)
    of_jax = trial.runtime == "jax" and 1 <= trial.processes <= world
    if trial.processes != world and not (of_jax and world % trial.processes == 0):
        hint = f"{world}, one for each device"
        raise InputError(
            f"{trial.processes} processes, and the axes of the plan multiply to {world} devices",
            where="--processes",
            hint=f"{hint}, or a number that divides it" if trial.runtime == "jax" else hint,
        )
    if (all_bytes := size_bytes * trial.steps * (world + 2)) > MOST_BYTES:
        raise InputError(
            f"{trial.steps} steps on {world} devices of {size_bytes} bytes do not fit here",
            where="--check",
            hint=f"they take {all_bytes} bytes, and at most {MOST_BYTES}: give smaller sizes",
        )


def run_trial(
    files: Mapping[str, str],
    world: int,
    inputs: Values,
    trial: TrialSettings,
    folder: Path,
    go_on: Callable[[], bool] = lambda: True,
) -> RankOutputs:
    """Runs an emitted step on these inputs, in processes whose files are kept in a folder.

    The first of ``files`` is run; the others are in the same folder. Raises RunError if a process
    fails or time runs out.
    """
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    file, given = folder / next(iter(files)), folder / "inputs.npz"
    np.savez(given, allow_pickle=False, **inputs)
    arguments = ("--steps", str(trial.steps), "--inputs", str(given), "--outputs", str(folder))
    command = (sys.executable, str(file), *arguments)
    commands = _COMMANDS[trial.runtime](command, world, trial.processes, folder)
    supervise(commands, folder, trial.timeout_seconds, go_on)
    parts, seconds = {}, {}
    for number in range(trial.processes):
        with np.load(folder / f"process{number}.npz", allow_pickle=False) as saved:
            for key in saved.files:
                rank, _, name = key.partition(":")
                if name:
                    parts[int(rank), name] = saved[key]
                else:
                    seconds[int(rank)] = saved[key]
    return RankOutputs(parts, seconds)


def _jax_commands(
    words: tuple[str, ...], world: int, processes: int, folder: Path
) -> list[Command]:
    """Returns commands that compile as quickly as possible, as a step runs only a few times."""
    fake = f"--xla_force_host_platform_device_count={world // processes}"
    flags = f"{fake} --xla_backend_optimization_level=0"
    environment = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    if processes == 1:
        return [Command("the JAX process", words, environment)]
    cluster = ("--coordinator", f"127.0.0.1:{_free_port()}", "--processes", str(processes))
    return [
        Command(f"process {n}", (*words, *cluster, "--process", str(n)), environment)
        for n in range(processes)
    ]


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def _torch_commands(
    words: tuple[str, ...], world: int, processes: int, folder: Path
) -> list[Command]:
    # All ranks share this machine's cores, so each uses a single thread.
    shared = {"WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1"}
    more = ("--backend", "gloo", "--init-method", (folder / "rendezvous").as_uri())
    return [
        Command(f"rank {rank}", (*words, *more), {**shared, "RANK": str(rank)})
        for rank in range(world)
    ]


_COMMANDS = {"jax": _jax_commands, "torch": _torch_commands}
