"""Search, through its doors (spec 4.4, 8.5, 11.10)."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.core.reasons import Reason
from headwater.core.search_words import CONFIGURATIONS, SIMPLE, join_words
from headwater.db import search
from headwater.db.pool import Connection, Database
from headwater.db.sql import query
from headwater.search.operations import Hits
from tests.harness import AppHarness
from tests.program import headwater, program_settings
from tests.refusals import refused
from tests.server import Answer, Site

HTML = {"Content-Type": "text/html; charset=utf-8"}
FILLER = {
    "en": "The council met on Tuesday evening and heard reports from several committees about the coming year. ",
    "de": "Der Gemeinderat tagte am Dienstagabend und hörte Berichte mehrerer Ausschüsse über das kommende Jahr. ",
    "fr": "Le conseil s'est réuni mardi soir et a entendu les rapports de plusieurs commissions sur l'année. ",
    "ru": "Совет собрался во вторник вечером и заслушал доклады нескольких комиссий. ",
    "zh": "市议会周二晚上开会、听取了几个委员会关于来年的报告、并讨论了许多其他问题。",
    "th": "สภาเทศบาลประชุมเมื่อคืนวันอังคารและรับฟังรายงานจากคณะกรรมการหลายชุดเกี่ยวกับปีหน้า ",
    "ar": "اجتمع المجلس مساء الثلاثاء واستمع إلى تقارير عدة لجان حول العام المقبل والميزانية الجديدة. ",
    "tlh": "wa' tera'ngan vIlegh ghaHvaD jIjatlh 'ej maSuvtaH Hoch jaj batlh maHeghjaj vaj yIvoq. ",
}


def write_page(language: str, title: str, text: str, byline: str = "", published: str = "2026-03-01") -> Answer:
    """Return a page with a title and a paragraph of its own."""
    paragraphs = "".join(
        f"<p>{part}</p>" for part in (FILLER[language] * 2, text + " " + FILLER[language], FILLER[language])
    )
    author = f'<meta name="author" content="{byline}">' if byline else ""
    return Answer(
        f'<html lang="{language}"><head><meta charset="utf-8"><title>{title}</title>{author}'
        f'<meta property="article:published_time" content="{published}T10:00:00Z"></head>'
        f"<body><article><h1>{title}</h1>{paragraphs}</article></body></html>",
        headers=HTML,
    )


PAGES = {
    "http://en.test/river": write_page(
        "en", "Rivers are rising", "Heavy rainfall flooded the old meadows.", "Ada Marlow"
    ),
    "http://en.test/budget": write_page("en", "Budget", "The river authority rose above its budget; state of the art."),
    "http://www.de.test/fluss": write_page("de", "Die Häuser am Fluß", "Die Wälder sind überflutet worden."),
    "http://fr.test/ete": write_page(
        "fr", "L'été des élections", "Les électeurs français ont protesté.", "Zoé Lefèvre"
    ),
    "http://ru.test/les": write_page("ru", "Лесные пожары", "Ёлки и зелёные леса сгорели."),
    "http://zh.test/1": write_page("zh", "新桥开通", "黄河流域的水位正在上升。", published="2026-02-01"),
    "http://th.test/1": write_page("th", "น้ำท่วม", "แม่น้ำเจ้าพระยามีระดับสูงขึ้น"),
    "http://ar.test/1": write_page("ar", "الانتخابات", "ارتفع منسوب النَّهْر في المدينة"),
    "http://tlh.test/1": write_page("tlh", "Qapla", "bIQtIq tIQ jenqu'."),
}


@pytest.fixture
async def filled(harness: AppHarness, site: Site) -> AppHarness:
    """Pages in eight languages."""
    site.answers.update(PAGES)
    await harness.fetch(*PAGES)
    assert set(await harness.documents()) == set(PAGES)
    return harness


def paths(found: Hits) -> set[str]:
    """Return the hosts and paths of hits."""
    return {hit.url.removeprefix("http://").removeprefix("www.") for hit in found.hits}


async def find(harness: AppHarness, words: str, **options: Any) -> set[str]:
    """Return the hosts and paths that a search finds."""
    return paths(await harness.operations.search.find(words, **options))


SEARCHES: Sequence[tuple[str, set[str]]] = [
    ("river", {"en.test/river", "en.test/budget"}),
    ("RIVERS rise", {"en.test/river"}),
    ("haus", {"de.test/fluss"}),
    ("fluss wald", {"de.test/fluss"}),
    ("uberflutet", {"de.test/fluss"}),
    ("ete", {"fr.test/ete"}),
    ("élection francais", {"fr.test/ete"}),
    ("l'été", {"fr.test/ete"}),
    ("елка зеленый", {"ru.test/les"}),
    ("黄河", {"zh.test/1"}),
    ("水位上升", set()),
    ("水位 上升", {"zh.test/1"}),
    ("水位正在上升", {"zh.test/1"}),
    ("桥", {"zh.test/1"}),
    ("升", {"zh.test/1"}),
    ("เจ้าพระยา", {"th.test/1"}),
    ("النهر", {"ar.test/1"}),
    ("bIQtIq", {"tlh.test/1"}),
    ("meadow -rainfall", set()),
    ("river -meadow", {"en.test/budget"}),
    ("-river site:en.test", set()),
    ("-meadow site:en.test", {"en.test/budget"}),
    ("meadow OR 黄河", {"en.test/river", "zh.test/1"}),
    ("meadow or wald or nothing", {"en.test/river", "de.test/fluss"}),
    ('"old meadows"', {"en.test/river"}),
    ('"meadows old"', set()),
    ('"state of the art"', {"en.test/budget"}),
    ('"state art"', set()),
    ("title:budget", {"en.test/budget"}),
    ("river title:budget", {"en.test/budget"}),
    ("river -title:budget", {"en.test/river"}),
    ('title:"am fluss"', {"de.test/fluss"}),
    ("marlow", {"en.test/river"}),
    ("lefevre", {"fr.test/ete"}),
    ("site:de.test", {"de.test/fluss"}),
    ("site:www.de.test", {"de.test/fluss"}),
    ("site:https://www.de.test/fluss", {"de.test/fluss"}),
    ("site:other.de.test", set()),
    ("site:de.test OR site:zh.test", {"de.test/fluss", "zh.test/1"}),
    ("lang:fr", {"fr.test/ete"}),
    ("lang:fr-FR lang:zh", {"fr.test/ete", "zh.test/1"}),
    ("river lang:de", set()),
    ("before:2026-02-02", {"zh.test/1"}),
    ("river after:2026-03-01", {"en.test/river", "en.test/budget"}),
    ("river before:2026-03-01", set()),
    ("site:test -site:en.test -lang:zh -lang:th -lang:ar -lang:ru -lang:tlh", {"de.test/fluss", "fr.test/ete"}),
]


@pytest.mark.both_servers
async def test_each_search_finds_the_documents_that_match(filled: AppHarness) -> None:
    """Spec 11.10: the language of each document, accents, pairs of characters, phrases, minus, or, and filters."""
    found = {words: await find(filled, words) for words, _ in SEARCHES}
    assert found == dict(SEARCHES)


ODD = [
    "\0",
    "zz & | ! ( : *",
    "'\"; DROP TABLE documents --",
    "🌊" * 100,
    '"',
    "-",
    "--",
    '-""',
    "site:",
    "site:/",
    "or",
    "OR OR",
]
ODD += [
    "lang:klingonisch river",
    "before:soon river",
    "title:... river",
    "source:nowhere",
    "category:/ river",
    "\ud800 x",
]
ODD += [
    "a" * 5000,
    "x " * 3000,
    '"' * 999,
    "-title:-",
    ":*",
    "'",
    "\\",
    "the",
    "\u0301",
    "中" * 900,
    "<b>",
    "%",
    "ﷺ" * 300,
]


async def test_odd_searches_find_nothing_and_never_fail(filled: AppHarness) -> None:
    """Spec 11.10."""
    found = {words: await find(filled, words) for words in ODD}
    assert {words: hits for words, hits in found.items() if hits} == {}


async def test_a_part_that_cannot_be_understood_has_a_note(filled: AppHarness) -> None:
    """Spec 11.10: a search never fails, and explains why it finds nothing."""
    found = await filled.operations.search.find("river before:soon lang:klingonisch")
    assert (found.hits, found.total, found.has_more) == ([], 0, False)
    assert [note.split(":")[0] for note in found.notes] == ["before", "lang"]
    unknown = await filled.operations.search.find("river source:nosuch category:none")
    assert (unknown.hits, [note.split(":")[0] for note in unknown.notes]) == ([], ["source", "category"])
    assert "nosuch" in unknown.notes[0]


async def test_titles_and_bylines_weigh_more_and_newer_documents_rank_first(harness: AppHarness, site: Site) -> None:
    """Issue 23: rank with recency."""
    answers = {
        "http://a.test/text": write_page("en", "Harbour", "A lighthouse was built."),
        "http://b.test/byline": write_page("en", "Market", "A pier was built.", "Lighthouse Keeper"),
        "http://c.test/title": write_page("en", "Lighthouse", "A pier was built."),
        "http://d.test/new": write_page("en", "Harbours", "A lighthouse was built.", published="2026-03-11"),
    }
    site.answers.update(answers)
    await harness.fetch(*answers)
    best = await harness.operations.search.find("lighthouse")
    assert [hit.url.rpartition("/")[2] for hit in best.hits] == ["title", "byline", "new", "text"]
    newest = await harness.operations.search.find("lighthouse", newest_first=True)
    assert newest.hits[0].url.endswith("/new")


async def test_matches_are_marked_in_the_title_and_in_the_text(filled: AppHarness) -> None:
    """Issue 23: a hit has text in parts, never HTML."""
    (hit,) = (await filled.operations.search.find("river meadow")).hits
    assert [(part.text, part.is_match) for part in hit.title_parts] == [("Rivers", True), (" are rising", False)]
    matches = [part.text for part in hit.snippet if part.is_match]
    assert matches == ["Rivers", "meadows"]  # the text begins with the title
    (hit,) = (await filled.operations.search.find("uberflutet")).hits
    assert [part.text for part in hit.snippet if part.is_match] == ["überflutet"]
    (hit,) = (await filled.operations.search.find("水位正在上升")).hits
    assert [part.text for part in hit.snippet if part.is_match] == ["水位正在上升"]


async def test_pages_of_hits_are_stable_while_documents_arrive(harness: AppHarness, site: Site) -> None:
    """Issue 23: paging by cursor gives each hit once."""
    first = {
        f"http://a.test/{number}": write_page("en", f"Ferry {number}", f"ferry number {number}") for number in range(9)
    }
    later = {f"http://b.test/{number}": write_page("en", f"Ferry ferry {number}", "ferry") for number in range(3)}
    site.answers.update(first | later)
    await harness.fetch(*first)
    for newest_first in (False, True):
        seen: list[str] = []
        cursor = None
        while True:
            page = await harness.operations.search.find("ferry", limit=4, cursor=cursor, newest_first=newest_first)
            seen += [hit.url for hit in page.hits]
            if cursor is None and newest_first:
                await harness.fetch(*later)
            if page.next is None:
                break
            cursor = page.next
        assert sorted(seen) == sorted(first)
    assert (await harness.operations.search.find("ferry")).total == 12


async def test_a_cursor_of_another_form_is_refused(filled: AppHarness) -> None:
    """Spec 8.1."""
    for cursor in ("", "x", "1_nan_1_1_2026-01-01T00:00:00Z", "1_0.5_0_1_2026-01-01T00:00:00Z", "1_0.5_1_1_2026-01-01"):
        with refused(Reason.BAD_REQUEST, "cursor"):
            await filled.operations.search.find("river", cursor=cursor)


async def test_a_document_that_changed_is_found_by_its_new_words_only(harness: AppHarness, site: Site) -> None:
    """Spec 4.4."""
    url = "http://a.test/1"
    version = "SELECT xmin::text FROM document_search"
    for text, ferries, trams, is_written in (("ferry", 1, 0, True), ("ferry", 1, 0, False), ("tram", 0, 1, True)):
        site.answers[url] = write_page("en", "Harbour", f"The {text} arrives.")
        before = await harness.rows(version)
        await harness.fetch(url)
        await harness.operations.frontier.retry([url])
        await harness.work()
        assert [len(await find(harness, word)) for word in ("ferry", "tram")] == [ferries, trams]
        assert (await harness.rows(version) != before) is is_written


class Recorder:
    """A connection that keeps the last query."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.execute = connection.execute

    async def fetch(self, statement: str, *arguments: object) -> list[Any]:
        self.last = statement, arguments
        return await self._connection.fetch(statement, *arguments)


