"""The table of targets: one row for each runtime or tool that takes a schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hierarchies import InputError, suggest_nearest
from synth.collective.emit import jax, launchers, mpi, nccl_tuner, torch
from synth.collective.emit.chakra import trace as chakra
from synth.collective.emit.document import writing as document
from synth.collective.emit.mscclpp import plan as mscclpp
from synth.collective.emit.nccl import calls, plugin
from synth.collective.emit.source import CannotExpressError, EmitSource, Files
from synth.collective.emit.timeline import svg as picture
from synth.collective.emit.timeline import trace as timeline


@dataclass(frozen=True)
class Target:
    """A target's summary, its tab on the page, and the pure function that writes its files.

    Without a ``tab`` the page does not offer it. ``module``: the runtime of the Python module that
    it writes. ``runs``: its files carry out the program, as those of torch do. ``overlaps``: they
    support segments and stripes; other targets get schedules of one segment and one stripe.
    ``places``: only the placement is written, for any program. ``by_size``: they have rows for
    ranges of sizes. ``check`` raises the errors of
    ``write``, but sooner; None if writing is quick.
    """

    summary: str
    write: Callable[[EmitSource], Files]
    tab: str = ""
    module: str = ""
    runs: bool = False
    overlaps: bool = False
    places: bool = False
    by_size: bool = False
    check: Callable[[EmitSource], None] | None = None


def _module(summary: str, write: Callable[[EmitSource], Files], tab: str, runtime: str) -> Target:
    return Target(summary, write, tab, runtime, runs=True, overlaps=True)


def _placement(summary: str, write: Callable[[EmitSource], Files], tab: str = "") -> Target:
    return Target(summary, write, tab, places=True)


TARGETS: Mapping[str, Target] = {
    "torch": _module(
        "one PyTorch file: process groups, DDP, FSDP2", torch.write, "PyTorch", "torch"
    ),
    "jax": _module("one JAX file: a factored mesh, groups by axis names", jax.write, "JAX", "jax"),
    "jax-flat": _module(
        "one JAX file: groups of explicit ranks", jax.write_flat, "JAX, explicit groups", "jax"
    ),
    "mpi": _module("one mpi4py file", mpi.write, "mpi4py", "mpi"),
    "mscclpp": Target(
        "a proved MSCCL++ execution plan",
        mscclpp.write,
        "MSCCL++",
        runs=True,
        check=mscclpp.check,
    ),
    "chakra": Target("Chakra traces and ASTRA-sim inputs", chakra.write),
    "nccl-tuner": Target(
        "NCCL tuner: rings and trees for its calls", nccl_tuner.write, "NCCL tuner", by_size=True
    ),
    "nccl-plugin": Target("the same as a plugin in C", plugin.write, by_size=True),
    "nccl": Target("C: NCCL calls with an algorithm each", calls.write),
    "json": Target(
        "the schedule as JSON, by a published schema", document.write, "JSON", overlaps=True
    ),
    "trace": Target(
        "a Chrome/Perfetto timeline of the simulated run", timeline.write, overlaps=True
    ),
    "svg": Target("a drawing of the simulated run, and a table", picture.write, overlaps=True),
    "rankfile": _placement(
        "Open MPI: which device each rank gets", launchers.rankfile, "Open MPI rankfile"
    ),
    "slurm": _placement("Slurm: hosts for --distribution=arbitrary", launchers.slurm, "Slurm"),
    "torchrun": _placement("torchrun: a RANK for each process", launchers.torchrun, "torchrun"),
    "jax-devices": _placement("JAX: the order of the devices", launchers.jax_devices),
    "kubernetes": _placement(
        "Kubernetes: the ranks of each pod", launchers.kubernetes, "Kubernetes"
    ),
}


def target_of(name: str) -> Target:
    """Returns the row of a target. Raises InputError for an unknown name."""
    if name not in TARGETS:
        raise InputError(
            f"no target {name!r}", where="--target", hint=suggest_nearest(name, TARGETS)
        )
    return TARGETS[name]


def emit(target: str, source: EmitSource) -> Files:
    """Returns the files of a target for a schedule.

    Raises InputError for a target that does not exist, and CannotExpressError, which names the
    step, the reason and the targets that can, for a program that the target cannot express.
    """
    row = target_of(target)
    if row.places:
        return row.write(source.stripes[0])
    if not row.overlaps:
        _check_alone(target, source)
    try:
        return row.write(source)
    except CannotExpressError as error:
        able = ", ".join(runnable_targets(source)) or "none"
        raise CannotExpressError(
            f"{target} cannot express {error.problem}", where=error.where, hint=f"these can: {able}"
        ) from None


def runnable_targets(source: EmitSource) -> tuple[str, ...]:
    """Returns the targets that can carry out a schedule."""
    overlapped = bool(source.beside) or source.schedule.segments > 1
    able = {n: t for n, t in TARGETS.items() if t.runs and (t.overlaps or not overlapped)}
    return tuple(name for name, target in able.items() if _is_expressible(target, source))


def _check_alone(target: str, source: EmitSource) -> None:
    """Refuses segments and stripes for a target without them."""
    if source.beside:
        able = ", ".join(name for name, row in TARGETS.items() if row.overlaps)
        raise InputError(
            f"target {target} has no stripes, and the payload is split over {len(source.stripes)}",
            hint="take an answer of one program, or ask with --no-stripes; these have: " + able,
        )
    if source.schedule.segments > 1:
        raise InputError(
            f"target {target} has no segments, and the schedule has {source.schedule.segments}",
            hint="lower the program in one segment",
        )


def _is_expressible(target: Target, source: EmitSource) -> bool:
    try:
        (target.check or target.write)(source)
    except InputError:
        return False
    return True
