"""What programs mean: the rules, the states they reach, and the schedules they lower to.

A state records, for every device, which chunks it holds and whose contributions they contain. A
rule defines in which states a collective is allowed and which state results; a program that reaches
its goal by the rules has a ``Derivation``, and only a derivation can be lowered to a schedule of
real devices. A program that gathers before it has summed over nodes is refused, with the reason:

>>> from grammar import parse
>>> from hierarchies import Reduction
>>> from synth.collective.semantics.lowering import lower
>>> from synth.collective.semantics.rules import derive
>>> reduction = Reduction.plain(2, 2)
>>> wrong = parse("reduce-scatter level0 inside; all-gather level0 inside")
>>> derive(wrong, reduction.tree).reason
'not every device ends with every contribution'
>>> right = parse("all-reduce level0 inside; all-reduce level0 parallel(root)")
>>> [phase.groups.tolist() for phase in lower(derive(right, reduction.tree), reduction, 64).phases]
[[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
"""