@pytest.mark.both_servers
async def test_no_search_reads_a_whole_table(filled: AppHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 23: no statement without an index, also for searches with filters or exclusions only."""
    recorders: list[Recorder] = []
    real = search.search_documents

    async def record(connection: Connection, request: search.SearchRequest) -> tuple[int, list[search.Ranked]]:
        recorders.append(Recorder(connection))
        return await real(recorders[-1], request)  # type: ignore[arg-type]

    monkeypatch.setattr(search, "search_documents", record)
    await filled.execute(
        "SET session_replication_role = replica; "
        "INSERT INTO document_search SELECT 1000 + n, '2026-01-01Z'::timestamptz + n * interval '1 min', "
        "make_search_marks(1000 + n, 1, 'en', 'other.test'), '''#english'' filler', to_tsvector('filler river ' || n) "
        "|| '''#english''' FROM generate_series(1, 20000) n; "
        "RESET session_replication_role; ANALYZE"
    )
    for words, _ in [*SEARCHES, ("-river", set()), ("topic:x river", set()), ("-topic:x river", set())]:
        await find(filled, words)
    assert len(recorders) > len(SEARCHES)
    async with filled.runtime.context.database.connection() as connection, connection.transaction():
        await connection.execute(query("plan_for_search"))
        for recorder in recorders:
            statement, arguments = recorder.last
            plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {statement}", *arguments))
            assert "Seq Scan" not in plan, plan
            assert "document_search_words" in plan or "document_search_dated" in plan, plan


async def test_the_words_of_a_text_are_at_the_positions_that_they_have_in_the_index(database: Database) -> None:
    """Issue 23: highlights and phrases need it, in each script and with each server's parser."""
    text = join_words(" ".join(FILLER.values()) + " covid19 1e5 12e 0x1f 3x नमस्ते हिन्दी ελλάδα שלום 2026")
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT lexeme, p FROM unnest(to_tsvector('simple', $1)), unnest(positions) p ORDER BY p", text
        )
    assert [row["lexeme"] for row in rows] == text.split()


