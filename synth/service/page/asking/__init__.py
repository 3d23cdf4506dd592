"""Forms of further verbs: each is a row of a table, and its boxes are its question's flags.

>>> from synth.service.page.asking import FORMS
>>> list(FORMS)
['sweep', 'cost', 'plan', 'doctor', 'calibrate', 'tests']
"""

from synth.service.page.asking.routes import router as router
from synth.service.page.asking.rows import FORMS as FORMS
from synth.service.page.asking.rows import VerbForm as VerbForm

__all__ = ["FORMS", "VerbForm", "router"]
