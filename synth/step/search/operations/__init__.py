"""A simulated plan looked at operation by operation: rows and substitutions no recipe can say.

A row of one operation is changed where something is redistributed, here of the second of two:

>>> from synth.step.factors import Row
>>> from synth.step.search.operations.substituting import replace_row
>>> from synth.step.sharding import Cuts
>>> whole, by_rows = Row((None, None), (None,)), Row((0, None), (0,))
>>> cuts = Cuts((), ((("data", whole),), (("data", whole),)))
>>> replace_row(cuts, (1,), "data", by_rows, ("data",)).operations[1] == (("data", by_rows),)
True
"""
