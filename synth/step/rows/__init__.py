"""Choosing how a step is cut: of every operation the row along each axis, of every input its type.

The space of FlexFlow's SOAP (samples, operations, attributes, parameters) over the axes of a
placement: any factor of any operation may be cut. Costs are of an operation alone, which computes,
and of one that reads what another made, which redistributes; so elimination finds the best, or
message passing what is proved to be near it. Overlap and memory are not in these sums: what is
chosen is a beginning, and a bound, for searches that ask the clock (design of the step, section 9).

A product of square matrices, both of which arrive whole, is cut in half for nothing:

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.rows import choose, plain_prices
>>> from synth.step.sharding import Cuts, Plan
>>> text = "step one\\nin x: f32[8,8] batch\\nin w: f32[8,8] parameter\\n"
>>> text += "y: f32[8,8] = dot_general(x, w) dimension_numbers=(((1),(0)),((),()))\\nout y"
>>> prices = plain_prices({"data": 2}, {"data": 1e9}, flops_per_second=1e12)
>>> found = choose(parse_step(text), Plan((("data", 2),), Cuts((), ())), prices).found
>>> type(found).__name__, found.seconds == 8 * 8 * 8 / 1e12
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
