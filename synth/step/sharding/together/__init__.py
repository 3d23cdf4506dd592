"""Joins parts of a program: requests into buckets, and updates of parameters into one kernel.

Several all-gathers can be concatenated into one request; all-to-alls cannot:

>>> from synth.step.sharding.together.buckets import FLAT
>>> from synth.step.redistribution import MoveKind
>>> MoveKind.ALL_GATHER in FLAT, MoveKind.ALL_TO_ALL in FLAT
(True, False)
"""
