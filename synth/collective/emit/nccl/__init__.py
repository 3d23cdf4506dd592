"""Files in C for NCCL: each call with an algorithm of its own, and a tuner plugin.

``calls`` writes a header with the groups of a program and a function for each call, which states
its algorithm (NCCL 2.31.2 or later); ``plugin`` a tuner plugin, which chooses by group and size. A
version says which of them it understands:

>>> from synth.collective.algorithms.nccl_versions import PER_CALL, parse_version, tuner_interface
>>> [(parse_version(v) >= PER_CALL, tuner_interface(parse_version(v))) for v in ("2.28.3", "2.32")]
[(False, 5), (True, 7)]
"""
