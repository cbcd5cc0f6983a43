"""The route that explains a URL."""

from fastapi import FastAPI

from headwater.app.operations import Operations


def add_why(app: FastAPI, operations: Operations) -> None:
    """Add the route."""
    app.get("/why", tags=["reading"])(operations.why)
