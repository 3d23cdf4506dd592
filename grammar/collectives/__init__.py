"""Sequences of grouped collectives: steps, the groups they have on a tree, and their text.

A step is a collective, a slice (a level of the tree) and a form: ``inside`` the slice, ``parallel``
among devices with the same place in their slices, ``master`` among the first ones only; ``across``
any digits is our addition. The three forms are those of P² (Xie et al., MLSys 2022). What is true
of a collective (does it add up, is it rooted) stands in one row of ``FACTS``. The judges do not
read it: they must not share a mistake with the code they judge.

>>> from grammar.collectives.groups import instruction, spell
>>> from grammar.collectives.parser import parse
>>> from hierarchies import Tree
>>> tree = Tree.of(2, 4, 8)
>>> [step] = parse("reduce d1 master(root)").steps
>>> meant = instruction(step, tree)
>>> meant.groups
Groups(free=(0, 1), zero=(2,))
>>> str(spell(meant, tree))
'reduce d1 master(root)'
>>> step.collective.reduces, step.collective.to_first
(True, True)
"""
