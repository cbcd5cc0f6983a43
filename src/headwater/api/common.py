"""The parts that all routes share: the shape of an error, and the token."""

from fastapi import Depends
from fastapi.security import HTTPBearer

from headwater.core.record import record

TOKEN = [Depends(HTTPBearer(auto_error=False))]
"""The dependencies of a route that writes. OpenAPI shows them; `api/app.py` checks the token itself."""


@record
class ErrorBody:
    """Why a request failed."""

    reason: str
    """A code from the closed list of reasons."""
    message: str
    """A sentence for a person."""
    run_id: int | None = None
    """With `run_under_way`: the running run. Null if a poll is running, and with all other reasons."""


@record
class ErrorAnswer:
    """The shape of every error."""

    error: ErrorBody


@record
class Health:
    """The state of the program."""

    status: str
    version: str
