"""Schedules as files for other runtimes and tools. Nothing here imports them.

A target is a row of ``TARGETS`` with a pure function from an ``EmitSource`` (a schedule, its
prices, its verdict) to files. A target that cannot express a step raises an error with the step's
number and the targets that can, rather than write anything but what was proved.

>>> from synth.collective.emit import TARGETS, target_of
>>> [name for name, target in TARGETS.items() if target.places]
['rankfile', 'slurm', 'torchrun', 'jax-devices', 'kubernetes']
>>> target_of("jax").summary
'one JAX file: a factored mesh, groups by axis names'
>>> target_of("svgg")
Traceback (most recent call last):
    ...
hierarchies.errors.InputError: --target: no target 'svgg'; did you mean svg?
"""

from synth.collective.emit.mesh import Mesh, RankOrder
from synth.collective.emit.package import PackageEntry, emit_all
from synth.collective.emit.source import CannotExpressError, EmitOptions, EmitSource, Files
from synth.collective.emit.targets import TARGETS, emit, runnable_targets, target_of

__all__ = [
    "TARGETS",
    "CannotExpressError",
    "EmitOptions",
    "EmitSource",
    "Files",
    "Mesh",
    "PackageEntry",
    "RankOrder",
    "emit",
    "emit_all",
    "runnable_targets",
    "target_of",
]
