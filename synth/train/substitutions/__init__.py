"""Substitutions in a sharded step, each proved for all sizes or refused with a witness.

>>> from synth.train.substitutions import RULES, TEMPTING, certified
>>> certified(RULES["all-gather as late as can be"])
Certified(bitwise=True)
>>> certified(RULES["all-reduce after a product"])
Certified(bitwise=False)
>>> print(certified(TEMPTING["a cast before an all-reduce"]).because)
the sides differ: device (0,) at (0,) (a=2, n=3): 0 is not 8
"""

from synth.train.substitutions.rules import (
    RULES,
    TEMPTING,
    Certified,
    Refused,
    Substitution,
    certified,
)

__all__ = ["RULES", "TEMPTING", "Certified", "Refused", "Substitution", "certified"]
