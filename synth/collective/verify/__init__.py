"""Independent judges of a program: z3 for all sizes and for one size, and a replay by numpy.

A program that the rules allow is correct only if the rules are. So judges with their own
definitions of the collectives check every answer: z3, for machines of every size at once, and a
replay of the schedule on arrays, compared with a plain sum. A verdict is ``Proved``, ``Refuted``
with the place where it goes wrong, or ``Unknown`` with the reason, never a bare yes or no.

>>> from grammar import parse
>>> from hierarchies import Tree
>>> from synth.collective.verify.symbolic import prove
>>> prove(parse("all-reduce d0 inside; all-reduce d0 parallel(root)"), Tree.of(4, 8))
Proved(sizes=None)
>>> prove(parse("all-reduce d0 inside"), Tree.of(4, 8)).violation.name
'GOAL_MISSED'
"""
