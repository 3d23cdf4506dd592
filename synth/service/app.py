"""The ASGI app of a server: routes of the API and the page, and the middleware around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware

from synth.ask.identity.edition import edition
from synth.service.http import health, jobs, problems, systems, verbs
from synth.service.http.authentication import refuse_key_in_address
from synth.service.http.commands import Curl
from synth.service.http.cross_site import CrossSiteGuard
from synth.service.http.documents import describe
from synth.service.http.middleware import RequestMiddleware
from synth.service.http.state import AppState
from synth.service.page import ROUTERS, refusal_response

Life = Callable[[FastAPI], AbstractAsyncContextManager[None]]
_TAGS = [
    {"name": "verbs", "description": "Questions: the verbs of the command line."},
    {"name": "jobs", "description": "Questions that take longer."},
    {"name": "answers", "description": "Complete answers under their permalinks."},
    {"name": "systems", "description": "Descriptions of machines that a team keeps here."},
    {"name": "baselines", "description": "Earlier logs that a team keeps by machine and test."},
    {"name": "operations", "description": "Health and metrics, for operators."},
]


@asynccontextmanager
async def no_life(app: FastAPI) -> AsyncIterator[None]:
    """A lifespan that does nothing."""
    yield


def build(state: AppState, life: Life = no_life) -> FastAPI:
    """Build the app of one server. Without keys, it answers only to host names of this machine."""
    own_names = None if state.keys else frozenset({state.settings.host.lower()})
    guard = CrossSiteGuard(own_names)
    app = FastAPI(
        title="collsynth",
        version=edition(),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=life,
        redirect_slashes=False,
        openapi_tags=_TAGS,
        middleware=[
            Middleware(
                RequestMiddleware,
                metrics=state.metrics,
                refused=lambda request: refuse_key_in_address(request) or guard(request),
                respond=refusal_response,
            ),
        ],
    )
    app.state.shared = state
    routers = (
        verbs.router(),
        jobs.router,
        jobs.answers,
        systems.router,
        systems.baselines,
        health.router,
        *ROUTERS,
    )
    routes = [route for router in routers for route in router.routes]
    problems.install(app, routes, refusal_response)
    for router in routers:
        app.include_router(router)
    describe(app, state.settings.limits, Curl('"$COLLSYNTH_URL"', keys=state.keys is not None))
    return app
