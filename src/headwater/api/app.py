"""The HTTP API: routes that call operations, one shape for all errors, and a token for writes."""

import ipaddress
import secrets
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import structlog
from fastapi import Depends, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint

from headwater import __version__
from headwater.api.changes import add_changes, add_webhooks
from headwater.api.common import PAGES, ErrorAnswer, ErrorBody, Health
from headwater.api.days import add_days, add_runs
from headwater.api.documents import add_documents
from headwater.api.frontier import add_frontier
from headwater.api.handoffs import add_handoffs
from headwater.api.sources import add_sources
from headwater.api.watches import add_watches
from headwater.app.operations import DATABASE_AWAY, Operations
from headwater.app.token import get_api_token
from headwater.core.errors import HeadwaterError, RunUnderWay
from headwater.core.reasons import BODY_REASONS, Reason

log = structlog.get_logger()
WRITE_HELP = "Send the API token as `Authorization: Bearer TOKEN`. It is in the file api-token in the data folder."
MAX_BODY_BYTES = 8 * 1024 * 1024  # the largest batch of URLs fits

_OPERATION = "operation"
_ERRORS = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}}
_RETRY_AFTER_SECONDS = "5"
# Pydantic names Python's classes and arguments in these errors.
_BODY_ERRORS = {
    "dataclass_type": "Input should be an object",
    "unexpected_keyword_argument": "The request has no such field",
}
_BAD_REQUESTS = {Reason.UNKNOWN_KIND, Reason.UNKNOWN_SCHEMA}
_NOT_FOUND = {reason for reason in Reason if reason.startswith("unknown_")} - _BAD_REQUESTS
_STATUS = {
    **dict.fromkeys(_NOT_FOUND, 404),
    **dict.fromkeys((*BODY_REASONS, Reason.STORAGE), 500),  # a stored file is at fault, not the request
    Reason.TOKEN_REQUIRED: 401,
    **dict.fromkeys((Reason.HOST_IN_USE, Reason.HOST_BUSY, Reason.RUN_UNDER_WAY), 409),
    **dict.fromkeys((Reason.NOT_FAILED, Reason.SOURCE_EXISTS, Reason.WEBHOOK_EXISTS), 409),
    **dict.fromkeys((Reason.HANDOFFS_MISSING, Reason.DATABASE_UNREACHABLE, Reason.SHUTDOWN, Reason.BUSY), 503),
}


def make_app(operations: Operations) -> FastAPI:
    """Make the app that serves these operations."""
    app = FastAPI(
        title="Headwater",
        version=__version__,
        description="A clean, dated, deduplicated, searchable corpus of public sources.",
        responses={"4XX": _ERRORS, "5XX": _ERRORS},
        dependencies=[Depends(_refuse_unknown_parameters)],
    )
    if _is_loopback(operations.settings.listen_host):
        _refuse_foreign_hosts(app)
    _add_error_handlers(app)
    _require_token(app, operations)
    _add_health(app, operations)
    readers = (add_documents, add_days, add_changes)
    writers = (add_sources, add_runs, add_frontier, add_watches, add_handoffs, add_webhooks)
    for add_routes in (*readers, *writers):
        add_routes(app, operations)
    return app


def find_status(reason: Reason) -> int:
    """Return the HTTP status of an error with a reason."""
    return _STATUS.get(reason, 422)


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


def _refuse_foreign_hosts(app: FastAPI) -> None:
    """Refuse requests to names that point at loopback. A web page could otherwise read the corpus by DNS rebinding."""

    @app.middleware("http")
    async def check_host(request: Request, call_next: RequestResponseEndpoint) -> Response:
        if not _is_loopback(request.url.hostname or ""):
            return _error(421, Reason.BAD_REQUEST, "This API answers only to localhost and loopback addresses.")
        return await call_next(request)


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(HeadwaterError)
    async def refused(_: Request, error: HeadwaterError) -> JSONResponse:
        run_id = error.run_id if isinstance(error, RunUnderWay) else None
        answer = _error(find_status(error.reason), error.reason, str(error), run_id)
        if error.reason is Reason.BUSY:
            answer.headers["Retry-After"] = _RETRY_AFTER_SECONDS
        return answer

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        inner = () if first["type"] == "json_invalid" else first["loc"][1:]  # that is a position, not a field
        field = ".".join(str(part) for part in inner) or str(first["loc"][0])
        message = _BODY_ERRORS.get(first["type"], first["msg"])
        return _error(422, Reason.BAD_REQUEST, f"{field}: {message}.")

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> JSONResponse:
        return _error(error.status_code, Reason.UNKNOWN_PATH, f"{error.detail}.")

    # The server logs the error itself. Its text is not for the client.
    @app.exception_handler(Exception)
    async def broken(_: Request, __: Exception) -> JSONResponse:
        return _error(500, Reason.INTERNAL, Reason.INTERNAL.sentence)

    async def database_away(request: Request, error: Exception) -> JSONResponse:
        log.warning("api.database_away", path=request.url.path, error=f"{type(error).__name__}: {error}")
        return _error(503, Reason.DATABASE_UNREACHABLE, Reason.DATABASE_UNREACHABLE.sentence)

    for away in DATABASE_AWAY:
        app.add_exception_handler(away, database_away)


def _add_health(app: FastAPI, operations: Operations) -> None:
    @app.get("/health", tags=[_OPERATION])
    async def health() -> Health:
        """Report that the process runs."""
        return Health(status="ok", version=__version__)

    # One route defines the model of all errors. FastAPI would otherwise build it for each route: a third of a start.
    errors: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorAnswer}, "5XX": {"model": ErrorAnswer}}

    @app.get("/ready", tags=[_OPERATION], responses=errors)
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


def _require_token(app: FastAPI, operations: Operations) -> None:
    token = get_api_token(operations.settings).encode()

    @app.middleware("http")
    async def guard_writes(request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Check token and size before the body is read."""
        if request.method in ("GET", "HEAD", "OPTIONS"):
            return await call_next(request)
        is_form = request.scope["path"].startswith(PAGES)  # the pages check their forms by session
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        is_known = scheme.lower() == "bearer" and secrets.compare_digest(value.strip().encode(), token)
        if not (is_form or is_known):
            return _error(401, Reason.TOKEN_REQUIRED, WRITE_HELP)
        length = request.headers.get("content-length", "" if "transfer-encoding" in request.headers else "0")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return _error(413, Reason.BAD_REQUEST, f"Send a body of at most {MAX_BODY_BYTES} bytes, with its length.")
        return await call_next(request)


def _error(status: int, reason: Reason, message: str, run_id: int | None = None) -> JSONResponse:
    return JSONResponse(asdict(ErrorAnswer(ErrorBody(reason, message, run_id))), status_code=status)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
