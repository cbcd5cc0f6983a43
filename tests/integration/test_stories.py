"""Stories: documents about one event, derived from the documents alone (issue 23)."""

import json
import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.stories.builder import StoryBuilder
from headwater.stories.operations import Story
from tests.api import TOKEN, open_api
from tests.harness import AppHarness, open_harness
from tests.program import headwater, program_settings
from tests.server import Answer, Site, page
from tests.stored_rows import NOON, write

pytestmark = pytest.mark.both_servers

REPORT = (
    "The Severn bridge at Upton was closed on Tuesday after engineers found cracks in two of its eleven piers. "
    "Worcestershire county council said that 14,000 vehicles a day must take the detour through Ripple. "
    "Divers will examine the piers on Thursday, and councillor Amanda Kettering expects repairs to take until June. "
    "The bridge was opened in 1940 and was last repaired after the floods of 2007."
)
OTHER_REPORT = (
    "Cracks in the piers have shut the bridge over the Severn in Upton, and drivers face a detour by way of Ripple. "
    "Amanda Kettering of Worcestershire county council told residents that divers would look at the piers on Thursday. "
    "Shopkeepers in Upton fear for their trade: the road carries 14,000 vehicles each day."
)
ELSEWHERE = (
    "The ferry port at Heysham was closed on Tuesday after inspectors found rust in two of its seven ramps. "
    "Lancashire county council said that 900 lorries a day must take the detour through Birkenhead. "
    "Welders will examine the ramps on Friday, and councillor Brian Ollerton expects repairs to take until May. "
    "The port was opened in 1904 and was last repaired after the storms of 2014."
)


async def store(
    harness: AppHarness,
    name: str,
    text: str,
    *,
    host: str = "",
    title: str = "",
    hours: float = 0.0,
    dated: bool = True,
) -> int:
    """Store a document, put it into stories, and return its id."""
    host = host or f"{name}.test"
    at = NOON + timedelta(hours=hours)
    fields = {"title": title or f"Upton bridge closed: {name}", "published_at": at if dated else None}
    async with harness.runtime.context.database.connection() as connection, connection.transaction():
        await write(connection, name, text, at, host, **fields)
        await connection.execute(
            "UPDATE url_frontier SET status = 'fetched', reason = 'fetched' WHERE url = $1", f"http://{host}/{name}"
        )
    await follow(harness)
    ((found,),) = await harness.rows(
        "SELECT d.id FROM documents d JOIN url_frontier u ON u.id = d.url_id WHERE u.url = $1", f"http://{host}/{name}"
    )
    return int(found)


async def follow(harness: AppHarness) -> None:
    """Follow all changes."""
    builder = StoryBuilder(harness.runtime.context)
    while await builder.step():
        pass


async def stories(harness: AppHarness) -> list[tuple[object, ...]]:
    """Return the place of each document."""
    return await harness.rows("SELECT document_id, story_id, links FROM story_documents ORDER BY document_id")


async def ids(harness: AppHarness, document_id: int) -> list[int]:
    """Return the documents of the story of a document, the oldest first."""
    return [one.id for one in (await harness.operations.stories.get(document_id)).documents]


async def test_a_backup_that_has_begun_keeps_the_stories_that_are_made_again(harness: AppHarness) -> None:
    """Spec 9.1: it reads one consistent state."""
    await store(harness, "herald", REPORT)
    async with harness.runtime.context.database.connection() as backup, backup.transaction(isolation="repeatable_read"):
        before = await backup.fetch("SELECT * FROM story_documents")
        await StoryBuilder(harness.runtime.context).begin_again()
        assert await backup.fetch("SELECT * FROM story_documents") == before != []


async def test_a_copy_and_a_report_of_one_event_join_one_story(harness: AppHarness) -> None:
    first = await store(harness, "herald", REPORT)
    copy = await store(harness, "mirror", REPORT + " This report came from an agency.", hours=2)
    report = await store(harness, "gazette", OTHER_REPORT, title="Severn crossing at Upton shut over cracks", hours=5)
    elsewhere = await store(harness, "lancashire", ELSEWHERE, title="Heysham port closed", hours=6)
    assert await ids(harness, report) == [first, copy, report]
    assert await ids(harness, elsewhere) == [elsewhere]


async def test_a_story_shows_who_was_first_and_who_copied_how_much(harness: AppHarness) -> None:
    """The oldest document is first, also if it was stored last."""
    copy = await store(harness, "mirror", f"{REPORT} {ELSEWHERE}", hours=3)
    report = await store(harness, "gazette", OTHER_REPORT, title="Severn crossing at Upton shut over cracks", hours=5)
    first = await store(harness, "herald", REPORT)
    story = await harness.operations.stories.get(report)
    assert (story.id, story.title) == (copy, "Upton bridge closed: herald")
    assert [(one.id, one.copied_from) for one in story.documents] == [(first, None), (copy, first), (report, None)]
    assert story.documents[1].copied == pytest.approx(0.5, abs=0.08)


