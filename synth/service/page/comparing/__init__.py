"""Two answers side by side, with their differences.

>>> from synth.service.page.comparing import unlike
>>> unlike({"bytes": 1024, "k": 3}, {"bytes": 2048, "k": 3}).rows
[['bytes', '1 KiB', '2 KiB']]
"""

from synth.service.page.comparing.routes import router as router
from synth.service.page.comparing.sides import unlike as unlike

__all__ = ["router", "unlike"]
