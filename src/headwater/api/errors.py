"""Errors as answers: one shape for all, and the status of each reason."""

from dataclasses import asdict

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headwater.api.common import ErrorAnswer, ErrorBody
from headwater.app.operations import DATABASE_AWAY
from headwater.core.errors import HeadwaterError, RunUnderWay
from headwater.core.reasons import BODY_REASONS, Reason

log = structlog.get_logger()
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
    Reason.SCOPE_REQUIRED: 403,
    Reason.CROSS_SITE: 403,
    Reason.HOST_REFUSED: 421,
    Reason.TOKEN_FAILURES: 429,
    **dict.fromkeys((Reason.HOST_IN_USE, Reason.HOST_BUSY, Reason.RUN_UNDER_WAY), 409),
    **dict.fromkeys((reason for reason in Reason if reason.endswith("_exists")), 409),
    Reason.NOT_FAILED: 409,
    **dict.fromkeys((Reason.HANDOFFS_MISSING, Reason.DATABASE_UNREACHABLE, Reason.SHUTDOWN, Reason.BUSY), 503),
}
_HEADERS = {
    Reason.BUSY: {"Retry-After": "5"},
    Reason.TOKEN_FAILURES: {"Retry-After": "60"},
    Reason.TOKEN_REQUIRED: {"WWW-Authenticate": 'Bearer realm="headwater"'},
    Reason.SCOPE_REQUIRED: {"WWW-Authenticate": 'Bearer realm="headwater", error="insufficient_scope"'},
}


def find_status(reason: Reason) -> int:
    """Return the HTTP status of an error with a reason."""
    return _STATUS.get(reason, 422)


def make_answer(status: int, reason: Reason, message: str, run_id: int | None = None) -> JSONResponse:
    """Make the answer of an error. The message may repeat text of the request that UTF-8 cannot hold."""
    message = message.encode(errors="replace").decode()
    body = asdict(ErrorAnswer(ErrorBody(reason, message, run_id)))
    return JSONResponse(body, status_code=status, headers=_HEADERS.get(reason))


def answer_error(error: HeadwaterError) -> JSONResponse:
    """Make the answer of an error that an operation has raised."""
    run_id = error.run_id if isinstance(error, RunUnderWay) else None
    return make_answer(find_status(error.reason), error.reason, str(error), run_id)


def answer_database_away(path: str, error: Exception) -> JSONResponse:
    """Log that the database is away, and make the answer. The rest of a path may be a secret."""
    log.warning("api.database_away", path="/".join(path.split("/")[:3]), error=f"{type(error).__name__}: {error}")
    return make_answer(503, Reason.DATABASE_UNREACHABLE, Reason.DATABASE_UNREACHABLE.sentence)


def add_error_handlers(app: FastAPI) -> None:
    """Turn each error of a route into its answer."""

    @app.exception_handler(HeadwaterError)
    async def refused(_: Request, error: HeadwaterError) -> JSONResponse:
        return answer_error(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return make_answer(422, Reason.BAD_REQUEST, describe_invalid(error))

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code != 405:
            return make_answer(error.status_code, Reason.UNKNOWN_PATH, f"{error.detail}.")
        methods = _list_methods(app, request)
        answer = make_answer(405, Reason.METHOD_REFUSED, Reason.METHOD_REFUSED.sentence)
        answer.headers["Allow"] = ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))
        return answer

    # The server logs the error itself. Its text is not for the client.
    @app.exception_handler(Exception)
    async def broken(_: Request, __: Exception) -> JSONResponse:
        return make_answer(500, Reason.INTERNAL, Reason.INTERNAL.sentence)

    async def database_away(request: Request, error: Exception) -> JSONResponse:
        return answer_database_away(request.url.path, error)

    for away in DATABASE_AWAY:
        app.add_exception_handler(away, database_away)


def _list_methods(app: FastAPI, request: Request) -> set[str]:
    """Return the methods of a path. Its routes for two methods are two routes."""
    paths = [getattr(route, "path", "") for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
    path = min(paths, key=lambda path: "{" in path)  # `/frontier/hosts/release` is not the host `release`
    return {
        name for route in app.routes if getattr(route, "path", "") == path for name in getattr(route, "methods", ())
    }


def describe_invalid(error: RequestValidationError) -> str:
    """Return a sentence with the first wrong part of a request."""
    first = error.errors()[0]
    inner = () if first["type"] == "json_invalid" else first["loc"][1:]  # that is a position, not a field
    field = ".".join(str(part) for part in inner) or str(first["loc"][0])
    message = _BODY_ERRORS.get(first["type"], first["msg"]).removeprefix("Value error, ")
    return f"{field}: {message.rstrip('.')}."
