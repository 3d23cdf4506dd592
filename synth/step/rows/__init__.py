"""Chooses how to shard a step: a row of each operation along each axis, and types of all inputs.

The space is that of FlexFlow's SOAP (samples, operations, attributes, parameters) over the axes of
a placement: any factor of any operation may be cut. Costs are unary (computation) and pairwise
(redistribution between an operation and its reader). So elimination finds the best choice, or
message passing finds a choice that is provably near the best. Overlap and memory are not counted:
the result is a starting point, and a bound, for searches that simulate.

A product of square matrices, both replicated, is cut in half without communication:

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.rows import choose, plain_prices
>>> from synth.step.sharding import Cuts, Plan
>>> text = "step one\\nin x: f32[8,8] batch\\nin w: f32[8,8] parameter\\n"
>>> text += "y: f32[8,8] = dot_general(x, w) dimension_numbers=(((1),(0)),((),()))\\nout y"
>>> prices = plain_prices({"data": 2}, {"data": 1e9}, flops_per_second=1e12)
>>> result = choose(parse_step(text), Plan((("data", 2),), Cuts((), ())), prices).found
>>> type(result).__name__, result.seconds == 8 * 8 * 8 / 1e12
('Optimal', True)
"""

from synth.step.rows.choosing import PlanSolution, choose
from synth.step.rows.options import ShardingOption, list_options
from synth.step.rows.prices import Prices, plain_prices, seconds_of

__all__ = [
    "PlanSolution",
    "Prices",
    "ShardingOption",
    "choose",
    "list_options",
    "plain_prices",
    "seconds_of",
]
