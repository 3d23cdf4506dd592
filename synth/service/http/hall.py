"""What all routes of one server share, found by the request."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import HTTPConnection

from synth.service.auth.keys import Keys
from synth.service.jobs.broker import Desk
from synth.service.jobs.dispatcher import Dispatcher
from synth.service.metrics import Metrics
from synth.service.settings import Settings


@dataclass(frozen=True)
class Hall:
    """One server from within; ``keys`` is None where none are needed."""

    settings: Settings
    desk: Desk
    dispatcher: Dispatcher
    metrics: Metrics
    keys: Keys | None


def hall(request: HTTPConnection) -> Hall:
    """The hall of the server that a request came to."""
    found = request.app.state.hall
    assert isinstance(found, Hall)
    return found
