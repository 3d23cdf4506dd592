"""Schedules as files for other runtimes and tools. Nothing here imports them.

A target is a row of ``TARGETS`` with a pure function from an ``EmitSource`` (a schedule, its
prices, its verdict) to files. A target that cannot express a step raises an error with the step's
number and the targets that can; it never writes anything other than the proved program.

>>> from synth.collective.emit.targets import TARGETS, target_of
>>> [name for name, target in TARGETS.items() if target.places]
['rankfile', 'slurm', 'torchrun', 'jax-devices', 'kubernetes']
>>> target_of("jax").summary
'one JAX file: a factored mesh, groups by axis names'
>>> target_of("svgg")
Traceback (most recent call last):
    ...
hierarchies.errors.InputError: --target: no target 'svgg'; did you mean svg?
"""
