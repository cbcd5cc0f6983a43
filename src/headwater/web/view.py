"""The view: renders templates for a request, and answers forms."""

import base64
import binascii
import contextlib
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import resources
from urllib.parse import quote
from zoneinfo import ZoneInfo

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from headwater import __version__
from headwater.app.operations import Operations
from headwater.core.text import format_duration
from headwater.web import charts, texts
from headwater.web.sessions import ROOT, Session, Sessions, cookie_name, set_cookie
from headwater.web.timeline import draw_timeline

_NOTICE_LASTS = timedelta(seconds=30)
_MAX_NOTICE = 500
_FILTERS = ("clean", "plain", "lead", "outside", "marked", "commands", "moment", "size", "count")  # of web/texts.py


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """A page in the navigation. `key` is the name by which its templates mark it as the present one."""

    key: str
    label: str
    path: str
    needs_write: bool = False


# A page is here from the commit on that adds it.
NAVIGATION = (
    NavigationEntry("today", "Today", "/today"),
    NavigationEntry("search", "Search", "/search"),
    NavigationEntry("stories", "Stories", "/stories"),
    NavigationEntry("saved", "Saved", "/saved-searches"),
    NavigationEntry("why", "Why", "/why"),
    NavigationEntry("sources", "Sources", "/sources"),
    NavigationEntry("frontier", "Frontier", "/frontier"),
    NavigationEntry("hosts", "Hosts", "/hosts"),
    NavigationEntry("runs", "Runs", "/runs"),
    NavigationEntry("handoffs", "Hand-offs", "/handoffs"),
    NavigationEntry("webhooks", "Webhooks", "/webhooks"),
    NavigationEntry("alarms", "Alarms", "/alarms"),
    NavigationEntry("system", "System", "/system"),
    NavigationEntry("submit", "Submit URLs", "/submit", needs_write=True),
)


class Forbidden(Exception):
    """The session may not do this."""


class View:
    """Renders pages. Each page module gets one."""

    def __init__(self, operations: Operations, sessions: Sessions) -> None:
        self.operations = operations
        self.sessions = sessions
        self.static = {file.name: file.read_bytes() for file in _list_static()}
        self._zone = ZoneInfo(operations.settings.timezone)
        self._environment = _make_environment(self.static)

    def now(self) -> datetime:
        """Return the time of the database."""
        return self.operations.now()

    def page(self, request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
        """Render a template. It may use the filters of `web/texts.py` and the macros of `macros.html`."""
        session = find_session(request)
        notice = _read_notice(request)
        body = self._environment.get_template(template).render(
            values,
            session=session,
            navigation=[entry for entry in NAVIGATION if session.can_write or not entry.needs_write],
            now=self.now().astimezone(self._zone),
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            notice=notice,
        )
        response = HTMLResponse(body, status)
        if notice:
            response.delete_cookie(cookie_name(request, "notice"), path="/", httponly=True, samesite="strict")
        return response

    def redirect(self, request: Request, path: str, notice: str = "") -> RedirectResponse:
        """Answer a form: lead to a page below the root, which shows the notice once."""
        response = RedirectResponse(ROOT + path, 303)
        if notice:
            coded = base64.urlsafe_b64encode(notice[:_MAX_NOTICE].encode()).decode()
            set_cookie(request, response, cookie_name(request, "notice"), coded, _NOTICE_LASTS)
        return response


def find_session(request: Request) -> Session:
    """Return the session that the guard of the pages found."""
    session: Session = request.state.session
    return session


def _read_notice(request: Request) -> str:
    with contextlib.suppress(binascii.Error, ValueError):
        return base64.urlsafe_b64decode(request.cookies.get(cookie_name(request, "notice"), "")).decode()
    return ""


def _list_static() -> list[resources.abc.Traversable]:
    return [file for file in resources.files("headwater.web").joinpath("static").iterdir() if file.is_file()]


def _make_environment(static: dict[str, bytes]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headwater.web"),
        autoescape=True,
        # Each text is without control characters, also one that a template forgot to pass through a filter.
        finalize=lambda value: texts.clean(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in _FILTERS:
        environment.filters[name] = getattr(texts, name)
    environment.filters["duration"] = format_duration
    environment.filters["path"] = lambda text: quote(str(text), safe="")
    digests = {name: hashlib.sha256(body).hexdigest()[:12] for name, body in static.items()}
    environment.globals |= {
        "root": ROOT,
        "version": __version__,
        "charts": charts,
        "timeline": draw_timeline,
        "query": texts.query_string,
        "static": lambda name: f"{ROOT}/static/{name}?v={digests[name]}",
    }
    return environment
