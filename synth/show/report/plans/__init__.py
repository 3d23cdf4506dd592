"""What pages show of plans of a whole step: one answer's, and plans against each other.

>>> from synth.show.report.plans import clauses
>>> clauses("data=4 tensor=2; batch over data; weights over tensor as Megatron; zero=1")["cut"]
'batch over data; weights over tensor as Megatron'
"""

from synth.show.report.plans.beside import Beside as Beside
from synth.show.report.plans.beside import Listed as Listed
from synth.show.report.plans.beside import beside as beside
from synth.show.report.plans.view import PlansView as PlansView
from synth.show.report.plans.view import plans_view as plans_view
from synth.show.report.plans.words import clauses as clauses

__all__ = ["Beside", "Listed", "PlansView", "beside", "clauses", "plans_view"]
