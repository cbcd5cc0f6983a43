"""Routes for other programs: the change feed, and webhooks."""

from typing import Annotated

from fastapi import FastAPI, Path, Query

from headwater.api import change_shapes as shapes
from headwater.api.token import TOKEN
from headwater.app.operations import Operations
from headwater.changes.operations import LiveWebhookOperations
from headwater.core.reasons import Reason

_TAG = "webhooks"

Name = Annotated[str, Path(description="A webhook's name.")]


def add_changes(app: FastAPI, operations: Operations) -> None:
    """Add the change feed."""

    @app.get("/changes", tags=["reading"])
    async def changes(
        since: Annotated[
            str | None,
            Query(description="The `next` of the page before; or a day or time. By default from the first change on."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> shapes.Changes:
        """List what became of documents and jobs, in order for each document; nothing that commits late is missed."""
        page = await operations.changes.page(since, limit)
        return shapes.Changes(changes=[shapes.Change(**change.told()) for change in page.changes], next=page.next)


def add_webhooks(app: FastAPI, operations: Operations) -> None:
    """Add what is asked of webhooks."""
    _add_rows(app, operations.webhooks)
    _add_deliveries(app, operations.webhooks)


def _add_rows(app: FastAPI, webhooks: LiveWebhookOperations) -> None:
    @app.get("/webhooks", tags=[_TAG])
    async def listed() -> shapes.Webhooks:
        """List webhooks, each with how it is doing."""
        return shapes.Webhooks(webhooks=[shapes.Webhook(**row) for row in await webhooks.listed()])

    @app.post("/webhooks", tags=[_TAG], status_code=201, dependencies=TOKEN)
    async def add(new: shapes.NewWebhook) -> shapes.AddedWebhook:
        """Add a webhook. The answer has the secret that deliveries are signed with, which is never shown again."""
        return shapes.AddedWebhook(**await webhooks.add(new.name, new.url, new.events, new.since))

    @app.get("/webhooks/{name}", tags=[_TAG])
    async def show(name: Name) -> shapes.Webhook:
        """Return a webhook."""
        return shapes.Webhook(**await webhooks.show(name))

    @app.delete("/webhooks/{name}", tags=[_TAG], dependencies=TOKEN)
    async def remove(name: Name) -> shapes.RemovedWebhook:
        """Remove a webhook, with what it has not had yet."""
        await webhooks.remove(name)
        return shapes.RemovedWebhook(name=name)

    @app.post("/webhooks/{name}/enable", tags=[_TAG], dependencies=TOKEN)
    async def enable(name: Name) -> shapes.Webhook:
        """Deliver to a webhook, from where it was on; one that was failing is tried at once."""
        return shapes.Webhook(**await webhooks.switch(name, enabled=True))

    @app.post("/webhooks/{name}/disable", tags=[_TAG], dependencies=TOKEN)
    async def disable(name: Name) -> shapes.Webhook:
        """Hold back what changes until it is enabled again."""
        return shapes.Webhook(**await webhooks.switch(name, enabled=False))

    @app.post("/webhooks/{name}/test", tags=[_TAG], dependencies=TOKEN)
    async def test(name: Name) -> shapes.Tested:
        """Send a webhook something to try it by, and tell what came of it."""
        answered = await webhooks.test(name)
        return shapes.Tested(
            delivered=answered.reason is Reason.DELIVERED,
            reason=answered.reason,
            http_status=answered.http_status,
            elapsed_ms=answered.elapsed_ms,
            detail=answered.detail,
        )


def _add_deliveries(app: FastAPI, webhooks: LiveWebhookOperations) -> None:
    @app.get("/webhooks/{name}/deliveries", tags=[_TAG])
    async def deliveries(
        name: Name,
        status: shapes.DeliveryStatus | None = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        before: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
    ) -> shapes.Deliveries:
        """List deliveries, the last first, each with its attempts."""
        rows = await webhooks.deliveries(name, status=status, limit=limit, before=before)
        following = rows[-1]["cursor"] if len(rows) == limit else None
        return shapes.Deliveries(deliveries=[shapes.Delivery(**row) for row in rows], next=following)

    @app.post("/webhooks/{name}/retry", tags=[_TAG], dependencies=TOKEN)
    async def retry(name: Name, parked: shapes.Parked | None = None) -> shapes.Retried:
        """Send parked deliveries after all."""
        return shapes.Retried(**await webhooks.retry(name, parked.ids if parked else None))

    @app.post("/webhooks/{name}/dismiss", tags=[_TAG], dependencies=TOKEN)
    async def dismiss(name: Name, parked: shapes.Parked | None = None) -> shapes.Dismissed:
        """Let parked deliveries be: they are not delivered."""
        return shapes.Dismissed(**await webhooks.dismiss(name, parked.ids if parked else None))