async def test_a_report_without_a_date_or_of_another_week_or_of_the_same_site_is_no_part(harness: AppHarness) -> None:
    first = await store(harness, "herald", REPORT)
    titled = {"title": "Severn crossing at Upton shut over cracks"}
    undated = await store(harness, "undated", OTHER_REPORT, **titled, dated=False)
    later = await store(harness, "later", OTHER_REPORT + " More is to follow.", **titled, hours=24 * 8)
    series = await store(harness, "series", OTHER_REPORT + " One more.", **titled, host="herald.test", hours=1)
    assert [row[:2] for row in await stories(harness)] == [
        (first, first),
        (undated, undated),
        (later, undated),  # a copy may be of any age
        (series, undated),
    ]


async def test_the_same_words_with_other_numbers_on_one_site_are_another_story(harness: AppHarness) -> None:
    first = await store(harness, "one", REPORT, host="herald.test", title="Road report number 41")
    second = await store(
        harness, "two", REPORT + " See also page nine.", host="herald.test", title="Road report number 42"
    )
    assert await ids(harness, first) == [first]
    assert await ids(harness, second) == [second]


async def test_chinese_copies_join_one_story(harness: AppHarness) -> None:
    """Texts without spaces are compared by characters."""
    text = (
        "周二,工程师在大桥的两个桥墩上发现裂缝,大桥随即关闭。市政府表示,每天有一万四千辆汽车必须绕行。"
        "潜水员将于周四检查桥墩,预计维修将持续到六月。"
    )
    first = await store(harness, "one", text, title="大桥因裂缝关闭")
    second = await store(harness, "two", "本报讯:" + text, title="裂缝迫使大桥关闭", hours=1)
    assert await ids(harness, second) == [first, second]


async def test_a_diff_shows_what_an_edition_changed(harness: AppHarness) -> None:
    first = await store(harness, "herald", REPORT)
    copy = await store(
        harness, "mirror", REPORT.replace("14,000", "15,000"), title="Upton bridge closed: herald", hours=1
    )
    found = await harness.operations.stories.diff(copy)
    assert (found.before.id, found.after.id, found.changed) == (first, copy, 1)
    pieces = [(piece.kind, piece.text.strip()) for piece in found.changes[0].pieces if piece.kind != "same"]
    assert pieces == [("removed", "14,000"), ("added", "15,000")]
    with pytest.raises(HeadwaterError) as refused:
        await harness.operations.stories.diff(copy, 99)
    assert refused.value.reason is Reason.UNKNOWN_DOCUMENT


async def test_a_deleted_document_leaves_its_story_and_its_keys(harness: AppHarness) -> None:
    """The signature and the keys of a deleted document are deleted, too (spec 8.5)."""
    first = await store(harness, "herald", REPORT)
    copy = await store(harness, "mirror", REPORT + " This report came from an agency.", hours=2)
    third = await store(harness, "third", REPORT + " This report came from another agency.", hours=3)
    await harness.operations.documents.delete(first)
    await follow(harness)
    assert await ids(harness, third) == [copy, third]
    with pytest.raises(HeadwaterError) as refused:
        await harness.operations.stories.get(first)
    assert refused.value.reason is Reason.UNKNOWN_DOCUMENT
    assert await harness.rows("SELECT 1 FROM story_keys WHERE document_id = $1", first) == []
    assert (await harness.operations.stories.verify()).is_right


async def test_a_changed_document_moves_to_another_story_with_those_that_joined_it(harness: AppHarness) -> None:
    first = await store(harness, "herald", REPORT)
    other = await store(harness, "lancashire", ELSEWHERE, title="Heysham port closed")
    assert await ids(harness, first) == [first]
    await store(harness, "herald", ELSEWHERE + " So it was reported.", title="Heysham port closed")
    assert await ids(harness, first) == [first, other]
    assert (await harness.operations.stories.verify()).is_right


@pytest.mark.parametrize("seed", range(4))
async def test_stories_are_the_same_when_they_are_made_again(harness: AppHarness, seed: int) -> None:
    """After any documents, changes and deletions in any order, the documents alone give the same stories."""
    chance = random.Random(seed)
    texts = [REPORT, OTHER_REPORT, ELSEWHERE, f"{ELSEWHERE} {REPORT}"]
    alive: dict[str, int] = {}
    for number in range(30):
        deed = chance.random()
        if deed < 0.2 and alive:
            await harness.operations.documents.delete(alive.pop(chance.choice(sorted(alive))))
            continue
        name = chance.choice(sorted(alive)) if deed < 0.4 and alive else f"site{number}"
        words = chance.choice(texts).split()
        start = chance.randrange(12)
        text = " ".join(words[start:]) + chance.choice(["", " More is to follow.", f" Note {number}."])
        title = chance.choice(
            ["Upton bridge closed", "Severn crossing at Upton shut over cracks", "Heysham port closed"]
        )
        alive[name] = await store(harness, name, text, title=title, hours=chance.randrange(100))
    await follow(harness)
    before = await stories(harness)
    assert {row[0] for row in before} == set(alive.values())
    assert any(row[2] for row in before)
    assert (await harness.operations.stories.verify()).is_right
    await harness.operations.stories.rebuild()
    assert await stories(harness) == before


