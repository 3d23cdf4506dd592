"""Plans of a whole step for pages: those of an answer, and comparisons of plans.

>>> from synth.show.report.plans import clauses
>>> clauses("data=4 tensor=2; batch over data; weights over tensor as Megatron; zero=1")["sharding"]
'batch over data; weights over tensor as Megatron'
"""

from synth.show.report.plans.comparison import ListedPlan as ListedPlan
from synth.show.report.plans.comparison import PlanComparison as PlanComparison
from synth.show.report.plans.comparison import clauses as clauses
from synth.show.report.plans.comparison import compare_plans as compare_plans
from synth.show.report.plans.view import PlansView as PlansView
from synth.show.report.plans.view import plans_view as plans_view

__all__ = ["ListedPlan", "PlanComparison", "PlansView", "clauses", "compare_plans", "plans_view"]
