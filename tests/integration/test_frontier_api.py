"""The frontier over HTTP, served for real (issue 4; spec 2.1-2.3, 3.6, 4.4, 8.1)."""

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.frontier import operations, retry
from tests.api import TOKEN, Api
from tests.harness import AppHarness, open_harness
from tests.integration.test_frontier_doors import REFUSED
from tests.server import Answer, Site, page


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    async with open_harness(make_settings(connect_to=site.connect_to, api_token=TOKEN)) as opened:
        yield opened


@pytest.fixture
def api_settings(harness: AppHarness) -> Settings:
    """The API runs next to the harness, on its database."""
    return harness.runtime.context.settings


async def test_a_batch_returns_a_result_for_each_url(api: Api) -> None:
    """Spec 2.1, 3.6: an unusable URL is refused with the reason, and the answer lists all results."""
    good = ["http://a.test/1", "HTTP://a.TEST/1#top", "http://a.test/2"]
    status, body = await api.post("/frontier/urls", {"urls": [*good, *REFUSED, "", "http://a.test/\ud800"]})
    assert status == 200
    assert [named["url"] for named in body["new"]] == ["http://a.test/1", "http://a.test/2"]
    assert body["known"] == [{"given": "HTTP://a.TEST/1#top", "url": "http://a.test/1"}]
    for refused, word in zip(body["refused"], [*REFUSED.values(), "empty", "UTF-8"], strict=True):
        assert word in refused["why"]
    assert "hunter2" not in str(body)
    status, body = await api.post("/frontier/urls", {"urls": ["javascript:x"]})
    assert (status, len(body["refused"])) == (200, 1)
    status, body = await api.post("/frontier/urls", {"urls": ["http://a.test/3"], "priority": 9})
    assert (status, len(body["new"]), body["has_fetcher"]) == (200, 1, False)
    _, listed = await api.get("/frontier/urls")
    assert [line["priority"] for line in listed["urls"]] == [5, 5, 9]
    assert (await api.post("/frontier/urls", {"urls": ["http://a.test/4"], "priority": 11}))[0] == 422


async def test_a_malformed_batch_is_refused_whole(api: Api) -> None:
    """Spec 8.1."""
    for body in [
        {},
        [],
        {"urls": []},
        {"urls": "http://a.test/"},
        {"urls": [1]},
        {"urls": ["http://a.test/"], "sauce": "x"},
        {"urls": ["http://a.test/"] * 10_001},
    ]:
        status, answer = await api.post("/frontier/urls", body)
        assert (status, answer["error"]["reason"]) == (422, Reason.BAD_REQUEST)
        assert (await api.get("/frontier/urls"))[1]["urls"] == []


async def test_ten_thousand_urls_fit_into_one_batch(api: Api) -> None:
    """Spec 3.6: URLs of usual length fit. A larger body is refused before it is read."""
    long = "x" * 170
    urls = [f"http://a.test/{long}/{number}" for number in range(10_000)]
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    body = io.BytesIO(json.dumps({"urls": urls}).encode())
    async with api.session.post(api.base + "/frontier/urls", data=body, headers=headers) as response:
        assert (response.status, len((await response.json())["new"])) == (200, 10_000)
    answer = await ask(api, "/frontier/urls", "Content-Length: 8388609")
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"8388608" in answer


