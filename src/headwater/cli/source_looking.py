"""`headwater source discover` and `test`: what there is at an address, with nothing saved."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import show_sources
from headwater.cli.common import Json, run, settings_with_logs
from headwater.cli.output import print_json

if TYPE_CHECKING:
    from headwater.discovery.trial import Stage


def source_discover(
    url: Annotated[str, typer.Argument(help="The address of a site, or of any page of it.")], as_json: Json = False
) -> None:
    """Look which feeds and sitemaps a site has. Nothing is saved. Exits 1 if there is none."""
    from headwater.app.sessions import with_operations

    settings = settings_with_logs("error")
    found = run(with_operations(settings, lambda operations: operations.sources.look_around(url)))
    if as_json:
        print_json(asdict(found))
    else:
        show_sources.surroundings(found.url, found.feeds, found.sitemaps)
    raise typer.Exit(0 if found.feeds or found.sitemaps else 1)


def source_test(
    target: Annotated[str, typer.Argument(metavar="URL|NAME", help="An address, or a source.")], as_json: Json = False
) -> None:
    """Walk each stage from an address to a read article and print what is found. Nothing is saved.

    Exits 1 if a stage fails.
    """
    from headwater.app.sessions import with_operations

    settings = settings_with_logs("error")
    stages: list[Stage] = []

    def tell(stage: "Stage") -> None:
        stages.append(stage)
        if not as_json:
            show_sources.stage(stage.name, stage.found, stage.error, stage.seconds)

    works = run(with_operations(settings, lambda operations: operations.sources.test(target, tell)))
    if as_json:
        print_json({"works": works, "stages": [asdict(stage) for stage in stages]})
    raise typer.Exit(0 if works else 1)
