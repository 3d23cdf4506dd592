"""Help: what the words of the page mean, on a page of their own and where each first appears.

>>> from synth.service.page.help import term
>>> str(term("bound")).partition(" title")[0]
'<a class="term" href="/help#bound"'
"""

from synth.service.page.help.terms import TERMS as TERMS
from synth.service.page.help.terms import Term as Term
from synth.service.page.help.terms import once as once
from synth.service.page.help.terms import step as step
from synth.service.page.help.terms import term as term

__all__ = ["TERMS", "Term", "once", "step", "term"]
