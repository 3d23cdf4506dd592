"""The page: forms, jobs and results for people who would rather look than read JSON."""

from synth.service.page.asking import router as asking
from synth.service.page.door import told
from synth.service.page.looking import router as looking

ROUTERS = (asking, looking)
"""What the app of a server takes in."""

__all__ = ["ROUTERS", "told"]
