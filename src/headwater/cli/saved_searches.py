"""`headwater saved-search` and `headwater feed-address`: searches to watch, and feeds for readers without a token."""

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.changes import RECEIVER_COMMANDS, print_receiver
from headwater.cli.common import Category, Json, Language, Source, Topic, Yes, confirm, run_local
from headwater.cli.output import print_json, print_result
from headwater.cli.show import console, plain
from headwater.core.errors import BadRequest

if TYPE_CHECKING:
    from headwater.notify.alarms import AlarmList
    from headwater.notify.operations import FeedAddressList, SavedSearch, SavedSearchList

saved_search_app = typer.Typer(help="Searches to watch: each has a feed and receivers.", no_args_is_help=True)
channel_app = typer.Typer(help="E-mail addresses and services that get digests.", no_args_is_help=True)
alarm_app = typer.Typer(help="What an operator must know.", no_args_is_help=True)
feed_address_app = typer.Typer(help="Secret feed addresses, for readers that send no token.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of the saved search.")]
Words = Annotated[str, typer.Argument(help="As of `headwater search`, in quotes.")]


@saved_search_app.command()
def add(
    name: Annotated[str, typer.Argument(help="A word, such as flood-news.")],
    words: Words,
    source: Source = None,
    category: Category = None,
    topic: Topic = None,
    language: Language = None,
    as_json: Json = False,
) -> None:
    """Save a search under a name."""
    from headwater.notify.operations import SearchTerms

    terms = SearchTerms(words, source, category, topic, language)
    saved = run_local(lambda operations: operations.saved_searches.add(name, terms), creates=True)
    print_result(saved, _print_search, as_json=as_json)


@saved_search_app.command("list")
def list_saved_searches(as_json: Json = False) -> None:
    """List saved searches."""
    found = run_local(lambda operations: operations.saved_searches.list_saved_searches())
    print_result(found, _print_searches, as_json=as_json)


@saved_search_app.command("show")
def show_saved_search(name: Name, as_json: Json = False) -> None:
    """Show a saved search."""
    print_result(run_local(lambda operations: operations.saved_searches.get(name)), _print_search, as_json=as_json)


@saved_search_app.command()
def change(
    name: Name,
    words: Words,
    source: Source = None,
    category: Category = None,
    topic: Topic = None,
    language: Language = None,
    as_json: Json = False,
) -> None:
    """Change the words and all filters of a saved search."""
    from headwater.notify.operations import SearchTerms

    terms = SearchTerms(words, source, category, topic, language)
    saved = run_local(lambda operations: operations.saved_searches.change(name, terms))
    print_result(saved, _print_search, as_json=as_json)


@saved_search_app.command()
def remove(name: Name, yes: Yes = False) -> None:
    """Remove a saved search with its receivers and what they have not got yet."""
    confirm(f"Remove the saved search {name} with its receivers?", yes=yes)
    run_local(lambda operations: operations.saved_searches.remove(name))
    console.print(f"{plain(name)} is removed.")


def _print_searches(listed: "SavedSearchList") -> None:
    if not listed.saved_searches:
        console.print("There are no saved searches; `headwater saved-search add NAME WORDS` adds one.")
    for saved in listed.saved_searches:
        _print_search(saved)


def _print_search(saved: "SavedSearch") -> None:
    filters = {name: getattr(saved, name) for name in ("source", "category", "topic", "language")}
    shown = "".join(f"  {name} {plain(value)}" for name, value in filters.items() if value)
    console.print(f"[bold]{plain(saved.name)}[/]  {plain(saved.words)}{shown}")
    console.print(f"  {saved.receivers:,} receivers; its feed is /feeds/saved/{plain(saved.name)}.atom")


@channel_app.command("add")
def add_channel(
    name: Annotated[str, typer.Argument(help="A name for the channel.")],
    address: Annotated[str, typer.Argument(help="An e-mail address, or that of a service, as Apprise writes it.")],
    search: Annotated[str | None, typer.Option(help="The saved search whose documents are in the digests.")] = None,
    alarms: Annotated[bool, typer.Option("--alarms", help="It gets alarms instead of digests.")] = False,
    daily_at: Annotated[int | None, typer.Option(help="The hour of the daily digest; by default at once.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Of the hours; by default that of the settings.")] = None,
    quiet: Annotated[str | None, typer.Option(metavar="HOUR-HOUR", help="Hours without messages: 22-7.")] = None,
    since: Annotated[str | None, typer.Option(help="A cursor, a day or a time (UTC); by default now.")] = None,
    as_json: Json = False,
) -> None:
    """Add an e-mail address or a service such as ntfy, Slack, Teams or Matrix."""
    from headwater.notify.channels import DeliveryTimes, NewChannel

    begin, end = _read_hours(quiet) if quiet is not None else (None, None)
    new = NewChannel(name, address, search, DeliveryTimes(daily_at, timezone, begin, end), since, alarms)
    added = run_local(lambda operations: operations.channels.add(new))
    print_result(added, print_receiver, as_json=as_json)


