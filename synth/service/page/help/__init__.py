"""Help: the meanings of the page's terms, on a separate page and where each term first appears.

>>> from synth.service.page.help import link_term
>>> str(link_term("bound")).partition(" title")[0]
'<a class="term" href="/help#bound"'
"""

from synth.service.page.help.terms import TERMS as TERMS
from synth.service.page.help.terms import Term as Term
from synth.service.page.help.terms import link_once as link_once
from synth.service.page.help.terms import link_step as link_step
from synth.service.page.help.terms import link_term as link_term
