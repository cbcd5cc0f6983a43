"""The route that explains a URL."""

from typing import Annotated

from fastapi import FastAPI, Query

from headwater.app.operations import Operations
from headwater.explain.operations import Why


def add_why(app: FastAPI, operations: Operations) -> None:
    """Add the route."""

    @app.get("/why", tags=["reading"])
    async def why(url: Annotated[str, Query(description="The address of a page.")]) -> Why:
        """Return everything that is known about a URL: its sources, its end and the reason, and what happens next."""
        return await operations.why(url)
