"""The commands `story list`, `show`, `diff`, `rebuild` and `verify`."""

import functools
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn

from headwater.cli.bars import progress_bars
from headwater.cli.common import Json, run_local
from headwater.cli.documents import print_changes
from headwater.cli.output import print_result
from headwater.cli.show import console, plain

if TYPE_CHECKING:
    from headwater.app.operations import LocalOperations
    from headwater.stories.operations import Story, StoryDiff, StoryPage, StoryRebuild, StoryVerification

story_app = typer.Typer(help="Stories: documents of several sources about one event.", no_args_is_help=True)
_Document = Annotated[str, typer.Argument(help="The id of a document, or its URL.")]


@story_app.command("list")
def list_stories(
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
    before: Annotated[int | None, typer.Option(min=1, help="The `next` of the page before.")] = None,
    as_json: Json = False,
) -> None:
    """List the stories of two documents or more, the one that got a document last first."""
    found = run_local(lambda operations: operations.stories.list_page(limit=limit, before=before))
    print_result(found, _print_stories, as_json=as_json)


def _print_stories(found: "StoryPage") -> None:
    if not found.stories:
        console.print("No stories have two documents.")
    for one in found.stories:
        sources = "1 source" if one.sources == 1 else f"{one.sources} sources"
        console.print(f"[bold]{plain(one.title or '(no title)')}[/]")
        console.print(
            f"  story {one.id}, {one.documents:,} documents of {sources}, since {one.since:%Y-%m-%d %H:%M} UTC"
        )
    if found.next:
        console.print(f"[dim]The next page: --before {found.next}[/]")


@story_app.command("show")
def show(document: _Document, as_json: Json = False) -> None:
    """Show the story that a document belongs to: which source was first, and who copied from whom."""

    async def get(operations: "LocalOperations") -> "Story":
        return await operations.stories.get(await operations.documents.find(document))

    print_result(run_local(get), _print_story, as_json=as_json)


def _print_story(found: "Story") -> None:
    console.print(f"[bold]{plain(found.title or '(no title)')}[/]")
    console.print(f"story {found.id}, first from {plain(found.first_source)}\n")
    for one in found.documents:
        copied = f", {one.copied:.0%} of its text is in document {one.copied_from}" if one.copied_from else ""
        console.print(f"{one.dated_at:%Y-%m-%d %H:%M}  {plain(one.source)}: {plain(one.title or '(no title)')}")
        console.print(f"  document {one.id}{copied}\n  [dim]{plain(one.url)}[/]")
    if found.has_more:
        console.print("There are more documents; these are the oldest.")


@story_app.command("diff")
def diff(
    document: _Document,
    other: Annotated[
        int | None,
        typer.Option(
            "--from", min=1, help="A document of the story; by default the one it copied, or else the oldest."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a document changed in the text of another one of its story."""

    async def compare(operations: "LocalOperations") -> "StoryDiff":
        return await operations.stories.diff(await operations.documents.find(document), other)

    print_result(run_local(compare), _print_diff, as_json=as_json)


def _print_diff(found: "StoryDiff") -> None:
    for sign, one in (("-", found.before), ("+", found.after)):
        console.print(f"[dim]{sign} document {one.id} of {plain(one.source)}, {plain(one.url)}[/]")
    print_changes(found)


@story_app.command("rebuild")
def rebuild(as_json: Json = False) -> None:
    """Make all stories again from the documents. Meanwhile some are missing. Headwater may be running."""
    columns = MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()

    async def work(operations: "LocalOperations") -> "StoryRebuild":
        with progress_bars(*columns, quiet=as_json) as show_step:
            return await operations.stories.rebuild(functools.partial(show_step, "changes"))

    print_result(run_local(work), lambda done: console.print(f"{done.changes:,} changes read"), as_json=as_json)


@story_app.command("verify")
def verify(as_json: Json = False) -> None:
    """Check that all stories are those that the documents give. Exits 1 if they are not."""
    columns = MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()

    async def work(operations: "LocalOperations") -> "StoryVerification":
        with progress_bars(*columns, quiet=as_json) as show_step:
            return await operations.stories.verify(functools.partial(show_step, "documents"))

    found = run_local(work)
    print_result(found, _print_verification, as_json=as_json)
    raise typer.Exit(0 if found.is_right else 1)


def _print_verification(found: "StoryVerification") -> None:
    for one in found.faults:
        console.print(f"document {one.document_id}: {one.fault}")
    if found.keys_differ:
        console.print("The keys of the signatures differ from those of the documents.")
    if found.is_right:
        console.print(f"{found.documents:,} documents, and all stories are right.")
    else:
        console.print(f"{found.documents:,} documents. `headwater story rebuild` makes the stories again.")
