"""Sequences of grouped collectives: instructions, their groups on a tree, and their text.

An instruction is a collective, a slice (a level of the tree) and a form: ``inside`` the slice,
``parallel`` among devices with the same place in their slices, ``master`` among the first devices
only. ``across`` any digits is our addition to the three forms of P² (Xie et al., MLSys 2022). The
properties of a collective (whether it reduces, whether it is rooted) are one row of ``FACTS``. The
judges do not read this table, so they share no mistake with the code that they judge.

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
