"""The routes of API tokens. All need the scope admin."""

from datetime import timedelta
from typing import Annotated

from fastapi import FastAPI
from pydantic import Field

from headwater.access.operations import AddedToken, Scope, TokenList
from headwater.api.common import ADMIN
from headwater.app.operations import Operations
from headwater.core.record import record

_TAG = "tokens"
_LONGEST_SECONDS = 3650 * 86_400


@record
class NewToken:
    """A token to make."""

    name: str
    """A word, such as the name of the program that will use it."""
    scope: Scope = Scope.READ
    """Each scope includes the one before: read, write, admin."""
    for_seconds: Annotated[int, Field(ge=1, le=_LONGEST_SECONDS)] | None = None
    """It expires after this time; by default never."""


def add_tokens(app: FastAPI, operations: Operations) -> None:
    """Add the routes."""
    tokens = operations.tokens

    @app.get("/tokens", tags=[_TAG], dependencies=ADMIN)
    async def list_tokens() -> TokenList:
        """List tokens by name. Their characters are not stored."""
        return await tokens.list_tokens()

    @app.post("/tokens", tags=[_TAG], status_code=201, dependencies=ADMIN)
    async def add(new: NewToken) -> AddedToken:
        """Make a token. The answer has its characters, which are never shown again."""
        return await tokens.add(new.name, new.scope, timedelta(seconds=new.for_seconds) if new.for_seconds else None)

    app.delete("/tokens/{name}", tags=[_TAG], dependencies=ADMIN)(tokens.remove)
