"""Two answers side by side, with their differences.

>>> from synth.service.page.comparing import question_differences
>>> question_differences({"bytes": 1024, "k": 3}, {"bytes": 2048, "k": 3}).rows
[['bytes', '1 KiB', '2 KiB']]
"""

from synth.service.page.comparing.routes import router as router
from synth.service.page.comparing.sides import question_differences as question_differences
