"""The route of the API reference."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import HTMLResponse, Response

from synth.service.http.state import AppState, state_of
from synth.service.page.reference.commands import Curl
from synth.service.page.reference.operations import reference
from synth.service.page.rendering import render
from synth.service.page.responses import PageCaller, PageRoute, own_address

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/api")
async def show_api(request: Request, caller: PageCaller) -> Response:
    """Show the API reference."""
    state, address = state_of(request), own_address(request)
    return HTMLResponse(
        await state.broker.run_in_turn(caller.team, _page, request.app, state, address)
    )


def _page(app: FastAPI, state: AppState, address: str) -> str:
    keys, limits = state.keys is not None, state.settings.limits
    reference_page = reference(app.openapi(), limits, Curl(address, keys))
    shown = {"here": "api", "keys": keys, "address": address, "limits": limits}
    return render("api.html", reference=reference_page, wait=state.settings.wait_seconds, **shown)
