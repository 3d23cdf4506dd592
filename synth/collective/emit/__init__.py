"""Schedules as files for other runtimes and tools. Nothing here imports them.

A target is a row of ``TARGETS`` with one pure function, from a ``Source`` (a schedule, its prices,
its verdict) to files. A target that cannot express a step raises an error with the step's number
and the targets that can, rather than write something else than what was proved.

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
from synth.collective.emit.package import Entry, emit_all
from synth.collective.emit.source import CannotExpressError, Files, Options, Source
from synth.collective.emit.targets import TARGETS, able_to_run, emit, target_of

__all__ = [
    "TARGETS",
    "CannotExpressError",
    "Entry",
    "Files",
    "Mesh",
    "Options",
    "RankOrder",
    "Source",
    "able_to_run",
    "emit",
    "emit_all",
    "target_of",
]
