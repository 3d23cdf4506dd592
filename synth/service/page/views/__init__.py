"""Views of answers without a ranking: a headline, explanations, drawings, and files.

>>> from synth.service.page.views import view_of_answer
>>> view_of_answer("systems", {"schema_version": 1}) is None
True
"""

from synth.service.page.views.carried import boxes as boxes
from synth.service.page.views.carried import keys_for_next as keys_for_next
from synth.service.page.views.files import Folder as Folder
from synth.service.page.views.files import files_question as files_question
from synth.service.page.views.files import folders as folders
from synth.service.page.views.files import zip_folder as zip_folder
from synth.service.page.views.found import draw_over_sizes as draw_over_sizes
from synth.service.page.views.found import view_of_answer as view_of_answer
