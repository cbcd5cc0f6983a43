"""Commands for changes and webhooks: `headwater new` and `headwater webhook`."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common import Json, Yes, confirm, run_live, run_local
from headwater.cli.output import format_json, print_json, print_result
from headwater.cli.show import console, plain, wrap
from headwater.core.errors import BadRequest

if TYPE_CHECKING:
    from headwater.changes.operations import ChangeOperations, ChangePage, DeliveryPage
    from headwater.db.changes import Change, Webhook

webhook_app = typer.Typer(help="Webhooks: receivers of changes.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of a webhook or channel.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Parked deliveries.")]
Everything = Annotated[bool, typer.Option("--all", help="All parked deliveries.")]

_RECENT = timedelta(days=1)
_COLOURS = {"new": "green", "changed": "yellow", "corrected": "yellow", "deleted": "red", "failed": "red"}


def new(
    since: Annotated[str | None, typer.Option(help="A cursor, a day or a time (UTC); by default 24 hours ago.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with new changes until stopped.")] = False,
    as_json: Json = False,
) -> None:
    """Show new and changed documents, and failed jobs; no change is missed. --follow --json prints one line each."""
    if follow:
        run_local(lambda operations: _follow(operations.changes, since, as_json=as_json))
        return
    print_result(
        run_local(lambda operations: _list_changes(operations.changes, since, limit)), _print_page, as_json=as_json
    )


async def _list_changes(changes: "ChangeOperations", since: str | None, limit: int) -> "ChangePage":
    return await changes.list_changes(since or await changes.find_cursor(_RECENT), limit)


async def _follow(changes: "ChangeOperations", since: str | None, *, as_json: bool) -> None:
    async for change in changes.follow(since or await changes.find_cursor(_RECENT)):
        if as_json:
            typer.echo(format_json(change, indent=None))
        else:
            _print_changes([change])


def _print_page(page: "ChangePage") -> None:
    _print_changes(page.changes)
    console.print(f"[dim]For later changes: headwater new --since {page.next}[/]")


def _print_changes(changes: "Sequence[Change]") -> None:
    for change in changes:
        title = (change.document.title or "(no title)") if change.document else ""
        subject = f"job {change.job.id}" if change.job else f"document {change.deleted.id}" if change.deleted else title
        colour = _COLOURS[change.what]
        console.print(f"{change.at:%Y-%m-%d %H:%M}  [{colour}]{change.what:<9}[/]  {plain(subject)}")
        if cause := change.job or change.deleted:
            console.print(f"{'':<29}{cause.message}")
        console.print(f"{'':<29}[dim]{plain(change.url)}[/]")


@webhook_app.command()
def add(
    name: Annotated[str, typer.Argument(help="A name for the webhook.")],
    url: Annotated[str, typer.Argument(help="The address that deliveries are posted to.")],
    event: Annotated[
        list[str] | None, typer.Option(help="document.ready, document.deleted or job.failed; by default all.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="A cursor, a day or a time (UTC); by default now.")] = None,
    search: Annotated[str | None, typer.Option(help="Only documents that match this saved search.")] = None,
    as_json: Json = False,
) -> None:
    """Add a webhook, and show the secret that signs its deliveries. The secret is never shown again."""
    from headwater.changes.operations import NewWebhook

    new_webhook = NewWebhook(name, url, event or None, since, search)
    added = run_local(lambda operations: operations.webhooks.add(new_webhook), creates=True)
    if as_json:
        print_json(added)
        return
    print_receiver(added)
    console.print("\nThis secret signs its deliveries. Keep it: it is not shown again.")
    console.print(f"  {added.secret}")


@webhook_app.command("list")
def list_webhooks(as_json: Json = False) -> None:
    """List webhooks and channels with waiting changes, parked deliveries and failures."""
    webhooks = run_local(lambda operations: operations.webhooks.list_webhooks())
    if as_json:
        print_json({"webhooks": webhooks})
        return
    if not webhooks:
        console.print("There are none; `headwater webhook add` and `headwater channel add` add one.")
    for webhook in webhooks:
        print_receiver(webhook)


@webhook_app.command("show")
def show_webhook(name: Name, as_json: Json = False) -> None:
    """Show a webhook or channel and its state."""
    print_result(run_local(lambda operations: operations.webhooks.get(name)), print_receiver, as_json=as_json)


def print_receiver(webhook: "Webhook") -> None:
    """Print a receiver and its state."""
    console.print(f"[bold]{plain(webhook.name)}[/]  {plain(webhook.url)}")
    state = "enabled" if webhook.enabled else "[yellow]disabled[/]: its changes wait"
    search = f"; the saved search {plain(webhook.search)}" if webhook.search else ""
    what = ", ".join(webhook.events) if webhook.kind == "webhook" else _describe_times(webhook)
    console.print(f"  {what}{search}; {state}")
    since = f", the oldest since {webhook.waiting_since:%Y-%m-%d %H:%M:%S} UTC" if webhook.waiting_since else ""
    last = f"{webhook.delivered_at:%Y-%m-%d %H:%M:%S} UTC" if webhook.delivered_at else "never"
    console.print(f"  {webhook.waiting:,} waiting{since}; {webhook.parked:,} parked; last delivered {last}")
    if webhook.failures and webhook.failing_reason:
        until = f" The next attempt is at {webhook.not_before:%H:%M:%S} UTC." if webhook.not_before else ""
        times = "once" if webhook.failures == 1 else f"{webhook.failures} times in a row"
        console.print(wrap(f"Failed {times}: {webhook.error or webhook.failing_reason.sentence}{until}", "  "))


def _describe_times(channel: "Webhook") -> str:
    times = f"daily at {channel.digest_hour}" if channel.digest_hour is not None else "at once"
    quiet = f", quiet from {channel.quiet_from} to {channel.quiet_to}" if channel.quiet_from is not None else ""
    what = "alarms" if "alarm" in channel.events else f"digests {times}"
    return f"{what}{quiet} ({channel.timezone})"


@webhook_app.command()
def remove(name: Name, yes: Yes = False) -> None:
    """Remove a webhook or channel with its pending deliveries."""
    confirm(f"Remove {name} with its pending deliveries?", yes=yes)
    run_local(lambda operations: operations.webhooks.remove(name))
    console.print(f"{name} is removed.")


@webhook_app.command()
def enable(name: Name) -> None:
    """Enable a webhook or channel: its waiting changes are delivered, and a failing receiver is tried at once."""
    print_receiver(run_local(lambda operations: operations.webhooks.enable(name, enabled=True)))


@webhook_app.command()
def disable(name: Name) -> None:
    """Disable a webhook or channel: its changes wait until it is enabled again."""
    print_receiver(run_local(lambda operations: operations.webhooks.enable(name, enabled=False)))


@webhook_app.command("test")
def send_test(name: Name, as_json: Json = False) -> None:
    """Send a test to a webhook or channel. Exits 1 if the receiver does not take it."""
    test = run_live(lambda operations: operations.webhooks.send_test(name))
    if as_json:
        print_json(test)
    elif test.delivered:
        answered = f"answered {test.http_status}" if test.http_status else "took the test"
        console.print(f"{plain(name)} {answered} in {test.elapsed_ms} ms.")
    else:
        console.print(f"{plain(name)} did not take it ({test.reason}): {plain(test.detail or test.reason.sentence)}")
    raise typer.Exit(0 if test.delivered else 1)


@webhook_app.command()
def deliveries(
    name: Name,
    status: Annotated[str | None, typer.Option(help="pending, delivered, parked or dismissed.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500)] = 20,
    before: Annotated[str | None, typer.Option(help="Only deliveries before this cursor.")] = None,
    as_json: Json = False,
) -> None:
    """List deliveries to a webhook or channel with their attempts, the last delivery first."""
    page = run_local(
        lambda operations: operations.webhooks.list_deliveries(name, status=status, limit=limit, before=before)
    )
    print_result(page, _print_deliveries, as_json=as_json)


def _print_deliveries(page: "DeliveryPage") -> None:
    if not page.deliveries:
        console.print("No deliveries match.")
    for delivery in page.deliveries:
        reason = f" ({delivery.reason})" if delivery.reason and str(delivery.reason) != delivery.status else ""
        due = f", due {delivery.due_at:%Y-%m-%d %H:%M:%S} UTC" if delivery.status == "pending" else ""
        console.print(f"[bold]{delivery.id}[/]  {delivery.event}  {delivery.status}{reason}{due}")
        console.print(f"  [dim]{plain(delivery.url)}[/]")
        for attempt in delivery.log:
            status = attempt.http_status or "no answer"
            took = f", {attempt.elapsed_ms} ms" if attempt.elapsed_ms is not None else ""
            moment = f"{attempt.ended_at:%Y-%m-%d %H:%M:%S}"
            console.print(wrap(f"{moment}  attempt {attempt.attempt}: {status}, {attempt.reason}{took}", "  "))


@webhook_app.command()
def retry(name: Name, ids: Ids = None, everything: Everything = False, as_json: Json = False) -> None:
    """Send parked deliveries again; one is dismissed if a later change of its document was delivered."""
    chosen = _choose(ids, everything=everything)
    retried = run_local(lambda operations: operations.webhooks.retry_parked(name, chosen))
    counts = f"{retried.queued:,} queued, {retried.superseded:,} superseded by a later change"
    print_result(retried, lambda _: console.print(f"{counts}, {retried.parked:,} still parked."), as_json=as_json)


@webhook_app.command()
def dismiss(name: Name, ids: Ids = None, everything: Everything = False, as_json: Json = False) -> None:
    """Dismiss parked deliveries: they are not sent."""
    chosen = _choose(ids, everything=everything)
    dismissed = run_local(lambda operations: operations.webhooks.dismiss_parked(name, chosen))
    counts = f"{dismissed.dismissed:,} dismissed, {dismissed.parked:,} still parked."
    print_result(dismissed, lambda _: console.print(counts), as_json=as_json)


def _choose(ids: list[str] | None, *, everything: bool) -> list[str] | None:
    if bool(ids) == everything:
        raise BadRequest("Give ids of parked deliveries, or --all.")
    return ids or None


RECEIVER_COMMANDS: dict[str, Callable[..., None]] = {
    "list": list_webhooks,
    "show": show_webhook,
    "remove": remove,
    "enable": enable,
    "disable": disable,
    "test": send_test,
    "deliveries": deliveries,
    "retry": retry,
    "dismiss": dismiss,
}
"""The commands that receivers of all kinds share."""
