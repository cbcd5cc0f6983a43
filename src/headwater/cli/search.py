"""The command `search`, and `search reindex`."""

import functools
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text
from typer.core import TyperGroup

from headwater.cli.bars import progress_bars
from headwater.cli.common import Category, Json, Language, Since, Source, Topic, read_since, run_local
from headwater.cli.output import print_result
from headwater.cli.show import console, plain, visible
from headwater.cli.show_days import print_story_hint
from headwater.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.app.operations import LocalOperations
    from headwater.search.operations import Hits, IndexStatus, Reindexing, TextPart
    from headwater.stories.operations import DocumentStories, DocumentStory

_FIND = "find"


class _SearchGroup(TyperGroup):
    """Commands of search. Words that are no command are searched."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command `find` before the words."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = [_FIND, *args]
        return super().parse_args(ctx, args)


search_app = typer.Typer(
    cls=_SearchGroup,
    no_args_is_help=True,
    help="Search the documents: headwater search WORDS. `headwater search find --help` shows the language of searches.",
)


@search_app.command(_FIND, context_settings={"ignore_unknown_options": True})  # `-word` excludes a word
def find(
    words: Annotated[
        list[str],
        typer.Argument(help='Words, "a phrase", or, -not, site: source: category: topic: lang: before: after: title:.'),
    ],
    source: Source = None,
    category: Category = None,
    topic: Topic = None,
    language: Language = None,
    since: Since = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first, not the best.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 10,
    cursor: Annotated[str | None, typer.Option(help="The `next` of the page before.")] = None,
    as_json: Json = False,
) -> None:
    """Search the documents, best first. --since compares the date of publication, or else of the text."""
    from headwater.search.operations import ContentFilter

    for word in words:
        if word.startswith("--"):
            raise BadRequest(f"search has no option {word}. `headwater search find --help` lists its options.")
    query = " ".join(words)
    only = ContentFilter(source, category, topic, language, read_since(since))

    async def work(operations: "LocalOperations") -> tuple["Hits", "DocumentStories"]:
        found = await operations.search.find(query, only, limit=limit, cursor=cursor, newest_first=newest)
        return found, await operations.stories.list_of([hit.id for hit in found.hits])

    found, stories = run_local(work)
    print_result(found, lambda found: print_hits(query, found, stories.stories), as_json=as_json)


@search_app.command()
def reindex(as_json: Json = False) -> None:
    """Make what search reads again, and a new index if one is configured. Headwater may be running."""
    columns = MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()

    async def work(operations: "LocalOperations") -> "Reindexing":
        with progress_bars(*columns, quiet=as_json) as show_step:
            return await operations.search.reindex(
                functools.partial(show_step, "words"), functools.partial(show_step, "index")
            )

    print_result(run_local(work), _print_reindexing, as_json=as_json)


def _print_reindexing(done: "Reindexing") -> None:
    console.print(f"{done.documents:,} documents read, {done.changed:,} rows of search made or changed")
    if done.index is not None:
        _print_index(done.index)


@search_app.command("index")
def show_index(as_json: Json = False) -> None:
    """Show the index in Elasticsearch or OpenSearch, what waits for it, and what it refused."""
    print_result(run_local(lambda operations: operations.search.get_index()), _print_index, as_json=as_json)


def _print_index(status: "IndexStatus") -> None:
    state = status.state
    if state is None:
        console.print("There is no index. HEADWATER_SEARCH_URL names its server.")
        return
    building = f", {state.building} is being built" if state.building else ""
    console.print(f"index {state.current or '(none yet)'}{building}")
    console.print(f"{status.waiting:,} changes wait, {status.parked:,} documents are parked")
    if state.failures:
        console.print(f"failing: {plain(state.error or '')}")
    for one in status.refused:
        console.print(f"  document {one.document_id} {plain(one.url or '(deleted)')}: {plain(one.detail or '')}")


def print_hits(query: str, found: "Hits", stories: "Sequence[DocumentStory]" = ()) -> None:
    """Show the documents that match a search. A story is shown once."""
    from headwater.stories.operations import fold_lines

    for note in found.notes:
        console.print(plain(note))
    if not found.hits:
        console.print(f"Nothing found for '{plain(query)}'.")
        return
    more = "more than " if found.has_more else ""
    first = f", {len(found.hits):,} of them here" if found.next or found.total > len(found.hits) else ""
    verb = "document matches" if found.total == 1 else "documents match"
    console.print(f"{more}{found.total:,} {verb}{first}:\n")
    for hit, story, folded in fold_lines(found.hits, lambda hit: hit.id, stories):
        published = f"published {hit.published_at:%Y-%m-%d %H:%M}" if hit.published_at else "undated"
        console.print(_highlight_matches(hit.title_parts) if hit.title else "(no title)", style="bold")
        console.print(
            f"  document {hit.id} of {plain(hit.source)}, {published}, fetched {hit.fetched_at:%Y-%m-%d %H:%M} UTC"
        )
        console.print(Text("  ") + _highlight_matches(hit.snippet))
        console.print(f"  [dim]{plain(hit.url)}[/]")
        if story:
            print_story_hint(story, [one.id for one in folded])
        console.print()
    if found.next:
        console.print(f"[dim]The next page: --cursor {plain(found.next)}[/]")


def _highlight_matches(parts: "Sequence[TextPart]") -> Text:
    shown = Text()
    for part in parts:
        # Spaces at the ends of a part separate it from its neighbours.
        words = visible(f"|{part.text}|")[1:-1]
        shown.append(words, "bold yellow" if part.is_match else None)
    return shown