for _name, _function in RECEIVER_COMMANDS.items():
    channel_app.command(_name)(_function)


def _read_hours(text: str) -> tuple[int, int]:
    begin, _, end = text.partition("-")
    if not (begin.isascii() and begin.isdigit() and end.isascii() and end.isdigit()):
        raise BadRequest("--quiet: give two hours, such as 22-7.")
    return int(begin), int(end)


@feed_address_app.command("add")
def add_address(
    name: Annotated[str, typer.Argument(help="A word, such as the name of the reader that will use it.")],
    day: Annotated[str | None, typer.Option(help="A day, `today` or `latest`.")] = None,
    source: Annotated[str | None, typer.Option(help="The documents of a source.")] = None,
    category: Annotated[str | None, typer.Option(help="The documents of a category.")] = None,
    search: Annotated[str | None, typer.Option(help="The documents that match these words.")] = None,
    saved: Annotated[str | None, typer.Option(help="The documents of a saved search.")] = None,
    story: Annotated[
        str | None, typer.Option(help="The documents of the story of a document, given by its id.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Entries have the whole text.")] = False,
    as_json: Json = False,
) -> None:
    """Make a secret address of a feed, and print its path once. Anyone who has it can read the feed."""
    from headwater.notify.operations import FeedKind, NewFeedAddress

    given = {"day": day, "source": source, "category": category, "search": search, "saved": saved, "story": story}
    chosen = [(kind, value) for kind, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise BadRequest("Give one of --day, --source, --category, --search, --saved and --story.")
    ((kind, value),) = chosen
    new = NewFeedAddress(name, FeedKind(kind), value, full)
    added = run_local(lambda operations: operations.feed_addresses.add(new), creates=True)
    if as_json:
        print_json(added)
        return
    console.print("This path is not shown again. Put the address of your server before it:")
    typer.echo(added.path)


@feed_address_app.command("list")
def list_addresses(as_json: Json = False) -> None:
    """List secret addresses. Their secret parts are not stored."""
    found = run_local(lambda operations: operations.feed_addresses.list_feed_addresses())
    print_result(found, _print_addresses, as_json=as_json)


@feed_address_app.command("remove")
def remove_address(
    name: Annotated[str, typer.Argument(help="The name of the address.")],
    yes: Yes = False,
) -> None:
    """Remove a secret address. Readers that use it get 404 from now on."""
    confirm(f"Remove the feed address {name}? Readers that use it get nothing then.", yes=yes)
    run_local(lambda operations: operations.feed_addresses.remove(name))
    console.print(f"{plain(name)} is removed.")


def _print_addresses(listed: "FeedAddressList") -> None:
    if not listed.feed_addresses:
        console.print("There are no feed addresses; `headwater feed-address add NAME --source SOURCE` makes one.")
    for one in listed.feed_addresses:
        used = f"last used {one.last_used_at:%Y-%m-%d %H:%M} UTC" if one.last_used_at else "never used"
        text = "whole texts" if one.with_text else "leads"
        console.print(f"[bold]{plain(one.name)}[/]  {one.kind} {plain(one.value)}, {text}, {used}")


@alarm_app.command("list")
def list_alarms(
    only_open: Annotated[bool, typer.Option("--open", help="Only alarms that are not over.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=500)] = 20,
    as_json: Json = False,
) -> None:
    """List alarms: open ones first, then the last ones."""
    found = run_local(lambda operations: operations.alarms.list_alarms(only_open=only_open, limit=limit))
    print_result(found, _print_alarms, as_json=as_json)


def _print_alarms(listed: "AlarmList") -> None:
    if not listed.alarms:
        console.print("There are no alarms.")
    for one in listed.alarms:
        state = f"over at {one.ended_at:%Y-%m-%d %H:%M}" if one.ended_at else "[red]open[/]"
        console.print(f"{one.began_at:%Y-%m-%d %H:%M}  {state}  [bold]{one.kind}[/] {plain(one.subject)}")
        console.print(f"  {plain(one.message)}")
