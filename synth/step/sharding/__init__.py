"""Plans of a training step: the sharding of every value and the rows of every operation.

``parse_recipe`` reads "data=8 tensor=4; batch over data; zero=1", ``plan_of`` expands a recipe for
a step, and ``apply`` inserts the redistributions that a plan needs and nothing else.
``plan_text`` and ``parse_plan`` write and read a plan in full, to be edited by hand.

>>> from grammar.tensors.operations import Graph, Operation, Step, Value
>>> from grammar.tensors.sharding import Sharding, Type
>>> from synth.step.factors import list_rows
>>> from synth.step.sharding import Cuts, Plan, apply
>>> x, total = Value("x", Type("f32", (8,))), Value("total", Type("f32", ()))
>>> sum_ = Operation("reduce_sum", (x,), (total,), (("axes", (0,)),))
>>> step = Step("sum", Graph((x,), (sum_,), (total,)), ("batch",), ("x",))
>>> whole, contracted, *_ = list_rows(sum_)
>>> plan = Plan((("data", 4),), Cuts((Sharding((("data",),)),), ((("data", contracted),),)))
>>> apply(step, plan).outputs[0].spelled()
'[]{sum:data}'
"""

from synth.step.sharding.applying import apply, check, list_redistributions
from synth.step.sharding.expansion import adapt_plan, plan_of
from synth.step.sharding.full_text import parse_plan, plan_text
from synth.step.sharding.layers.prepared import prepare_step
from synth.step.sharding.plan import Cuts, Plan, Rows
from synth.step.sharding.program import (
    InstructionPlace,
    LocalOperation,
    RedistributedValue,
    SentValue,
    StepPhase,
    StepProgram,
)
from synth.step.sharding.recipes import Recipe
from synth.step.sharding.text import parse_recipe

__all__ = [
    "Cuts",
    "InstructionPlace",
    "LocalOperation",
    "Plan",
    "Recipe",
    "RedistributedValue",
    "Rows",
    "SentValue",
    "StepPhase",
    "StepProgram",
    "adapt_plan",
    "apply",
    "check",
    "list_redistributions",
    "parse_plan",
    "parse_recipe",
    "plan_of",
    "plan_text",
    "prepare_step",
]
