"""The changes of a document, by the command and by the API (spec 4.4, 8.2)."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.settings import Settings
from tests.api import Api
from tests.harness import open_harness
from tests.program import headwater
from tests.server import Answer, Site, page

URL = "http://news.test/a"
HTML = {"Content-Type": "text/html; charset=utf-8"}
NOTE = "<p>Correction: an earlier version of this report named the wrong council, for which we apologise.</p>"


@pytest.fixture
async def api_settings(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with a document of three revisions, and one of one."""
    bodies = [
        page("flood defences"),
        page("flood defences", extra=NOTE),
        page("flood defences", extra=NOTE).replace("Paragraph 3 of", "Paragraph three of"),
    ]
    site.answers[URL] = [Answer(body, headers=HTML) for body in bodies]
    site.answers["http://news.test/b"] = Answer(page("library hours"), headers=HTML)
    settings = make_settings(connect_to=site.connect_to)
    async with open_harness(settings) as harness:
        await harness.fetch(URL, "http://news.test/b")
        for _ in bodies[1:]:
            await harness.operations.frontier.retry([URL])
            await harness.work()
        assert (await harness.documents())[URL].revision == 3
        await harness.execute("UPDATE document_revisions SET title = 'Floods' WHERE revision = 2")
    return settings


async def test_the_api_compares_revisions(api: Api) -> None:
    _, found = await api.get("/documents")
    number = next(row["id"] for row in found["documents"] if row["url"] == URL)
    status, last = await api.get(f"/documents/{number}/diff")
    assert status == 200
    assert (last["before"], last["after"], last["last"]) == (2, 3, 3)
    assert (last["added"], last["removed"], last["changed"]) == (0, 0, 1)
    (change,) = last["changes"]
    assert [piece for piece in change["pieces"] if piece["kind"] != "same"] == [
        {"kind": "removed", "text": " 3"},
        {"kind": "added", "text": " three"},
    ]
    _, first = await api.get(f"/documents/{number}/diff?from=1&to=2")
    assert first["before_came_at"] == first["before_fetched_at"] < first["after_came_at"] == last["before_came_at"]
    _, whole = await api.get(f"/documents/{number}/diff?from=1&to=3")
    assert (whole["added"], whole["changed"]) == (1, 1)
    assert any("Correction" in piece["text"] for change in whole["changes"] for piece in change["pieces"])
    _, back = await api.get(f"/documents/{number}/diff?from=3&to=1")
    assert (back["removed"], back["changed"]) == (1, 1)
    _, same = await api.get(f"/documents/{number}/diff?from=2&to=2")
    assert same["summary"] == ["Nothing has changed."]


async def test_a_revision_came_when_its_text_was_first_fetched(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    bodies = [page("flood defences"), *[page("flood defences", extra=NOTE)] * 2]
    site.answers[URL] = [Answer(body, headers=HTML) for body in bodies]
    async with open_harness(make_settings(connect_to=site.connect_to)) as harness:
        await harness.fetch(URL)
        for _ in bodies[1:]:
            await harness.operations.frontier.retry([URL])
            await harness.work()
        found = await harness.operations.documents.diff(await harness.operations.documents.find(URL))
    assert found.before_came_at < found.after_came_at < found.after_fetched_at


async def test_an_impossible_comparison_is_refused(api: Api) -> None:
    for path, status, reason in [
        ("/documents/1/diff?to=9", 404, "unknown_revision"),
        ("/documents/1/diff?to=1", 404, "unknown_revision"),
        ("/documents/1/diff?from=99999999999999999999", 404, "unknown_revision"),
        ("/documents/77/diff", 404, "unknown_document"),
        ("/documents/99999999999999999999/diff", 404, "unknown_document"),
        ("/documents/1/diff?from=0", 422, "bad_request"),
        ("/documents/1/diff?since=1", 422, "bad_request"),
    ]:
        answered, body = await api.get(path)
        assert (answered, body["error"]["reason"]) == (status, reason)


async def test_the_command_compares_revisions(api_settings: Settings, tmp_path: Path) -> None:
    words = {"database_url": api_settings.database_url, "data_dir": api_settings.data_dir}

    def run(*arguments: str) -> tuple[int, str]:
        ended = headwater("diff", *arguments, cwd=tmp_path, **words)
        return ended.returncode, ended.stdout + ended.stderr

    loop = asyncio.get_running_loop()
    code, said = await loop.run_in_executor(None, run, URL)
    assert code == 0
    assert "The title changed from “Floods” to “flood defences”." in said
    assert "1 paragraph was changed; " in said
    assert "Paragraph [-3-]{+three+} of" in said
    code, said = await loop.run_in_executor(None, run, "1", "--from", "1", "--json")
    told = json.loads(said)
    assert (code, told["before"], told["after"], told["added"]) == (0, 1, 3, 1)
    assert told["changes"][0]["pieces"][0]["kind"] == "same"
    code, said = await loop.run_in_executor(None, run, "http://news.test/b")
    assert (code, "one revision only" in said) == (0, True)
    for wrong, named in (
        (("1", "--to", "9"), "no revision 9; its last is 3."),
        (("1", "--to", "1"), "Revision 1 is the first of document 1"),
        (("1", "--to", "99999999999999999999"), "no revision 99999999999999999999;"),
        (("55",), "There is no document 55."),
        (("9223372036854775808",), "There is no document 9223372036854775808."),
        (("9" * 5000,), "no document with an id of 5,000 digits."),
        (("http://news.test/none",), "no document of http://news.test/none."),
        (("nonsense",), "no scheme"),
        (("1.5",), "1.5 is not the id of a document"),
    ):
        code, said = await loop.run_in_executor(None, run, *wrong)
        assert code == 2, said
        assert named in said
        assert said.startswith("headwater: ")
        assert len(said.splitlines()) == 1
