"""Plans of a training step: the sharding of every value and the rows of every operation.

``parse_recipe`` parses "data=8 tensor=4; batch over data; zero=1", and ``plan_of`` expands a recipe
into a plan for a step. ``apply`` inserts the redistributions that a plan needs and nothing else.
``plan_text`` and ``parse_plan`` write and parse a plan in full, which can be edited by hand.

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

from synth.step.sharding.applying import apply as apply
from synth.step.sharding.applying import check as check
from synth.step.sharding.expansion import adapt_plan as adapt_plan
from synth.step.sharding.expansion import plan_of as plan_of
from synth.step.sharding.full_text import parse_plan as parse_plan
from synth.step.sharding.full_text import plan_text as plan_text
from synth.step.sharding.layers.prepared import prepare_step as prepare_step
from synth.step.sharding.plan import PIPE as PIPE
from synth.step.sharding.plan import Cuts as Cuts
from synth.step.sharding.plan import Plan as Plan
from synth.step.sharding.plan import Rows as Rows
from synth.step.sharding.program import InstructionPlace as InstructionPlace
from synth.step.sharding.program import LocalOperation as LocalOperation
from synth.step.sharding.program import RedistributedValue as RedistributedValue
from synth.step.sharding.program import SentValue as SentValue
from synth.step.sharding.program import StepPhase as StepPhase
from synth.step.sharding.program import StepProgram as StepProgram
from synth.step.sharding.recipes import AND as AND
from synth.step.sharding.recipes import CLAUSES as CLAUSES
from synth.step.sharding.recipes import Recipe as Recipe
from synth.step.sharding.recipes import spell_shares as spell_shares
from synth.step.sharding.text import parse_recipe as parse_recipe
