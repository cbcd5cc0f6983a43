"""The routes of the change feed and of webhooks."""

from typing import Annotated

from fastapi import FastAPI, Query
from pydantic import Field

from headwater.app.operations import Operations
from headwater.changes import operations as records
from headwater.core.record import record

_TAG = "webhooks"


@record
class Webhooks:
    """All webhooks by name."""

    webhooks: list[records.Webhook]


@record
class ParkedIds:
    """The parked deliveries to retry or dismiss."""

    ids: Annotated[list[str] | None, Field(min_length=1, max_length=1000)] = None
    """By default all."""


def add_changes(app: FastAPI, operations: Operations) -> None:
    """Add the change feed."""

    @app.get("/changes", tags=["reading"])
    async def list_changes(
        since: Annotated[
            str | None,
            Query(description="The `next` of the page before; or a day or time. By default from the first change on."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> records.ChangePage:
        """List changes of documents and jobs, in order for each document; late commits are never missed."""
        return await operations.changes.list_changes(since, limit)


def add_webhooks(app: FastAPI, operations: Operations) -> None:
    """Add the routes of webhooks."""
    webhooks = operations.webhooks

    @app.get("/webhooks", tags=[_TAG])
    async def list_webhooks() -> Webhooks:
        """List webhooks and their state."""
        return Webhooks(await webhooks.list_webhooks())

    app.post("/webhooks", tags=[_TAG], status_code=201)(webhooks.add)
    app.get("/webhooks/{name}", tags=[_TAG])(webhooks.get)
    app.delete("/webhooks/{name}", tags=[_TAG])(webhooks.remove)
    app.post("/webhooks/{name}/test", tags=[_TAG])(webhooks.send_test)

    @app.post("/webhooks/{name}/enable", tags=[_TAG])
    async def enable(name: str) -> records.Webhook:
        """Enable a webhook: its waiting changes are delivered, and a failing receiver is tried at once."""
        return await webhooks.enable(name, enabled=True)

    @app.post("/webhooks/{name}/disable", tags=[_TAG])
    async def disable(name: str) -> records.Webhook:
        """Disable a webhook: its changes wait until it is enabled again."""
        return await webhooks.enable(name, enabled=False)

    @app.get("/webhooks/{name}/deliveries", tags=[_TAG])
    async def deliveries(
        name: str,
        status: records.DeliveryStatus | None = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        before: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
    ) -> records.DeliveryPage:
        """List deliveries with their attempts, the last delivery first."""
        return await webhooks.list_deliveries(name, status=status, limit=limit, before=before)

    @app.post("/webhooks/{name}/retry", tags=[_TAG])
    async def retry(name: str, parked: ParkedIds | None = None) -> records.RetriedDeliveries:
        """Send parked deliveries again."""
        return await webhooks.retry_parked(name, parked.ids if parked else None)

    @app.post("/webhooks/{name}/dismiss", tags=[_TAG])
    async def dismiss(name: str, parked: ParkedIds | None = None) -> records.DismissedDeliveries:
        """Dismiss parked deliveries: they are not sent."""
        return await webhooks.dismiss_parked(name, parked.ids if parked else None)
