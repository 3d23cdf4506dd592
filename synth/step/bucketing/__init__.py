"""Finds the gradient buckets with the fastest step, for users of DDP who plan nothing else.

The backward pass of a replica is read from its simulated tasks (``gradients``). Buckets are timed
(``clock``), the best are found exactly (``choosing``), and compared with DDP's default within
the prediction error (``compare_policies``). ``write_script`` writes the buckets for DDP.

Of three gradients, the first is computed long before the others:

>>> from synth.step.bucketing.choosing import find_buckets
>>> from synth.step.bucketing.gradients import BackwardPass, Gradient
>>> made = [("last", 1.0), ("middle", 9.0), ("first", 10.0)]
>>> gradients = tuple(Gradient(name, -1, 8, 32, seconds) for name, seconds in made)
>>> find_buckets(BackwardPass("f32", gradients, 10.0, 0.0), lambda size: 2 + size / 32)
(1, 3)
"""

from synth.step.bucketing.compared import (
    BucketComparison,
    FillPolicy,
    PolicyResult,
    compare_policies,
)
from synth.step.bucketing.replica import AXIS, Replica, build_replica
from synth.step.bucketing.script import SCRIPT_NAME, write_script

__all__ = [
    "AXIS",
    "SCRIPT_NAME",
    "BucketComparison",
    "FillPolicy",
    "PolicyResult",
    "Replica",
    "build_replica",
    "compare_policies",
    "write_script",
]
