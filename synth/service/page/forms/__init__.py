"""The forms of questions. Each is a row of a table, and its boxes are the flags of its question.

>>> from synth.service.page.forms import FORMS
>>> [form.address for form in FORMS.values()][:4]
['/', '/plan', '/ask/sweep', '/ask/cost']
"""

from synth.service.page.forms.routes import router as router
from synth.service.page.forms.table import FORMS as FORMS
