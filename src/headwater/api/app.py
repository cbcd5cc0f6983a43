"""The HTTP API: routes that call operations behind one guard."""

import re
from collections.abc import Iterator
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import ASGIApp
from starlette.types import Scope as Connection

from headwater import __version__
from headwater.access.operations import Scope, get_first_token
from headwater.api.access import AccessGuard, get_needed_scope, is_reading_free, make_malformed_answer
from headwater.api.changes import add_changes, add_webhooks
from headwater.api.common import OPEN, ErrorAnswer, Health
from headwater.api.days import add_days, add_runs
from headwater.api.docs import add_docs
from headwater.api.documents import add_documents
from headwater.api.errors import add_error_handlers
from headwater.api.feeds import add_alarms, add_channels, add_feeds, add_saved_searches
from headwater.api.frontier import add_frontier
from headwater.api.handoffs import add_handoffs
from headwater.api.sources import add_sources
from headwater.api.stories import add_stories
from headwater.api.system import add_system
from headwater.api.tokens import add_tokens
from headwater.api.watches import add_watches
from headwater.app.operations import Operations
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason

_NUMBER = re.compile(r"-?[0-9]+")
_OPERATION = "operation"
_ERRORS = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}}
_SCHEME = {"token": {"type": "http", "scheme": "bearer", "description": "An API token."}}


class _Route(APIRoute):
    """A route of the API. An id in its path is a number: `/jobs/retry` is no job but another path."""

    def matches(self, scope: Connection) -> tuple[Match, Connection]:
        """Return whether the route answers a request."""
        match, found = super().matches(scope)
        for parameter in self.dependant.path_params if match is not Match.NONE else ():
            is_number = parameter.field_info.annotation is int
            if is_number and not _NUMBER.fullmatch(str(found["path_params"][parameter.alias])):
                return Match.NONE, {}
        return match, found


class GuardedApp(FastAPI):
    """An app whose guard is in front of everything, also of the answers to errors."""

    def __init__(self, operations: Operations, **options: Any) -> None:
        super().__init__(**options)
        self.router.route_class = _Route
        self._settings = operations.settings
        self._tokens = operations.tokens
        self.malformed_answer = make_malformed_answer()

    def build_middleware_stack(self) -> ASGIApp:
        """Put the guard in front of the app."""
        return AccessGuard(super().build_middleware_stack(), self.routes, self._settings, self._tokens)

    def openapi(self) -> dict[str, Any]:
        """Describe the API, with the scope that each operation needs."""
        described = super().openapi()
        if "securitySchemes" not in described["components"]:
            described["components"]["securitySchemes"] = _SCHEME
            for route in self.routes:
                for method, operation in described["paths"].get(getattr(route, "path", ""), {}).items():
                    if method.upper() in (getattr(route, "methods", None) or ()):
                        self._describe_access(operation, get_needed_scope(route, method.upper()))
        return described

    def _describe_access(self, operation: dict[str, Any], needed: Scope | None) -> None:
        is_free = needed is None or (needed is Scope.READ and is_reading_free(self._settings))
        operation["security"] = [] if is_free else [{"token": []}]
        operation["x-scope"] = needed


def make_app(operations: Operations) -> FastAPI:
    """Make the app that serves these operations."""
    app = GuardedApp(
        operations,
        title="Headwater",
        version=__version__,
        description="A clean, dated, deduplicated, searchable corpus of public sources.",
        responses={"4XX": _ERRORS, "5XX": _ERRORS},
        dependencies=[Depends(_refuse_unknown_parameters)],
        openapi_url=None,  # api/docs has these routes
    )
    operations.tokens.accept_first(get_first_token(operations.settings))
    add_error_handlers(app)
    add_docs(app)
    _add_health(app, operations)
    readers = (add_documents, add_days, add_feeds, add_changes, add_stories)
    writers = (
        add_sources,
        add_runs,
        add_frontier,
        add_watches,
        add_handoffs,
        add_saved_searches,
        add_webhooks,
        add_channels,
        add_alarms,
        add_system,
        add_tokens,
    )
    for add_routes in (*readers, *writers):
        add_routes(app, operations)
    return app


def _refuse_unknown_parameters(request: Request) -> None:
    """Refuse a query parameter that the route does not have. An ignored filter would give a wrong answer."""
    route = request.scope["route"]
    if _OPERATION in route.tags:
        return  # monitors may add parameters
    known = sorted(_list_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            instead = f"It has {', '.join(known)}." if known else "It has none."
            raise HeadwaterError(f"{name}: the route has no such parameter. {instead}", reason=Reason.BAD_REQUEST)


def _list_parameters(dependant: Dependant) -> Iterator[str]:
    yield from (parameter.alias for parameter in dependant.query_params)
    for other in dependant.dependencies:
        yield from _list_parameters(other)


def _add_health(app: FastAPI, operations: Operations) -> None:
    @app.get("/health", tags=[_OPERATION], dependencies=OPEN)
    async def health() -> Health:
        """Report that the process runs."""
        return Health(status="ok", version=__version__)

    # One route defines the model of all errors. FastAPI would otherwise build it for each route: a third of a start.
    errors: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorAnswer}, "5XX": {"model": ErrorAnswer}}

    @app.get("/ready", tags=[_OPERATION], responses=errors, dependencies=OPEN)
    async def ready() -> Health:
        """Report that the program can answer: the database is reachable and the program is not stopping."""
        if not operations.is_ready():
            raise HeadwaterError("The program is stopping.", reason=Reason.SHUTDOWN)
        try:
            await operations.check_database()
        except Exception as error:
            raise HeadwaterError(Reason.DATABASE_UNREACHABLE.sentence, reason=Reason.DATABASE_UNREACHABLE) from error
        return Health(status="ready", version=__version__)

    @app.get("/metrics", tags=[_OPERATION], response_class=Response)
    async def metrics() -> Response:
        """Return counters and gauges for Prometheus."""
        return Response(await operations.measure(), media_type="text/plain; version=0.0.4")
