"""Rules that FlexFlow's generator made, read from its JSON, and judged.

A rule has two graphs of operators on tensors that are cut, of which the second is to stand for the
first. (github.com/flexflow/FlexFlow, ``substitutions/graph_subst_3_v2.json``, Apache-2.0: 640
rules.)
"""

from synth.train.substitutions.flexflow.arrays import Witness
from synth.train.substitutions.flexflow.judging import Outside, Refuted, judged
from synth.train.substitutions.flexflow.reading import Operator, Rule, read_rules

__all__ = ["Operator", "Outside", "Refuted", "Rule", "Witness", "judged", "read_rules"]
