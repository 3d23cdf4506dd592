"""Schedules as files for other runtimes and tools. Nothing here imports them.

A target is a row of ``TARGETS`` with a pure function from an ``EmitSource`` (a schedule, its
prices, its verdict) to files. A target that cannot express a step raises an error with the step's
number and the targets that can; it never writes anything other than the proved program.

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

from synth.collective.emit.mesh import RankOrder as RankOrder
from synth.collective.emit.package import PackageEntry as PackageEntry
from synth.collective.emit.package import emit_all as emit_all
from synth.collective.emit.source import CannotExpressError as CannotExpressError
from synth.collective.emit.source import EmitOptions as EmitOptions
from synth.collective.emit.source import EmitSource as EmitSource
from synth.collective.emit.source import Files as Files
from synth.collective.emit.source import PricedRange as PricedRange
from synth.collective.emit.targets import TARGETS as TARGETS
from synth.collective.emit.targets import emit as emit
from synth.collective.emit.targets import runnable_targets as runnable_targets
from synth.collective.emit.targets import target_of as target_of
