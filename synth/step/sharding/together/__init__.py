"""What of a program goes as one: requests in buckets, the update of all parameters.

All-gathers can go end to end as one request, all-to-alls cannot:

>>> from synth.step.sharding.together.buckets import FLAT
>>> from synth.step.redistribution import MoveKind
>>> MoveKind.ALL_GATHER in FLAT, MoveKind.ALL_TO_ALL in FLAT
(True, False)
"""
