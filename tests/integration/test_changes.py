"""The change feed: every change once, in order for each document, also after a late commit (spec 8.5)."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from headwater.changes.operations import ChangeFeed
from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db import changes
from headwater.db.changes import Change, format_cursor
from headwater.db.pool import Database, open_database
from headwater.storage.backup import back_up
from headwater.storage.restore import restore
from tests.api import TOKEN, Api, open_api
from tests.harness import AppHarness
from tests.integration.test_backup import new_database
from tests.program import forked, headwater
from tests.server import Answer, Site, page
from tests.stored_rows import HOST, NOON, fail_job, write, write_all


@pytest.fixture
def feed(database: Database) -> ChangeFeed:
    return ChangeFeed(database)


@pytest.fixture
async def other(database_url: str, database: Database) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """A connection whose transactions the test ends itself."""
    connection = await asyncpg.connect(database_url)
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    yield connection
    await connection.close()


def names(found: list[Change]) -> list[tuple[str, str]]:
    return [(change.what, change.url.removeprefix(f"{HOST}/")) for change in found]


def position_of(change: Change) -> int:
    return int(change.cursor.removeprefix("c"))


async def read_all(feed: ChangeFeed, position: int = 0, page: int = 7) -> list[Change]:
    found: list[Change] = []
    while more := await feed.list_after(position_of(found[-1]) if found else position, page):
        found += more
    return found


@pytest.mark.both_servers
async def test_a_document_is_a_change_when_it_is_new_and_when_its_text_changes(
    database: Database, feed: ChangeFeed
) -> None:
    """Spec 8.5: each change has title, hash and revision of its time."""
    await write_all(database, "a", "b")
    await write_all(database, "a", text="second")
    await write_all(database, "b", "a", text="first")
    found = await read_all(feed)
    assert names(found) == [("new", "a"), ("new", "b"), ("changed", "a"), ("changed", "a")]
    positions = [position_of(change) for change in found]
    assert positions == sorted(set(positions))
    of_a = [change.document for change in found if change.url.endswith("a") and change.document]
    assert [(document.revision, document.title) for document in of_a] == [
        (1, "a: first"),
        (2, "a: second"),
        (3, "a: first"),
    ]
    assert of_a[0].content_hash == of_a[2].content_hash != of_a[1].content_hash


CORRECTIONS = {
    "title": "Another",
    "byline": "Ann Other",
    "published_at": NOON,
    "language": "fr",
    "image": "https://news.test/a.jpg",
    "abstract": "In short.",
}


@pytest.mark.parametrize(("field", "value"), CORRECTIONS.items(), ids=list(CORRECTIONS))
async def test_a_field_that_changes_without_the_text_is_one_correction(
    field: str, value: object, database: Database, feed: ChangeFeed
) -> None:
    """Issue 8: a corrected headline reaches readers; the revision stays."""
    async with database.connection() as connection:
        answers = [
            await write(connection, "a", "first", **fields) for fields in ({}, {field: value}, {field: value}, {})
        ]
    assert answers == [False, True, False, True]
    found = await read_all(feed)
    assert names(found) == [("new", "a"), ("corrected", "a"), ("corrected", "a")]
    assert {change.document.revision for change in found if change.document} == {1}
    assert {change.event for change in found} == {"document.ready"}


async def test_a_title_that_changes_with_the_text_is_one_change(database: Database, feed: ChangeFeed) -> None:
    async with database.connection() as connection:
        await write(connection, "a", "first")
        assert await write(connection, "a", "second", byline="Ann Other")
    assert names(await read_all(feed)) == [("new", "a"), ("changed", "a")]


async def test_a_late_commit_comes_after_the_changes_that_were_read_before(
    database: Database, feed: ChangeFeed, other: "asyncpg.Connection[Any]"
) -> None:
    """Spec 8.5: a transaction stays open while others commit and are read."""
    await write_all(database, "seed")
    late = other.transaction()
    await late.start()
    await write(other, "late", "first")
    await write_all(database, "early")
    first = await read_all(feed)
    assert names(first) == [("new", "seed"), ("new", "early")]
    await late.commit()
    await write_all(database, "later")
    assert names(await read_all(feed, position_of(first[-1]))) == [("new", "late"), ("new", "later")]


async def test_changes_that_another_process_numbers_meanwhile_are_read_at_once(
    database: Database, feed: ChangeFeed, other: "asyncpg.Connection[Any]"
) -> None:
    """Spec 8.5: a reader that has nothing left to number reads once more."""
    await write_all(database, "a")
    numbering = other.transaction()
    await numbering.start()
    assert await changes.number_changes(other) == 1
    reading = asyncio.create_task(feed.list_after(0, 5))
    async with database.connection() as connection, asyncio.timeout(30):
        while not await connection.fetch("SELECT FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)
    await numbering.commit()
    assert names(await reading) == [("new", "a")]


async def test_a_rolled_back_change_is_not_in_the_feed(
    database: Database, feed: ChangeFeed, other: "asyncpg.Connection[Any]"
) -> None:
    undone = other.transaction()
    await undone.start()
    await write(other, "undone", "first")
    await undone.rollback()
    await write_all(database, "kept")
    assert names(await read_all(feed)) == [("new", "kept")]


async def test_concurrent_readers_get_every_change_once_and_in_order_for_each_document(
    database: Database, feed: ChangeFeed
) -> None:
    """Spec 8.5: four writers of the same documents, some of whose transactions fail or wait, and two readers."""
    chance = random.Random(8)
    done = asyncio.Event()

    async def write_some(writer: int) -> None:
        for number in range(40):
            try:
                async with database.connection() as connection, connection.transaction():
                    await write(connection, f"d{chance.randrange(6)}", f"{writer} {number}")
                    await asyncio.sleep(chance.choice((0, 0, 0.01)))
                    if chance.random() < 0.2:
                        raise LookupError
            except LookupError:
                pass

    async def read() -> list[Change]:
        found: list[Change] = []
        while True:
            ending = done.is_set()
            more = await feed.list_after(position_of(found[-1]) if found else 0, 5)
            found += more
            if ending and not more:
                return found
            await asyncio.sleep(0)

    readers = [asyncio.create_task(read()) for _ in range(2)]
    async with asyncio.timeout(60):
        await write_all(database, "d0")
        await asyncio.gather(*(write_some(writer) for writer in range(4)))
        done.set()
        one, another = await asyncio.gather(*readers)
    assert one == another
    positions = [position_of(change) for change in one]
    assert positions == sorted(set(positions))
    async with database.connection() as connection:
        revisions = await connection.fetch("SELECT url, revision FROM documents JOIN url_frontier u ON u.id = url_id")
    for url, last in revisions:
        seen = [change.document.revision for change in one if change.url == url and change.document]
        assert seen == list(range(1, last + 1))


async def test_a_failed_job_is_a_change_with_its_reason(database: Database, feed: ChangeFeed) -> None:
    """Spec 7.3, 8.5: and again when it fails again."""
    async with database.connection() as connection:
        job_id = await fail_job(connection, "gone", "not_found")
        await connection.execute("UPDATE ingestion_jobs SET status = 'queued', reason = NULL, settled_at = NULL")
        await connection.execute("UPDATE url_frontier SET status = 'dead', reason = 'gone'")
    first, second = await read_all(feed)
    assert (first.what, first.url, first.document) == ("failed", f"{HOST}/gone", None)
    assert [change.job and (change.job.id, change.job.reason) for change in (first, second)] == [
        (job_id, Reason.NOT_FOUND),
        (job_id, Reason.GONE),
    ]


async def test_a_reader_may_begin_at_a_day_or_time(database: Database, feed: ChangeFeed) -> None:
    """Spec 8.2: `new --since DATE`."""
    for hours, name in enumerate(("a", "b", "c")):
        async with database.connection() as connection:
            await write(connection, name, "first", NOON + timedelta(hours=24 * hours))
    for since, expected in (
        ("2026-03-12", ["a", "b", "c"]),
        ("2026-03-13", ["b", "c"]),
        ("2026-03-13T12:00Z", ["b", "c"]),
        ("2026-03-13T14:00+01:00", ["c"]),
        ("2026-03-13T12:00:01", ["c"]),
        ("2026-03-20", []),
        ("0001-01-01", ["a", "b", "c"]),
    ):
        assert [name for _, name in names(await read_all(feed, await feed.find_start(since)))] == expected, since
    await write_all(database, "d")


async def test_beginning_at_a_time_misses_no_change_out_of_order(database: Database, feed: ChangeFeed) -> None:
    """Spec 8.5: the times of changes may be in any order."""
    chance = random.Random(6)
    for _ in range(8):
        hours = [chance.randrange(12) for _ in range(chance.randrange(1, 4))]
        async with database.connection() as connection:
            await connection.execute(
                "INSERT INTO changes (url_id, revision, changed_at) "
                "SELECT 1, 1, $1::timestamptz + hour * interval '1 hour' FROM unnest($2::int[]) AS hour",
                NOON,
                hours,
            )
        await feed.number_changes()

    async def misplaced() -> list[int]:
        wrong = []
        for hour in range(-1, 12):
            moment = NOON + timedelta(hours=hour)
            async with database.connection() as connection:
                first = await connection.fetchval("SELECT min(position) FROM changes WHERE changed_at >= $1", moment)
            if await feed.find_position(moment) != (first - 1 if first else await feed.find_end()):
                wrong.append(hour)
        return wrong

    assert await misplaced() == []


@pytest.mark.parametrize(
    "since",
    [
        "",
        "c",
        "cx",
        "c-1",
        "c 1",
        "12",
        "c99999999999999999999",
        "c999999999999999999",
        "yesterday",
        "2026-13-01",
        "c\N{FULLWIDTH DIGIT ONE}",
    ],
)
async def test_a_bad_cursor_is_refused(since: str, database: Database, feed: ChangeFeed) -> None:
    await write_all(database, "a")
    last = await feed.find_end()
    assert await feed.find_start(format_cursor(last)) == last
    with pytest.raises(OperatorError, match="^since: ") as refusal:
        await feed.find_start(since)
    assert refusal.value.reason is Reason.BAD_REQUEST


async def test_a_refetched_page_is_a_change_only_if_its_text_has_changed(site: Site, harness: AppHarness) -> None:
    """Spec 4.4, 8.5: through the whole flow."""
    url = f"{HOST}/a"
    html = {"Content-Type": "text/html"}
    site.answers[url] = [Answer(page("river"), headers=html)] * 2 + [Answer(page("mountain"), headers=html)]
    await harness.fetch(url)
    for _ in range(2):
        await harness.operations.frontier.retry([url])
        await harness.work()
    found = await harness.operations.changes.list_changes(None, 10)
    assert [change.what for change in found.changes] == ["new", "changed"]
    assert [change.document and change.document.title for change in found.changes] == ["river", "mountain"]
    assert (await harness.operations.changes.list_changes(found.next, 10)).changes == []
    assert (await harness.operations.changes.list_changes(found.next, 10)).next == found.next
    assert found.next == found.changes[-1].cursor


async def test_a_corrected_headline_reaches_readers_through_the_whole_flow(site: Site, harness: AppHarness) -> None:
    """Issue 8."""
    url = f"{HOST}/a"
    titles = ["Flods in the valley", "Floods in the valley", "Floods in the valley"]
    site.answers[url] = [
        Answer(
            page("river")
            .replace(">river</title>", f">{title}</title>")
            .replace('content="river"', f'content="{title}"')
        )
        for title in titles
    ]
    await harness.fetch(url)
    for _ in titles[1:]:
        await harness.operations.frontier.retry([url])
        await harness.work()
    found = (await harness.operations.changes.list_changes(None, 10)).changes
    assert [change.what for change in found] == ["new", "corrected"]
    assert [change.document and change.document.title for change in found] == [titles[1]] * 2
    assert [reason for reason, _, _ in await harness.attempts()] == ["stored", "stored", "unchanged"]


@pytest.fixture
async def api(database: Database, make_settings: Callable[..., Settings]) -> AsyncIterator[Api]:
    await write_all(database, "a", "b", "c")
    async with open_api(make_settings(api_token=TOKEN)) as serving:
        yield serving


async def test_the_api_returns_changes_by_pages(api: Api, database: Database) -> None:
    """Spec 8.5."""
    _, first = await api.get("/changes?limit=2")
    _, second = await api.get("/changes", params={"since": first["next"], "limit": 2})
    _, third = await api.get("/changes", params={"since": second["next"]})
    urls = [change["url"] for answer in (first, second, third) for change in answer["changes"]]
    assert urls == [f"{HOST}/{name}" for name in "abc"]
    assert first["changes"][0]["event"] == "document.ready"
    assert first["changes"][1]["cursor"] == first["next"]
    assert third == {"changes": [], "next": second["next"]}
    await write_all(database, "d")
    _, fourth = await api.get("/changes", params={"since": third["next"]})
    assert [change["document"]["title"] for change in fourth["changes"]] == ["d: first"]


@pytest.mark.parametrize(
    "query",
    ["since=x", "since=9999-12-31", "since=c999999999999999999", "limit=0", "limit=100000", "limit=x", "until=c1"],
)
async def test_the_api_refuses_bad_parameters(query: str, api: Api) -> None:
    """Spec 8.1: the message names the field."""
    status, body = await api.get(f"/changes?{query}")
    assert (status, body["error"]["reason"]) == (422, Reason.BAD_REQUEST)
    assert query.partition("=")[0] in body["error"]["message"]


def test_the_command_shows_new_changes(database_url: str, tmp_path: Path, database: Database) -> None:
    """Spec 8.2."""
    asyncio.run(_fill(database_url))
    place = {"database_url": database_url, "data_dir": tmp_path}
    first = json.loads(
        headwater("new", "--since", "2026-03-01", "--limit", "2", "--json", cwd=tmp_path, **place).stdout
    )
    assert [change["url"] for change in first["changes"]] == [f"{HOST}/a", f"{HOST}/b"]
    shown = headwater("new", "--since", first["next"], cwd=tmp_path, **place).stdout
    assert "new        c: first" in shown
    assert f"{HOST}/c" in shown
    assert re.search(r"headwater new --since c\d+", shown)
    assert json.loads(headwater("new", "--json", cwd=tmp_path, **place).stdout)["changes"] == []
    refused = headwater("new", "--since", "tomorrow", cwd=tmp_path, **place)
    assert refused.returncode == 2
    assert "since:" in refused.stderr


def test_the_command_follows_new_changes(database_url: str, tmp_path: Path, database: Database) -> None:
    """Spec 8.2."""
    asyncio.run(_fill(database_url))
    place = {"database_url": database_url, "data_dir": tmp_path}
    with forked("new", "--since", "2026-03-01", "--follow", "--json", cwd=tmp_path, **place) as following:
        lines = [json.loads(following.stdout.readline()) for _ in range(3)]
        asyncio.run(_fill(database_url, text="second"))
        lines.append(json.loads(following.stdout.readline()))
    titles = [line["document"]["title"] for line in lines]
    assert titles == ["a: first", "b: first", "c: first", "a: second"]


async def _fill(database_url: str, text: str = "first") -> None:
    async with open_database(Settings(database_url=database_url)) as database:
        await write_all(database, "a", "b", "c", text=text)


async def test_a_reader_ahead_of_a_backup_misses_no_change_after_the_restore(
    database: Database, make_settings: Callable[..., Settings], tmp_path: Path, database_url: str
) -> None:
    """Spec 8.5, 9.1: a change that was unread at the time of the backup may come twice."""
    await write_all(database, "a")
    seen = (await read_all(ChangeFeed(database)))[-1].cursor
    await write_all(database, "b")
    (tmp_path / "data/corpus/news").mkdir(parents=True)
    await back_up(make_settings(), tmp_path / "backup")
    await write_all(database, *"cdef")
    ahead = (await read_all(ChangeFeed(database)))[-1].cursor
    async with new_database(database_url) as restored_url:
        elsewhere = make_settings(database_url=restored_url, data_dir=tmp_path / "elsewhere")
        await restore(elsewhere, tmp_path / "backup")
        async with open_database(elsewhere) as restored:
            feed = ChangeFeed(restored)
            assert names(await read_all(feed, await feed.find_start(seen))) == [("new", "b")]
            await write_all(restored, "c", text="otherwise")
            assert names(await read_all(feed, await feed.find_start(ahead))) == [("new", "b"), ("new", "c")]
