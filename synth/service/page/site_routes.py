"""Further routes of the page: log in and out, help, documentation, static files."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from synth.service.auth.keys import KEY_SESSION_SECONDS, PERSON_SESSION_SECONDS
from synth.service.errors import RefusalError, not_found
from synth.service.http.authentication import COOKIE, address_of, peer_of
from synth.service.http.cross_site import host_of
from synth.service.http.state import state_of
from synth.service.page.forms.fields import first_value
from synth.service.page.forms.routes import read_sent_form
from synth.service.page.help import TERMS
from synth.service.page.help.documents import document, files
from synth.service.page.rendering import REDOC_POLICY, media_type, static_files
from synth.service.page.responses import KEY_REFUSED, PageCaller, PageRoute, page, see_other
from synth.service.settings import is_loopback

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_MOST_KEY_BYTES = 4096


@router.get("/login")
async def show_login(request: Request, next: str = "/") -> Response:
    """Show the form for a key; a person signed in at the proxy gets a session at once."""
    keys, proxy, after = state_of(request).keys, state_of(request).proxy, _own_address(next)
    if keys is None:
        return see_other("/")
    person = None if proxy is None else proxy.person(peer_of(request), request.headers)
    if person is None:
        return page(request, "login.html", next=after, said="", keys=False)
    token = await keys.sign_in_person(person)
    return await _begin_session(request, after, token, PERSON_SESSION_SECONDS)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Begin a session with a valid key; show the problem of any other."""
    keys = state_of(request).keys
    if keys is None:
        return see_other("/")
    fields = await read_sent_form(request, _MOST_KEY_BYTES)
    secret, after = first_value(fields, "key"), _own_address(first_value(fields, "next") or "/")
    try:
        token = await keys.sign_in(secret, address_of(request))
    except RefusalError as refusal:
        if refusal.status not in KEY_REFUSED:
            raise
        return page(request, "login.html", status=403, next=after, said=refusal.problem, keys=False)
    return await _begin_session(request, after, token, KEY_SESSION_SECONDS)


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session."""
    keys, proxy = state_of(request).keys, state_of(request).proxy
    await _end_session(request)
    people = proxy is not None and proxy.secret is not None
    response = see_other("/" if keys is None else "/signed-out" if people else "/login")
    response.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return response


@router.get("/signed-out")
async def show_signed_out(request: Request) -> Response:
    """Show a page outside the login, where the proxy would sign the person in again at once."""
    return page(request, "signed_out.html", keys=False)


async def _begin_session(request: Request, after: str, token: str, seconds: int) -> Response:
    """Redirect to a page with the session's cookie, and end the previous session."""
    await _end_session(request)
    response = see_other(after)
    https = "https" in (request.scope["scheme"], request.headers.get("x-forwarded-proto"))
    secure = https or not is_loopback(host_of(request.headers))
    response.set_cookie(
        COOKIE, token, max_age=seconds, httponly=True, samesite="lax", secure=secure
    )
    return response


async def _end_session(request: Request) -> None:
    keys, token = state_of(request).keys, request.cookies.get(COOKIE)
    if keys is not None and token is not None:
        await keys.sign_out(token)


@router.get("/api")
async def show_api(request: Request, caller: PageCaller) -> Response:
    """Show /openapi.json with Redoc."""
    response = page(request, "api.html")
    response.headers["Content-Security-Policy"] = REDOC_POLICY
    return response


@router.get("/help")
async def show_help(request: Request, caller: PageCaller) -> Response:
    """Show the meaning of the page's terms and the purpose of each page."""
    return page(request, "help.html", here="help", terms=TERMS)


@router.get("/docs/{path:path}")
async def show_documentation(path: str, request: Request, caller: PageCaller) -> Response:
    """Show a page of the documentation, or a file that it links to."""
    file = files().get(path)
    if file is None:
        raise not_found("page")
    if path.endswith(".md"):
        shown = await asyncio.to_thread(document, path)
        return page(request, "document.html", here="help", document=shown)
    return Response(await asyncio.to_thread(file.read_bytes), media_type=media_type(path))


@router.get("/static/{path:path}")
async def static_response(path: str, request: Request) -> Response:
    """Return a static file, the same for everybody, so without authentication."""
    file = static_files().get(path)
    if file is None:
        raise not_found("file")
    cache_control = (
        "public, max-age=31536000, immutable" if "v" in request.query_params else "no-cache"
    )
    etag = f'"{file.etag}"'
    headers = {"ETag": etag, "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, 200, headers, file.media_type)


def _own_address(address: str) -> str:
    """Return the address if it is a path of this server, else "/", to prevent open redirects."""
    own = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if own and address.isprintable() and "\\" not in address else "/"
