"""Rules that FlexFlow's generator made, read from its JSON, and judged.

A rule has two graphs of operators on tensors that are cut, of which the second is to stand for the
first. (github.com/flexflow/FlexFlow, ``substitutions/graph_subst_3_v2.json``, Apache-2.0: 640
rules.) Relu of what is cut in two is cut as relu was; to cut channels instead of samples may halve
a single one:

>>> from synth.train.substitutions.flexflow import Operator, Rule, judged
>>> def cut(dimension, read):
...     parameters = (("PM_PARALLEL_DEGREE", 2), ("PM_PARALLEL_DIM", dimension))
...     return Operator("OP_PARTITION", ((read, 0),), parameters)
>>> def relu(read):
...     return Operator("OP_RELU", ((read, 0),), ())
>>> ends = (((1, 0), (1, 0)),)
>>> judged(Rule("after", (cut(1, -1), relu(0)), (relu(-1), cut(1, 0)), ends))
Proved(sizes=None)
>>> judged(Rule("elsewhere", (cut(1, -1), relu(0)), (relu(-1), cut(2, 0)), ends)).because
'it halves what has no half'
"""

from synth.train.substitutions.flexflow.arrays import Witness
from synth.train.substitutions.flexflow.judging import Outside, Refuted, judged
from synth.train.substitutions.flexflow.reading import Operator, Rule, read_rules

__all__ = ["Operator", "Outside", "Refuted", "Rule", "Witness", "judged", "read_rules"]