async def ask(api: Api, path: str, *headers: str) -> bytes:
    """Send the head of a request that writes, and nothing after it."""
    reader, writer = await asyncio.open_connection(*api.base.removeprefix("http://").split(":"))
    head = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {TOKEN}", "Connection: close")
    writer.write("\r\n".join([*head, *headers, "", ""]).encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_change_of_the_frontier_needs_the_token(api: Api) -> None:
    """Spec 8.1."""
    for path, body in (
        ("/frontier/urls", {"urls": ["http://a.test/"]}),
        ("/frontier/retry", {"filter": {"status": "dead"}}),
        ("/frontier/hosts/a.test/block", {}),
        ("/frontier/hosts/a.test/release", {}),
        ("/frontier/hosts/release", {}),
    ):
        status, answer = await api.post(path, body, token=None)
        assert (status, answer["error"]["reason"]) == (401, Reason.TOKEN_REQUIRED)


async def test_urls_are_listed_by_pages_with_filters(api: Api, harness: AppHarness, site: Site) -> None:
    """Spec 8.1."""
    site.answers["http://a.test/fine"] = Answer(page("fine"))
    await harness.operations.frontier.submit(["http://a.test/fine", "http://a.test/missing"])
    await harness.work()
    await harness.operations.frontier.close_host("closed.test")
    await harness.operations.frontier.submit(["http://closed.test/1", "http://closed.test/2"])
    seen, after = [], 0
    while after is not None:
        _, body = await api.get("/frontier/urls", params={"limit": 3, "after": after})
        seen += body["urls"]
        after = body["next"]
    assert [row["id"] for row in seen] == sorted({row["id"] for row in seen})
    assert {(row["url"], row["status"], row["reason"]) for row in seen} == {
        ("http://a.test/fine", "fetched", "stored"),
        ("http://a.test/missing", "dead", "not_found"),
        ("http://closed.test/1", "pending", None),
        ("http://closed.test/2", "pending", None),
    }
    assert {row["waiting_reason"] for row in seen} == {None, "host_closed"}
    assert {row["kept_failing"] for row in seen} == {None}
    _, body = await api.get("/frontier/urls", params={"host": "A.test", "reason": "not_found", "source": "manual"})
    assert [row["url"] for row in body["urls"]] == ["http://a.test/missing"]
    _, stats = await api.get("/frontier/stats")
    assert stats == {
        "urls": {"pending": 2, "fetching": 0, "fetched": 1, "dead": 1},
        "reasons": {"fetched": {"stored": 1}, "dead": {"not_found": 1}},
        "hosts": {"with_work": 1, "in_use": 0, "blocked": 0, "closed": 1},
        "oldest_due_at": None,
    }


INVALID = {
    (Reason.BAD_REQUEST, 422): (
        "/frontier/urls?status=lost",
        "/frontier/urls?reason=bored",
        "/frontier/urls?reason=%00",
        "/frontier/urls?host=group:x",
        "/frontier/urls?status=pending&reason=gone",
        "/frontier/urls?after=-1",
        "/frontier/urls?after=99999999999999999999",
        "/frontier/urls?limit=100000",
        "/frontier/hosts?state=sad",
    ),
    (Reason.UNKNOWN_SOURCE, 404): (
        "/frontier/urls?source=nope",
        "/frontier/urls?source=%00",
    ),
    (Reason.UNKNOWN_HOST, 404): (
        "/frontier/urls?host=never.test",
        "/frontier/urls?host=%00",
    ),
}


async def test_an_invalid_query_returns_the_common_error_form(api: Api) -> None:
    """Spec 8.1."""
    for reason, status in INVALID:
        for path in INVALID[reason, status]:
            answered, body = await api.get(path)
            assert (answered, body["error"]["reason"]) == (status, reason)
            assert body["error"]["message"].endswith(".")


async def test_any_text_is_a_valid_after_value(api: Api) -> None:
    assert (await api.get("/frontier/hosts?after=%00%F0"))[0] == 200


async def test_hosts_are_listed_blocked_and_released(api: Api) -> None:
    """Spec 2.3, 8.1."""
    await api.post("/frontier/urls", {"urls": ["http://a.test/1", "http://b.test:8080/1"]})
    _, body = await api.get("/frontier/hosts", params={"limit": 1})
    assert [(host["host"], host["state"], host["queued"]) for host in body["hosts"]] == [("a.test", "waiting", 1)]
    _, body = await api.get("/frontier/hosts", params={"limit": 1, "after": body["next"]})
    assert body["hosts"][0]["host"] == "b.test:8080"
    status, host = await api.post("/frontier/hosts/a.test/block", {"for_seconds": 3600})
    assert (status, host["state"]) == (200, "closed")
    until = datetime.fromisoformat(host["next_turn_at"])
    assert timedelta(minutes=59) < until - datetime.now(until.tzinfo) < timedelta(minutes=61)
    status, host = await api.post("/frontier/hosts/b.test:8080/block", {})
    assert (status, host["state"], host["next_turn_at"]) == (200, "closed", None)
    _, body = await api.get("/frontier/hosts?state=closed")
    assert len(body["hosts"]) == 2
    status, host = await api.post("/frontier/hosts/a.test/release", {})
    assert (status, host["state"], host["why"]) == (200, "waiting", "Its turn has come.")


async def test_a_block_needs_no_body(api: Api) -> None:
    """Spec 8.1: `curl -X POST` sends none."""
    assert (await ask(api, "/frontier/hosts/a.test/block")).startswith(b"HTTP/1.1 200")
    assert (await ask(api, "/frontier/hosts/a.test/block", "Transfer-Encoding: chunked")).startswith(b"HTTP/1.1 413")


async def test_an_invalid_request_returns_the_common_error_form(api: Api) -> None:
    """Spec 8.1."""
    for path, body, status, reason in [
        ("/frontier/hosts/never.test/release", {}, 404, Reason.UNKNOWN_HOST),
        ("/frontier/hosts/group:nope/block", {}, 404, Reason.UNKNOWN_HOST),
        ("/frontier/hosts/a b/block", {}, 404, Reason.UNKNOWN_HOST),
        ("/frontier/hosts/a.test/block", {"for_seconds": 0}, 422, Reason.BAD_REQUEST),
        ("/frontier/hosts/a.test/block", {"for_seconds": 10**12}, 422, Reason.BAD_REQUEST),
        ("/frontier/retry", {}, 422, Reason.BAD_REQUEST),
        ("/frontier/retry", {"filter": {}}, 422, Reason.BAD_REQUEST),
        ("/frontier/retry", {"filter": {"status": "pending"}}, 422, Reason.BAD_REQUEST),
        ("/frontier/retry", {"filter": {"host": "a.test"}, "urls": ["http://a.test/"]}, 422, Reason.BAD_REQUEST),
        ("/frontier/retry", {"urls": ["http://never.test/"]}, 404, Reason.UNKNOWN_URL),
        ("/frontier/retry", {"urls": ["http://user:hunter2@a.test/"]}, 422, Reason.INVALID_URL),
        ("/frontier/retry", {"filter": {"source": "nope"}}, 404, Reason.UNKNOWN_SOURCE),
        ("/frontier/urls", {"urls": ["http://a.test/"], "source": "nope\0"}, 404, Reason.UNKNOWN_SOURCE),
    ]:
        answered, answer = await api.post(path, body)
        assert (answered, answer["error"]["reason"]) == (status, reason)
        assert "hunter2" not in str(answer)


async def test_openapi_describes_it(api: Api) -> None:
    """Spec 8.1."""
    _, described = await api.get("/openapi.json")
    assert set(described["paths"]) >= {
        "/frontier/urls",
        "/frontier/stats",
        "/frontier/hosts",
        "/frontier/retry",
        "/frontier/hosts/{host}/block",
        "/frontier/hosts/{host}/release",
    }


async def test_a_retry_by_filter_is_made_page_by_page(
    api: Api, harness: AppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 2.2: one request queues a limited number, and returns where to continue."""
    await harness.operations.frontier.submit([f"http://a.test/{number}" for number in range(7)])
    await harness.work()
    monkeypatch.setattr(operations, "LARGEST_BATCH", 3)
    monkeypatch.setattr(retry, "SLICE", 2)
    order = {"filter": {"status": "dead", "reason": "not_found"}, "priority": 9}
    status, body = await api.post("/frontier/retry", order)
    assert (status, body["queued"], body["fetching"]) == (200, 4, 0)
    _, body = await api.post("/frontier/retry", order | {"after": body["next"]})
    assert body["queued"] == 3
    _, body = await api.post("/frontier/retry", order | {"after": body["next"]})
    assert body == {"queued": 0, "fetching": 0, "next": None}
    assert {entry.priority for entry in (await harness.queued()).values()} == {9}
    _, body = await api.post("/frontier/retry", {"urls": ["http://a.test/0", "http://a.test/0#x"]})
    assert body == {"queued": 2, "fetching": 0, "next": None}


async def test_a_document_lists_its_revisions(api: Api, harness: AppHarness, site: Site) -> None:
    """Spec 4.4: when the text changes the old one stays as a revision."""
    url = "http://a.test/page"
    site.answers[url] = Answer(page("first"))
    await api.post("/frontier/urls", {"urls": [url]})
    await harness.work()
    for title in ("second", "second", "third"):
        site.answers[url] = Answer(page(title))
        await api.post("/frontier/retry", {"urls": [url]})
        await harness.work()
    _, listed = await api.get("/documents")
    _, document = await api.get(f"/documents/{listed['documents'][0]['id']}")
    assert (document["title"], document["revision"]) == ("third", 3)
    assert [(old["revision"], old["title"]) for old in document["revisions"]] == [(2, "second"), (1, "first")]
    assert all(len(old["raw_hash"]) == len(old["content_hash"]) == 64 for old in document["revisions"])


async def test_metrics_count_the_urls_of_the_frontier(api: Api) -> None:
    """Spec 8.1."""
    await api.post("/frontier/urls", {"urls": ["http://a.test/1", "http://a.test/2"]})
    async with api.session.get(api.base + "/metrics") as response:
        shown = await response.text()
    assert 'headwater_urls{status="pending"} 2.0' in shown
    assert 'headwater_urls{status="dead"} 0.0' in shown


def postmaster(data: Path) -> int:
    (pid_file,) = data.glob("postgres/*/cluster/postmaster.pid")
    return int(pid_file.read_text().split()[0])


async def test_metrics_are_answered_while_the_database_is_away(make_settings: Callable[..., Settings]) -> None:
    """Spec 8.1: the counters of this process stay, and the unknown counts of the frontier are left out."""
    settings = make_settings(database_url="")
    async with open_harness(settings) as harness:
        assert b'headwater_urls{status="pending"} 0.0' in await harness.operations.measure()
        os.kill(postmaster(settings.data_dir), signal.SIGKILL)
        shown = await harness.operations.measure()
        while b"headwater_urls{" in shown:  # its children notice that it is dead a moment later
            await asyncio.sleep(0.01)
            shown = await harness.operations.measure()
    assert b"headwater_starts_total" in shown
