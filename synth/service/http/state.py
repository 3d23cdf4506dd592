"""The state of an app: what all routes of one server share, found by the request."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import HTTPConnection

from synth.service.auth.keys import Authenticator
from synth.service.auth.presence import Presence, Visit
from synth.service.auth.proxy import Proxy
from synth.service.jobs.broker import Broker
from synth.service.jobs.dispatcher import Dispatcher
from synth.service.metrics import Metrics
from synth.service.settings import Settings


@dataclass(frozen=True)
class AppState:
    """The parts of one server; ``keys`` and ``proxy`` are None where none are needed."""

    settings: Settings
    broker: Broker
    dispatcher: Dispatcher
    metrics: Metrics
    presence: Presence
    keys: Authenticator | None
    proxy: Proxy | None = None


def state_of(request: HTTPConnection) -> AppState:
    """The state of the app that a request came to."""
    found = request.app.state.shared
    assert isinstance(found, AppState)
    return found


def visit_of(request: HTTPConnection) -> Visit | None:
    """What the request counts as of its team; None as long as its caller is not known."""
    found = getattr(request.state, "visit", None)
    assert found is None or isinstance(found, Visit)
    return found
