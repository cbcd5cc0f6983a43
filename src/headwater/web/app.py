"""The app with API and pages. The pages are below /ui, and their headers forbid scripts and loads from elsewhere."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.datastructures import FormData, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.access.operations import get_first_token
from headwater.api import make_app as make_api
from headwater.api.access import MAX_BODY_BYTES, READING_METHODS, get_needed_scope
from headwater.api.common import OPEN, Needs
from headwater.api.errors import describe_invalid, find_status
from headwater.app.operations import DATABASE_AWAY, Operations
from headwater.core.errors import BadRequest, HeadwaterError
from headwater.core.reasons import Reason
from headwater.web import (
    add_source,
    alarms,
    documents,
    frontier,
    handoffs,
    hosts,
    live,
    runs,
    saved_searches,
    search,
    sign_in,
    sources,
    stories,
    system,
    today,
    urls,
    webhooks,
    why,
)
from headwater.web.sessions import ROOT, Session, Sessions, SignInLinks, has_csrf_token
from headwater.web.view import Forbidden, View, find_session

log = structlog.get_logger()
FIRST_PAGE = f"{ROOT}/today"
_READING = (sign_in, live, today, documents, search, stories, saved_searches, why)
_OPERATING = (alarms, sources, add_source, frontier, hosts, runs, handoffs, webhooks, system, urls)
_STATIC_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Without a referrer, browsers would send forms with the origin `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def make_app(operations: Operations, links: SignInLinks | None = None) -> FastAPI:
    """Make the app that serves these operations as API and as pages. Operators sign in by `links`."""
    app = make_api(operations)
    first_token = get_first_token(operations.settings)
    known = Sessions(operations.tokens, first_token, operations.now, links or SignInLinks())
    view = View(operations, known)
    app.mount(ROOT, _SecurityHeaders(_make_pages(view)))

    @app.get("/", include_in_schema=False, dependencies=OPEN)
    async def lead_to_first_page() -> RedirectResponse:
        return RedirectResponse(FIRST_PAGE)

    answer_as_api = app.exception_handlers[HTTPException]

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        """Show a browser a page, and other programs the error of the API."""
        if "text/html" in request.headers.get("accept", ""):
            response = await _error_page(view, request, error.status_code, f"{error.detail}.")
            response.headers.update(_HEADERS)
            return response
        answer: Response = await answer_as_api(request, error)  # type: ignore[misc]
        return answer

    return app


def _make_pages(view: View) -> FastAPI:
    pages = FastAPI(openapi_url=None)
    pages.router.route_class = _make_route_class(_Guard(view.sessions))
    _add_error_handlers(pages, view)
    _add_static(pages, view)
    for module in (*_READING, *_OPERATING):
        module.add_pages(pages, view)

    @pages.get("/")
    async def lead_to_first_page() -> RedirectResponse:
        return RedirectResponse(FIRST_PAGE)

    return pages


class _Guard:
    """Finds the session of each request, and refuses requests that it does not permit.

    The guard of the API is in front of this one. It has checked the host name, the origin and the size of the body.
    """

    def __init__(self, known: Sessions) -> None:
        self._sessions = known

    async def __call__(self, request: Request) -> None:
        session = await _read_session(self._sessions, request)
        needed = get_needed_scope(request.scope["route"], request.method)
        if not session.permits(needed):
            raise Forbidden
        is_form = needed is not None and request.method not in READING_METHODS
        if is_form and not has_csrf_token(session, await _read_form(request)):
            raise HeadwaterError(
                "The form is not of this session, so it changed nothing. Load its page again.",
                reason=Reason.BAD_REQUEST,
            )


def _make_route_class(guard: _Guard) -> type[APIRoute]:
    """Make the class of routes that ask the guard before they read the body. A dependency is called after that."""

    class GuardedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def check_and_handle(request: Request) -> Response:
                await guard(request)
                return await handle(request)

            return check_and_handle

    return GuardedRoute


async def _read_form(request: Request) -> FormData:
    """Return the form, which the request keeps. One field may fill the body: the text of a list of sources."""
    try:
        return await request.form(max_part_size=MAX_BODY_BYTES)
    except ClientDisconnect:
        raise BadRequest("The connection ended within the form. Send it again.") from None


async def _read_session(known: Sessions, request: Request) -> Session:
    """Read the session once. While the database is away, an error page is for a user without sign-in."""
    request.state.session = known.get_anonymous(request)
    request.state.session = await known.read(request)
    return find_session(request)


def _add_static(pages: FastAPI, view: View) -> None:
    async def static(request: Request) -> Response:
        """Return the style sheet, the script or the icon. Its address changes with its bytes."""
        name = request.path_params["name"]
        body = view.static.get(name)
        if body is None:
            raise HTTPException(404, "There is no such file")
        kind = _STATIC_TYPES[name.rpartition(".")[2]]
        return Response(body, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": _FOREVER})

    pages.add_route("/static/{name}", static)  # a route without the guard: its files are for all


def _add_error_handlers(pages: FastAPI, view: View) -> None:
    @pages.exception_handler(Forbidden)
    async def forbidden(request: Request, _: Forbidden) -> Response:
        session = find_session(request)
        if not session.is_signed_in and request.headers.get("sec-fetch-site") == "cross-site":
            # A browser sends the cookie only from our own pages. This one loads the same address again.
            return view.page(request, "again.html")
        if not session.is_signed_in and request.method in READING_METHODS:
            return RedirectResponse(sign_in.address(request), 303)
        return await _error_page(view, request, 403, "Sign in with a token that permits this.")

    @pages.exception_handler(HeadwaterError)
    async def refused(request: Request, error: HeadwaterError) -> Response:
        return await _error_page(view, request, find_status(error.reason), str(error), error.reason)

    @pages.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return await _error_page(view, request, 422, describe_invalid(error), Reason.BAD_REQUEST)

    @pages.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        return await _error_page(view, request, error.status_code, f"{error.detail}.")

    @pages.exception_handler(Exception)
    async def broken(request: Request, _: Exception) -> Response:
        return await _error_page(view, request, 500, Reason.INTERNAL.sentence, Reason.INTERNAL)

    async def database_away(request: Request, error: Exception) -> Response:
        log.warning("web.database_away", path=request.url.path, error=f"{type(error).__name__}: {error}")
        return await _error_page(view, request, 503, Reason.DATABASE_UNREACHABLE.sentence, Reason.DATABASE_UNREACHABLE)

    for away in DATABASE_AWAY:
        pages.add_exception_handler(away, database_away)


async def _error_page(
    view: View, request: Request, status: int, message: str, reason: Reason | None = None
) -> Response:
    if not hasattr(request.state, "session"):  # no route was found, so the guard did not run
        with contextlib.suppress(*DATABASE_AWAY):
            await _read_session(view.sessions, request)
    return view.page(request, "error.html", status, code=status, message=message, reason=reason)


class _SecurityHeaders:
    """Adds the headers that keep text from outside from acting. A page that sets one of them keeps its own."""

    needs = Needs(None)  # the pages check sessions themselves

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "private, no-cache")
            await send(message)

        await self._app(scope, receive, send_with_headers)
