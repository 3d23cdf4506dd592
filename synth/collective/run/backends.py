"""The table of backends: how an emitted file is run by processes of this machine."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pydantic import TypeAdapter

from hierarchies import InputError, suggest_nearest
from synth.collective.emit.source import EmitSource, Files
from synth.collective.run.arrays import time_on_arrays
from synth.collective.run.processes import Command, supervise
from synth.collective.run.trial import RunError, TrialRequest, TrialResult

MOST_BYTES = 2**31
"""The most bytes for the payloads of all devices; a run keeps about four copies of them."""
_INTEGERS = ("int32", "int64")
_RESULT = TypeAdapter(TrialResult)


@dataclass(frozen=True)
class Backend:
    """The target whose file is run, its requirements, and the commands that run it.

    ``needs`` are the modules installed by the pip extra named like the target. ``commands``
    takes the number of devices, the file and its flags; None replays the schedule on arrays in
    this process. ``same_bits``: an all-reduce gives all members the same bits, so all devices
    of a reduction group must end with the same bits. MPI only recommends it.
    """

    summary: str
    dtypes: tuple[str, ...]
    most_devices: int
    target: str = ""
    needs: tuple[str, ...] = ()
    commands: Callable[[int, Path, Sequence[str]], list[Command]] | None = None
    same_bits: bool = True


def _gloo(devices: int, file: Path, flags: Sequence[str]) -> list[Command]:
    store = (file.parent / "rendezvous").as_uri()
    words = (sys.executable, str(file), *flags, "--backend", "gloo", "--init-method", store)
    shared = {"WORLD_SIZE": str(devices), "OMP_NUM_THREADS": "1"}
    return [
        Command(f"rank {rank}", words, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(devices)
    ]


def _mpi(devices: int, file: Path, flags: Sequence[str]) -> list[Command]:
    words = (find_mpiexec() or "mpiexec", "-n", str(devices), sys.executable, "-m", "mpi4py")
    return [Command("mpiexec", (*words, str(file), *flags), {"OMP_NUM_THREADS": "1"})]


def _jax(devices: int, file: Path, flags: Sequence[str]) -> list[Command]:
    fake = f"--xla_force_host_platform_device_count={devices}"
    environment = {"XLA_FLAGS": fake, "JAX_PLATFORMS": "cpu"}
    return [Command("the JAX process", (sys.executable, str(file), *flags), environment)]


def find_mpiexec() -> str | None:
    """Returns the mpiexec next to this Python, else the mpiexec on the PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.is_file() else shutil.which("mpiexec")


BACKENDS: Mapping[str, Backend] = {
    "numpy": Backend(
        "arrays in one process",
        ("float32", "float64", "float16", "int8", "int16", *_INTEGERS),
        2**16,
    ),
    "jax": Backend(
        "one process with a fake CPU device for each device",
        ("float32", "float64", "float16", "bfloat16", "int8", "int16", *_INTEGERS),
        512,
        "jax",
        ("jax",),
        _jax,
    ),
    "gloo": Backend(
        "a PyTorch process for each device",
        ("float32", "float64", "float16", "bfloat16", "int8", *_INTEGERS),
        64,
        "torch",
        ("torch",),
        _gloo,
    ),
    "mpi": Backend(
        "an MPI process for each device",
        ("float32", "float64", "int8", "int16", *_INTEGERS),
        64,
        "mpi",
        ("mpi4py",),
        _mpi,
        same_bits=False,
    ),
}


def run(
    backend: str, source: EmitSource, trial: TrialRequest, go_on: Callable[[], bool] = lambda: True
) -> TrialResult:
    """Executes a schedule; returns its duration, and whether the sums are right.

    Raises InputError for an unknown or missing backend, a dtype or size that it cannot take;
    CannotExpressError as ``emit`` does; RunError if a process fails or on a timeout.
    """
    row = _row(backend)
    _check(backend, row, source.schedule.devices, trial)
    if row.commands is None:
        return time_on_arrays(source.schedules, trial, go_on)
    from synth.collective.emit.targets import emit  # plans import this module, and run nothing

    return _run_file(row, emit(row.target, source), source.schedule.devices, trial, go_on)


def _row(backend: str) -> Backend:
    if backend not in BACKENDS:
        raise InputError(
            f"no backend {backend!r}", where="--backend", hint=suggest_nearest(backend, BACKENDS)
        )
    return BACKENDS[backend]


def _run_file(
    row: Backend, files: Files, devices: int, trial: TrialRequest, go_on: Callable[[], bool]
) -> TrialResult:
    """Returns the report of the emitted file, run by a process for each device."""
    assert row.commands is not None
    flags = ["--bytes", str(trial.payload_bytes), "--dtype", trial.dtype]
    flags += ["--repeat", str(trial.repeat), *(["--check"] if trial.check else [])]
    [(name, text)] = files.items()
    with tempfile.TemporaryDirectory(prefix="collsynth-") as place:
        file = Path(place) / name
        file.write_text(str(text), encoding="utf-8")
        commands = row.commands(devices, file, flags)
        return _parse_result(supervise(commands, file.parent, trial.timeout_seconds, go_on))


def _check(name: str, row: Backend, devices: int, trial: TrialRequest) -> None:
    if missing := [module for module in row.needs if find_spec(module) is None]:
        raise InputError(
            f"backend {name!r} needs {', '.join(missing)}, which is not installed",
            where="--backend",
            hint=f"pip install 'collsynth[{row.target}]'",
        )
    if name == "mpi" and find_mpiexec() is None:
        raise InputError(
            "backend 'mpi' needs mpiexec, which is not on the path",
            where="--backend",
            hint="pip install 'collsynth[mpi]' brings MPICH's",
        )
    check_trial(name, devices, trial)


def check_trial(name: str, devices: int, trial: TrialRequest) -> None:
    """Raises InputError for an unknown backend, and a dtype or size that it cannot take."""
    row = _row(name)
    if trial.dtype not in row.dtypes:
        raise InputError(
            f"backend {name!r} cannot reduce {trial.dtype!r}",
            where="--dtype",
            hint=f"it takes {', '.join(row.dtypes)}",
        )
    if devices > row.most_devices:
        raise InputError(
            f"{devices} devices are too many for backend {name!r} on one machine",
            hint=f"at most {row.most_devices}; --backend numpy takes more",
        )
    if devices * trial.payload_bytes > MOST_BYTES:
        raise InputError(
            f"{devices} devices with {trial.payload_bytes} bytes each do not fit on this machine",
            where="--bytes",
            hint=f"at most {MOST_BYTES // devices}",
        )


def _parse_result(printed: str) -> TrialResult:
    # The report is the last JSON line: libraries may print lines of their own before it.
    for line in reversed(printed.splitlines()):
        if line.startswith("{"):
            return _RESULT.validate_python(json.loads(line))
    raise RunError("the processes ended without a report")
