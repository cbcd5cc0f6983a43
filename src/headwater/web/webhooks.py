"""The pages of webhooks: their state, their deliveries, and the forms to add, test, retry and dismiss."""

from typing import Annotated

from fastapi import FastAPI, Form, Query, Request, Response

from headwater.api.errors import find_status
from headwater.changes.operations import AddedWebhook, DeliveryStatus, NewWebhook
from headwater.core.errors import HeadwaterError
from headwater.web.texts import count, query_string
from headwater.web.view import View

_LINES = 50
_MOST_SHOWN = 100
_MOST_ATTEMPTS = 5
Field = Annotated[str, Form(max_length=4000)]
Id = Annotated[str | None, Form(max_length=60)]


def add_pages(app: FastAPI, view: View) -> None:
    """Add the pages."""
    _add_list(app, view)
    _add_webhook(app, view)
    _add_actions(app, view)


def _add_list(app: FastAPI, view: View) -> None:
    webhooks = view.operations.webhooks

    async def render(
        request: Request,
        status: int = 200,
        *,
        name: str = "",
        url: str = "",
        refusal: str = "",
        added: AddedWebhook | None = None,
    ) -> Response:
        found = await webhooks.list_webhooks()
        return view.page(
            request,
            "webhooks.html",
            status,
            webhooks=found[:_MOST_SHOWN],
            more=len(found) - _MOST_SHOWN,
            name=name,
            url=url,
            refusal=refusal,
            added=added,
        )

    @app.get("/webhooks")
    async def show(request: Request) -> Response:
        return await render(request)

    @app.post("/webhooks")
    async def add(request: Request, name: Field = "", url: Field = "") -> Response:
        """Add a webhook. This page is the only one that shows its secret."""
        try:
            added = await webhooks.add(NewWebhook(name.strip(), url.strip()))
        except HeadwaterError as error:
            return await render(request, find_status(error.reason), name=name, url=url, refusal=str(error))
        return await render(request, added=added)


def _add_webhook(app: FastAPI, view: View) -> None:
    webhooks = view.operations.webhooks

    @app.get("/webhooks/{name}")
    async def show(
        request: Request,
        name: str,
        status: DeliveryStatus | None = None,
        before: Annotated[str | None, Query(max_length=40)] = None,
    ) -> Response:
        webhook = await webhooks.get(name)
        page = await webhooks.list_deliveries(name, status=status, limit=_LINES, before=before)

        def link(**changes: object) -> str:
            return request.url.path + query_string(**({"status": status or ""} | changes))

        return view.page(
            request,
            "webhook.html",
            webhook=webhook,
            deliveries=page.deliveries,
            most=_MOST_ATTEMPTS,
            statuses=list(DeliveryStatus),
            chosen=status or "",
            link=link,
            first=link() if before else "",
            next=link(before=page.next) if page.next else "",
        )


def _add_actions(app: FastAPI, view: View) -> None:
    webhooks = view.operations.webhooks

    @app.post("/webhooks/{name}/test")
    async def test(request: Request, name: str) -> Response:
        result = await webhooks.send_test(name)
        answer = (
            f"status {result.http_status}, {result.elapsed_ms} ms" if result.http_status else result.reason.sentence
        )
        detail = f" {result.detail}" if result.detail and not result.delivered else ""
        outcome = "took the test event" if result.delivered else "did not take the test event"
        return view.redirect(request, f"/webhooks/{name}", f"The receiver {outcome}: {answer}.{detail}")

    @app.post("/webhooks/{name}/enable")
    async def enable(request: Request, name: str) -> Response:
        await webhooks.enable(name, enabled=True)
        return view.redirect(request, f"/webhooks/{name}", "The webhook is enabled.")

    @app.post("/webhooks/{name}/disable")
    async def disable(request: Request, name: str) -> Response:
        await webhooks.enable(name, enabled=False)
        return view.redirect(request, f"/webhooks/{name}", "The webhook is disabled. Its changes wait.")

    @app.post("/webhooks/{name}/remove")
    async def remove(request: Request, name: str) -> Response:
        await webhooks.remove(name)
        return view.redirect(request, "/webhooks", f"The webhook {name} is removed.")

    @app.post("/webhooks/{name}/retry")
    async def retry(request: Request, name: str, delivery: Id = None) -> Response:
        result = await webhooks.retry_parked(name, [delivery] if delivery else None)
        notice = f"{count(result.queued, 'delivery', 'deliveries')} queued again, {result.parked} still parked."
        return view.redirect(request, f"/webhooks/{name}", notice)

    @app.post("/webhooks/{name}/dismiss")
    async def dismiss(request: Request, name: str, delivery: Id = None) -> Response:
        result = await webhooks.dismiss_parked(name, [delivery] if delivery else None)
        notice = f"{count(result.dismissed, 'delivery', 'deliveries')} dismissed, {result.parked} still parked."
        return view.redirect(request, f"/webhooks/{name}", notice)
