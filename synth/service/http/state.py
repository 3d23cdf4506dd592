"""The state of an app, which all routes of one server share."""

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
    """The parts of one server; ``keys`` and ``proxy`` are None if not used."""

    settings: Settings
    broker: Broker
    dispatcher: Dispatcher
    metrics: Metrics
    presence: Presence
    keys: Authenticator | None
    proxy: Proxy | None = None


def state_of(request: HTTPConnection) -> AppState:
    """Return the state of a request's app."""
    state = request.app.state.shared
    assert isinstance(state, AppState)
    return state


def visit_of(request: HTTPConnection) -> Visit | None:
    """Return the request's visit; None before it is authenticated."""
    visit = getattr(request.state, "visit", None)
    assert visit is None or isinstance(visit, Visit)
    return visit
