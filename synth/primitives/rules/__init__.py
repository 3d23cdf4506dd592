"""Sharding rules: for each primitive the indices that it iterates over, and partial operands.

>>> from synth.primitives.rules.partials import MIRROR
>>> str(MIRROR[next(iter(MIRROR))]) != str(next(iter(MIRROR)))  # a negated maximum is a minimum
True
"""