@pytest.mark.both_servers
async def test_every_configuration_of_the_server_is_used_by_a_language(database: Database) -> None:
    """Issue 23: all configurations that the server has, and `simple`."""
    async with database.connection() as connection:
        names = {row[0] for row in await connection.fetch("SELECT cfgname::text FROM pg_ts_config")}
    assert names <= {*CONFIGURATIONS.values(), SIMPLE}


async def test_a_search_on_the_command_line(filled: AppHarness, tmp_path: Path) -> None:
    """Spec 8.2: words, options, pages and `reindex`."""
    settings = program_settings(filled.runtime.context.settings)

    async def run(*words: str) -> Any:
        shown = await asyncio.to_thread(headwater, "search", *words, "--json", cwd=tmp_path, **settings)
        assert shown.returncode == 0, shown.stderr
        return json.loads(shown.stdout)

    first = await run("river", "--limit", "1")
    second = await run("river", "--limit", "1", "--cursor", first["next"])
    assert {hit["title"] for hit in first["hits"] + second["hits"]} == {"Rivers are rising", "Budget"}
    assert [hit["title"] for hit in (await run("--language", "de", "haus"))["hits"]] == ["Die Häuser am Fluß"]
    assert (await run("reindex")) == {"documents": len(PAGES), "changed": 0, "index": None}
    assert (await run("find", "reindex"))["total"] == 0


