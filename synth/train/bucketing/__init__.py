"""Buckets of gradients for who runs DDP and plans nothing else: which end a step first?

The backward pass of a replica is read off its simulated tasks (``gradients``), buckets are put on
a clock (``clock``), the best of all are found exactly (``choosing``), and compared with DDP's own
as far as prices can tell (``compared``). ``script`` writes them for DDP.
"""

from synth.train.bucketing.compared import Compared, Filled, Filling, compared
from synth.train.bucketing.replica import AXIS, Replica, replica
from synth.train.bucketing.script import NAME, script

__all__ = [
    "AXIS",
    "NAME",
    "Compared",
    "Filled",
    "Filling",
    "Replica",
    "compared",
    "replica",
    "script",
]
