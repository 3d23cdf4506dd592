"""The API reference: each route with its parameters, replies, refusals and a command to paste.

It is generated from ``/openapi.json``, so that the two cannot differ; it needs no script.

>>> from synth.service.page.reference import Curl
>>> print(Curl("http://here:8000", keys=False).command("count", "post", "/v1/count"))
curl -s http://here:8000/v1/count -H 'Content-Type: application/json' \\
  -d '{"digits": 2}'
"""

from synth.service.page.reference.commands import Curl as Curl
from synth.service.page.reference.operations import Reference as Reference
from synth.service.page.reference.operations import reference as reference
from synth.service.page.reference.routes import router as router

__all__ = ["Curl", "Reference", "reference", "router"]
