"""Views of answers that are no ranking: a headline, what it rests on, drawings, and files.

>>> from synth.service.page.views import found
>>> found("systems", {"schema_version": 1}) is None
True
"""

from synth.service.page.views.carried import boxes as boxes
from synth.service.page.views.carried import carried as carried
from synth.service.page.views.files import Folder as Folder
from synth.service.page.views.files import folders as folders
from synth.service.page.views.files import written_for as written_for
from synth.service.page.views.files import zipped as zipped
from synth.service.page.views.found import Found as Found
from synth.service.page.views.found import found as found
from synth.service.page.views.found import over_sizes_drawn as over_sizes_drawn

__all__ = [
    "Folder",
    "Found",
    "boxes",
    "carried",
    "folders",
    "found",
    "over_sizes_drawn",
    "written_for",
    "zipped",
]
