"""Commands about webhooks."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from headwater.cli import show_changes as show
from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import print_json
from headwater.cli.show import console
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headwater.changes.operations import WebhookOperations


T = TypeVar("T")
webhook_app = typer.Typer(help="Other programs that are told of changes.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A webhook's name.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Parked deliveries.")]
Everything = Annotated[bool, typer.Option("--all", help="All that are parked.")]


@webhook_app.command()
def add(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    url: Annotated[str, typer.Argument(help="Where deliveries are sent, by POST.")],
    event: Annotated[
        list[str] | None, typer.Option(help="document.ready or job.failed; may be repeated; by default both.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="A cursor, day or time (UTC) to begin at; by default from now on.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add a webhook, and show the secret that its deliveries are signed with: it is never shown again."""
    added = run(_ask(lambda webhooks: webhooks.add(name, url, event or None, since)))
    if as_json:
        print_json(added)
        return
    show.webhook(added)
    show.secret(added["secret"])


@webhook_app.command("list")
def list_webhooks(as_json: Json = False) -> None:
    """List webhooks: what each waits for, what it refused, how it fails."""
    rows = run(_ask(lambda webhooks: webhooks.listed()))
    if as_json:
        print_json({"webhooks": rows})
    else:
        show.webhooks(rows)


@webhook_app.command("show")
def show_webhook(name: Name, as_json: Json = False) -> None:
    """Show a webhook, and how it is doing."""
    row = run(_ask(lambda webhooks: webhooks.show(name)))
    if as_json:
        print_json(row)
    else:
        show.webhook(row)


@webhook_app.command()
def remove(name: Name, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Remove a webhook, with what it has not had yet."""
    if not yes:
        if not sys.stdin.isatty():
            raise OperatorError("Nobody can be asked here: add --yes. Nothing was removed.", reason=Reason.BAD_REQUEST)
        typer.confirm(f"Remove {name}, with what it has not had yet?", abort=True)
    run(_ask(lambda webhooks: webhooks.remove(name)))
    console.print(f"{name} is removed.")


@webhook_app.command()
def enable(name: Name) -> None:
    """Deliver to a webhook, from where it was on; one that was failing is tried at once."""
    show.webhook(run(_ask(lambda webhooks: webhooks.switch(name, enabled=True))))


@webhook_app.command()
def disable(name: Name) -> None:
    """Hold back what changes, until it is enabled again."""
    show.webhook(run(_ask(lambda webhooks: webhooks.switch(name, enabled=False))))


@webhook_app.command("test")
def try_out(name: Name, as_json: Json = False) -> None:
    """Send a webhook something to try it by. Exits 1 if it was not taken."""
    from headwater.app.sessions import with_operations

    answered = run(with_operations(settings_with_logs("error"), lambda operations: operations.webhooks.test(name)))
    delivered = answered.reason is Reason.DELIVERED
    if as_json:
        told = asdict(answered)
        del told["retry_after"]
        print_json({"delivered": delivered, **told})
    else:
        show.tested(name, answered)
    raise typer.Exit(0 if delivered else 1)


@webhook_app.command()
def deliveries(
    name: Name,
    status: Annotated[str | None, typer.Option(help="pending, delivered, parked or dismissed.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500)] = 20,
    before: Annotated[str | None, typer.Option(help="Go on before this cursor.")] = None,
    as_json: Json = False,
) -> None:
    """List deliveries to a webhook, the last first, with every attempt."""
    rows = run(_ask(lambda webhooks: webhooks.deliveries(name, status=status, limit=limit, before=before)))
    if as_json:
        print_json({"deliveries": rows, "next": rows[-1]["cursor"] if len(rows) == limit else None})
    else:
        show.deliveries(rows)


@webhook_app.command()
def retry(name: Name, ids: Ids = None, everything: Everything = False, as_json: Json = False) -> None:
    """Send parked deliveries after all; one whose document changed again and was delivered since is let be."""
    chosen = _chosen(ids, everything=everything)
    answer = run(_ask(lambda webhooks: webhooks.retry(name, chosen)))
    if as_json:
        print_json(answer)
    else:
        console.print(
            f"{answer['queued']:,} queued, {answer['superseded']:,} overtaken by a later change, "
            f"{answer['parked']:,} still parked."
        )


@webhook_app.command()
def dismiss(name: Name, ids: Ids = None, everything: Everything = False, as_json: Json = False) -> None:
    """Let parked deliveries be: they are not delivered."""
    chosen = _chosen(ids, everything=everything)
    answer = run(_ask(lambda webhooks: webhooks.dismiss(name, chosen)))
    if as_json:
        print_json(answer)
    else:
        console.print(f"{answer['dismissed']:,} dismissed, {answer['parked']:,} still parked.")


def _chosen(ids: list[str] | None, *, everything: bool) -> list[str] | None:
    if bool(ids) == everything:
        raise OperatorError("Give ids of parked deliveries, or --all.", reason=Reason.BAD_REQUEST)
    return ids or None


async def _ask(question: "Callable[[WebhookOperations], Awaitable[T]]") -> T:
    from headwater.app.sessions import with_reader

    return await with_reader(settings_with_logs("error"), lambda reader: question(reader.webhooks))
