"""The HTTP API, served for real (spec 6.7, 8.1)."""

import json
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from fastapi import FastAPI

from headwater.api import make_app
from headwater.app.operations import Operations
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from tests.api import TOKEN, Api, open_api
from tests.faults.database import own_server
from tests.harness import open_harness
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"


@pytest.fixture
async def api_settings(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database that holds two documents."""
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b")
    for name in ("a", "b"):
        site.answers[f"http://news.test/{name}"] = Answer(page(f"river {name}"), headers={"Content-Type": "text/html"})
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        await harness.operations.sources.add(FEED)
        await harness.work()
    return settings


async def test_health_and_readiness_are_reported(api: Api) -> None:
    """Spec 6.7."""
    assert (await api.get("/health?beat=7"))[1]["status"] == "ok"
    assert (await api.get("/ready"))[1]["status"] == "ready"


async def test_metrics_are_in_the_format_prometheus_reads(api: Api) -> None:
    """Spec 8.1."""
    async with api.session.get(api.base + "/metrics") as response:
        assert response.content_type == "text/plain"
        assert "headwater_fetches" in await response.text()


async def test_an_outage_of_the_database_is_a_503_and_a_line_in_the_log(
    tmp_path: Path, make_settings: Callable[..., Settings], caplog: pytest.LogCaptureFixture
) -> None:
    """Spec 8.1: no stack trace for what is no fault of the program."""
    with own_server(tmp_path / "database") as server:
        settings = make_settings(database_url=server.url)
        async with open_harness(settings):
            pass
        async with open_api(settings) as api:
            assert (await api.get("/jobs"))[0] == 200
            await server.end(signal.SIGINT)
            with structlog.testing.capture_logs() as logs:
                status, answer = await api.get("/jobs")
                await api.get("/feeds/secret/abcdef.atom")
            await server.start_again()
    assert (status, answer["error"]["reason"]) == (503, Reason.DATABASE_UNREACHABLE)
    assert [entry["path"] for entry in logs if entry["event"] == "api.database_away"] == ["/jobs", "/feeds/secret"]
    assert "Exception in ASGI application" not in caplog.text


async def test_documents_are_listed_by_pages_and_shown_whole(api: Api) -> None:
    _, first = await api.get("/documents?limit=1")
    _, second = await api.get("/documents", params={"limit": 1, "before": first["next"]})
    _, rest = await api.get("/documents", params={"limit": 1, "before": second["next"]})
    urls = {line["url"] for listed in (first, second) for line in listed["documents"]}
    assert urls == {"http://news.test/a", "http://news.test/b"}
    assert rest == {"documents": [], "next": None}
    status, document = await api.get(f"/documents/{first['documents'][0]['id']}")
    assert status == 200
    assert "river" in document["text"]
    assert len(document["raw_hash"]) == 64


async def test_a_document_is_shown_as_markdown_while_its_raw_file_exists(api: Api, api_settings: Settings) -> None:
    """Issue 8: it is made from the raw file."""
    _, listed = await api.get("/documents?limit=1")
    _, document = await api.get(f"/documents/{listed['documents'][0]['id']}")
    path = f"/documents/{document['id']}/markdown"
    async with api.session.get(api.base + path) as response:
        assert (response.status, response.content_type) == (200, "text/markdown")
        assert (await response.text()).startswith(f"The report on {document['title']} was")
    (api_settings.data_dir / "corpus" / document["raw_path"]).write_bytes(b"another")
    status, answer = await api.get(path)
    assert (status, answer["error"]["reason"]) == (500, Reason.STORAGE)
    status, answer = await api.get("/documents/999999/markdown")
    assert (status, answer["error"]["reason"]) == (404, Reason.UNKNOWN_DOCUMENT)


async def test_only_one_request_makes_markdown_and_others_get_503_with_retry_after(
    api_settings: Settings,
) -> None:
    """Spec 4.3, 8.1: readers must not take the sandbox from the crawl."""
    made: list[Operations] = []

    def make(operations: Operations) -> FastAPI:
        made.append(operations)
        return make_app(operations)

    async with open_api(api_settings, make) as api:
        _, listed = await api.get("/documents?limit=1")
        path = f"/documents/{listed['documents'][0]['id']}/markdown"
        (operations,) = made
        operations.documents.markdown_wait_seconds = 0.01
        async with operations.documents.markdown_lock, api.session.get(api.base + path) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "5")
            assert (await response.json())["error"]["reason"] == Reason.BUSY
        operations.documents.markdown_wait_seconds = 60
        async with api.session.get(api.base + path) as one, api.session.get(api.base + path) as other:
            assert (one.status, other.status) == (200, 200)


async def test_markdown_that_takes_too_long_is_a_server_error(api_settings: Settings) -> None:
    """Spec 8.1."""
    async with open_api(replace(api_settings, sandbox_timeout_seconds=0.000001)) as api:
        _, listed = await api.get("/documents?limit=1")
        status, answer = await api.get(f"/documents/{listed['documents'][0]['id']}/markdown")
    assert (status, answer["error"]["reason"]) == (500, Reason.SANDBOX_TIMEOUT)


async def test_search_and_day_routes_return_the_documents(api: Api) -> None:
    _, found = await api.get("/search", params={"q": "river"})
    assert len(found["hits"]) == 2
    _, day = await api.get("/daily/2026-03-12")
    assert [item["bucket"] for item in day["items"]] == ["NEW", "NEW"]
    assert (await api.get("/daily/today"))[0] == 200
    _, listed = await api.get("/sources")
    assert listed["sources"][0]["documents"] == 2


async def test_every_error_has_the_same_shape(api: Api) -> None:
    """Spec 8.1."""
    for path, status, reason in [
        ("/nothing", 404, Reason.UNKNOWN_PATH),
        ("/documents/999999", 404, Reason.UNKNOWN_DOCUMENT),
        ("/documents/99999999999999999999", 404, Reason.UNKNOWN_DOCUMENT),
        ("/documents/abc", 404, Reason.UNKNOWN_PATH),
        ("/documents?limit=0", 422, Reason.BAD_REQUEST),
        ("/documents?limit=100000", 422, Reason.BAD_REQUEST),
        ("/documents?before=yesterday", 422, Reason.BAD_REQUEST),
        ("/documents?before=2026-01-01T00:00:00%2B00:00_99999999999999999999", 422, Reason.BAD_REQUEST),
        ("/documents?sauce=x", 422, Reason.BAD_REQUEST),
        ("/frontier/urls?state=dead", 422, Reason.BAD_REQUEST),
        ("/daily/today?colour=x", 422, Reason.BAD_REQUEST),
        ("/daily/today?source=x", 404, Reason.UNKNOWN_SOURCE),
        ("/search", 422, Reason.BAD_REQUEST),
        ("/search?q=", 422, Reason.BAD_REQUEST),
        ("/daily/yesterday", 422, Reason.BAD_REQUEST),
    ]:
        answered, body = await api.get(path)
        assert answered == status
        assert set(body) == {"error"}
        assert body["error"]["reason"] == reason
        assert body["error"]["message"]


async def test_a_search_without_results_is_no_error(api: Api) -> None:
    for words in ["\0", "a & | ! ( : *", "'\"; DROP TABLE documents --", "🌊" * 100]:
        assert (await api.get("/search", params={"q": words}))[0] == 200


async def test_a_write_needs_the_token(api: Api) -> None:
    """Spec 8.1."""
    for token in (None, "wrong", ""):
        status, body = await api.post("/sources", {"url": FEED}, token)
        assert (status, body["error"]["reason"]) == (401, Reason.TOKEN_REQUIRED)
    status, body = await api.post("/sources", {"url": FEED})
    assert (status, body["error"]["reason"]) == (409, Reason.SOURCE_EXISTS)


async def test_a_source_is_added_and_polled(api: Api, site: Site) -> None:
    site.answers["http://else.test/feed"] = rss("http://else.test/1", "ftp://else.test/2", title="Elsewhere")
    status, body = await api.post("/sources", {"url": "http://else.test/feed", "settings": {"priority": 9}})
    assert status == 201
    assert (body["name"], body["title"], body["items"]) == ("else.test", "Elsewhere", 1)
    status, body = await api.post(
        "/sources", {"url": "http://else.test/x", "settings": {"feed_url": FEED}, "name": "b"}
    )
    assert (status, body["error"]["reason"]) == (422, Reason.NOT_FOUND)
    status, body = await api.post("/sources", {"url": "http://else.test/none", "name": "other"})
    assert (status, body["error"]["reason"]) == (422, Reason.NOT_FOUND)


async def test_openapi_lists_the_routes(api: Api) -> None:
    _, described = await api.get("/openapi.json")
    assert {"/health", "/ready", "/documents", "/search", "/sources"} <= set(described["paths"])


async def test_openapi_requires_each_field_of_an_answer(api: Api) -> None:
    """Spec 8.1: an answer has all fields, so a generated client needs no check for a missing one."""
    _, described = await api.get("/openapi.json")
    schemas = described["components"]["schemas"]
    answers = "#/components/schemas/([A-Za-z-]+)"
    waiting = [
        name
        for path in described["paths"].values()
        for call in path.values()
        for name in re.findall(answers, json.dumps(call["responses"]))
    ]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += re.findall(answers, json.dumps(schemas[name]))
    assert {"DocumentPage", "ErrorBody"} <= seen
    for name in seen:
        assert {*schemas[name].get("properties", ())} == {*schemas[name].get("required", ())}, name