async def test_verify_finds_each_fault(harness: AppHarness) -> None:
    first = await store(harness, "herald", REPORT)
    copy = await store(harness, "mirror", REPORT + " This report came from an agency.", hours=2)
    third = await store(harness, "third", REPORT + " This report came from another agency.", hours=3)
    await harness.execute(
        "UPDATE story_documents SET links = '{}', story_id = document_id WHERE document_id = $1",
        copy,
    )
    await harness.execute(
        "UPDATE story_documents SET signature = (SELECT signature FROM story_documents WHERE document_id = $1) "
        "WHERE document_id = $2",
        copy,
        first,
    )
    await harness.execute("UPDATE story_documents SET document_id = 999 WHERE document_id = $1", third)
    await harness.execute("DELETE FROM story_keys WHERE document_id = $1", third)
    found = await harness.operations.stories.verify()
    assert [(one.document_id, one.fault) for one in found.faults] == [
        (first, "signature"),
        (copy, "links"),
        (third, "missing"),
        (999, "surplus"),
    ]
    assert found.keys_differ
    await harness.operations.stories.rebuild()
    assert (await harness.operations.stories.verify()).is_right


async def test_another_version_of_the_signatures_makes_all_stories_again(harness: AppHarness) -> None:
    first = await store(harness, "herald", REPORT)
    await harness.execute("UPDATE story_state SET version = 0")
    await harness.execute("UPDATE story_documents SET signature = ''")
    await follow(harness)
    assert await ids(harness, first) == [first]
    assert (await harness.operations.stories.verify()).is_right


async def test_only_one_process_changes_stories(harness: AppHarness) -> None:
    """A second process does nothing while a first one works, and a step that is rolled back is made again."""
    builder = StoryBuilder(harness.runtime.context)
    await store(harness, "herald", REPORT)
    async with harness.runtime.context.database.connection() as connection, connection.transaction():
        await write(connection, "mirror", REPORT, NOON, "mirror.test")
    async with harness.runtime.context.database.connection() as connection, connection.transaction():
        await connection.execute("SELECT FROM story_state FOR UPDATE")
        assert await builder.step() == 0
    assert await harness.operations.stories.count_waiting() == 1
    assert b'headwater_story_changes{status="waiting"} 1.0' in await harness.operations.measure()
    assert await builder.step() == 1
    assert [row[1] for row in await stories(harness)] == [1, 1]
    assert await harness.operations.stories.count_waiting() == 0


async def test_all_doors_show_the_same_story(make_settings: Callable[..., Settings], tmp_path: Path) -> None:
    settings = make_settings(api_token=TOKEN)
    async with open_harness(settings) as harness:
        first = await store(harness, "herald", REPORT)
        copy = await store(harness, "mirror", REPORT + " This report came from an agency.", hours=2)
        alone = await store(harness, "lancashire", ELSEWHERE, title="Heysham port closed", hours=6)
        expected = await harness.operations.stories.get(copy)
    async with open_api(settings) as api:
        status, story = await api.get(f"/stories/{copy}")
        assert (status, msgspec.convert(story, Story)) == (200, expected)
        _, listed = await api.get("/stories")
        assert [(one["id"], one["documents"], one["last_document"]) for one in listed["stories"]] == [(first, 2, copy)]
        _, found = await api.get(f"/stories/of?id={first}&id={copy}&id={alone}")
        assert [(one["document_id"], one["story_id"]) for one in found["stories"]] == [(first, first), (copy, first)]
        assert (await api.get(f"/stories/{copy}/diff"))[1]["before"]["id"] == first
        assert (await api.get("/stories/99"))[0] == 404
    run = partial(headwater, cwd=tmp_path, **program_settings(settings))
    assert msgspec.json.decode(run("story", "show", str(copy), "--json").stdout, type=Story) == expected
    assert [one["id"] for one in json.loads(run("story", "list", "--json").stdout)["stories"]] == [first]
    assert f"+ document {copy} of news" in run("story", "diff", str(copy)).stdout
    assert json.loads(run("story", "rebuild", "--json").stdout) == {"changes": 3}
    assert run("story", "verify").returncode == 0


async def test_search_shows_a_story_once_on_the_command_line(
    site: Site, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    """The line names the document that it replaces, and the command that shows the story."""
    settings = make_settings(connect_to=site.connect_to)
    for host in ("herald", "mirror"):
        site.answers[f"http://{host}.test/a"] = Answer(page("flood barrier"), headers={"Content-Type": "text/html"})
    async with open_harness(settings) as harness:
        await harness.fetch("http://herald.test/a", "http://mirror.test/a")
        await follow(harness)
        documents = [one.id for one in (await harness.documents()).values()]
    shown = headwater("search", "barrier", cwd=tmp_path, **program_settings(settings)).stdout
    assert "2 documents match" in shown
    assert shown.count("http://") == 1
    assert "1 other document about this story, here " in shown
    assert f"headwater story show {min(documents)}" in shown
