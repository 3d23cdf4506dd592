"""The web page: forms, jobs and results for people.

It consists of templates, SVG drawings from ``synth.show.report``, and JSON for a vendored library.
Like the API, it sends questions to the broker. No information is conveyed by colour alone. Ink is
black or white, whichever has more contrast with its fill: at least 4.5 to 1, as WCAG requires.

>>> from synth.show.report.colours import contrast, paints
>>> [(paint.fill, paint.ink) for paint in paints(2)]
[('#0072b2', '#ffffff'), ('#e69f00', '#000000')]
>>> all(contrast(paint.fill, paint.ink) > 4.5 for paint in paints(32))
True
"""

from synth.service.page import (
    answer_routes,
    comparing,
    forms,
    job_routes,
    part_routes,
    site_routes,
)
from synth.service.page.responses import refusal_response as refusal_response

ROUTERS = (
    forms.router,
    comparing.router,
    answer_routes.router,
    job_routes.router,
    part_routes.router,
    site_routes.router,
)
"""All routes of the page, for the app of a server."""
