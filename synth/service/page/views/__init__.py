"""Views of answers that are no ranking: a headline, what it rests on, and drawings.

>>> from synth.service.page.views import found
>>> found("systems", {"schema_version": 1}) is None
True
"""

from synth.service.page.views.found import Found as Found
from synth.service.page.views.found import found as found
from synth.service.page.views.found import over_sizes_drawn as over_sizes_drawn

__all__ = ["Found", "found", "over_sizes_drawn"]