async def test_search_is_derived_from_documents(filled: AppHarness) -> None:
    """Spec 5: a reindex of a right index changes nothing, and one of a wrong or missing index makes it right."""
    rows = "SELECT document_id, dated_at, marks, titles::text, words::text FROM document_search ORDER BY 1"
    right = await filled.rows(rows)
    assert (await filled.operations.search.reindex()).changed == 0
    await filled.execute("DELETE FROM document_search WHERE document_id % 2 = 0")
    await filled.execute("UPDATE document_search SET words = ''")
    await filled.execute("UPDATE search_state SET version = 0")
    done = await filled.operations.search.reindex()
    assert (done.documents, done.changed) == (len(PAGES), len(PAGES))
    assert await filled.rows(rows) == right
    assert await filled.rows("SELECT version FROM search_state") == [(1,)]


@pytest.mark.both_servers
async def test_a_language_whose_stems_the_server_does_not_know_is_searched_as_it_is_written(
    harness: AppHarness, site: Site
) -> None:
    """Issue 23: PostgreSQL 15 has no Estonian."""
    site.answers["http://et.test/1"] = Answer(
        write_page("en", "Talvine laat", "Turg avatakse varahommikul").body.replace('lang="en"', 'lang="et"'),
        headers=HTML,
    )
    await harness.fetch("http://et.test/1")
    assert await find(harness, "varahommikul lang:et") == {"et.test/1"}
    assert await find(harness, "varahommikul") == {"et.test/1"}
