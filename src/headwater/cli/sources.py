"""The commands that add sources of any kind and poll them."""

import json
from typing import Annotated, Any

import typer

from headwater.cli import show
from headwater.cli.common import Json, print_json, run, settings_with_logs
from headwater.errors import OperatorError
from headwater.model.reasons import Reason


def source_add(
    name: Annotated[str, typer.Argument(help="What to call the source.")],
    kind: Annotated[str, typer.Option(help="An installed kind.")],
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Override an attribute of the kind; may be repeated."),
    ] = None,
) -> None:
    """Add a source of any kind. It is polled when it is due, or by `headwater source poll`."""
    from headwater.service.asking import with_desk

    overrides = dict(_override(name, text) for text in given or ())
    source = run(with_desk(settings_with_logs("error"), lambda desk: desk.add_source(name, kind, overrides)))
    typer.echo(f"Added source {source.name} of kind {source.kind}.")


def source_poll(name: Annotated[str, typer.Argument(help="A source.")], as_json: Json = False) -> None:
    """Poll a source now, due or not, and show what came."""
    from headwater.service.asking import with_desk

    # It may wait for an hour where a budget is spent, and says so in the log.
    polled = run(with_desk(settings_with_logs(), lambda desk: desk.poll_now(name)))
    if polled.error:
        raise OperatorError(f"{name} was not read: {polled.error}", reason=polled.reason)
    if as_json:
        print_json(
            {
                "name": polled.source.name,
                "items": polled.items,
                "new_items": polled.new_items,
                "new_urls": polled.new_urls,
                "refused": polled.refused,
            }
        )
    else:
        show.polled(polled)


def _override(name: str, text: str) -> tuple[str, Any]:
    """Read FIELD=VALUE; a value is JSON where it can be read as such, else it is text."""
    field, separator, value = text.partition("=")
    if not separator or not field:
        raise OperatorError(
            f"Source {name}: --set {text!r} is not of the form FIELD=VALUE, as rate_per_second=0.5.",
            reason=Reason.BAD_REQUEST,
        )
    try:
        return field, json.loads(value)
    except ValueError:
        return field, value
