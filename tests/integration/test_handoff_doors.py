"""Hand-offs and jobs through the API and the command line (spec 7.1, 7.4, 7.5, 8.1, 8.2, 8.3; issue 9)."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from tests.api import TOKEN, Api
from tests.harness import AppHarness, open_harness
from tests.program import headwater, program_settings
from tests.replaying import urlset
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
HTML = {"Content-Type": "text/html; charset=utf-8"}
COUNTS = ("queued", "completed", "failed", "skipped")

Program = Callable[..., Awaitable["subprocess.CompletedProcess[str]"]]


@pytest.fixture
async def api_settings(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a database with a source of two items, one of which has a page, and a second source."""
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b")
    site.answers["http://slow.test/feed"] = rss("http://slow.test/a")
    site.answers["http://news.test/a"] = Answer(page("river"), headers=HTML)
    settings = make_settings(connect_to=site.connect_to, api_token=TOKEN)
    async with open_harness(settings) as harness:
        for name, feed in (("news", FEED), ("slow", "http://slow.test/feed")):
            await harness.operations.sources.create(name, "site", {"feed_url": feed})
        await harness.operations.sources.create("by-hand", "manual", {})
    return settings


@pytest.fixture
def program(api_settings: Settings, tmp_path: Path) -> Program:
    """The real program."""
    given = program_settings(api_settings)
    return lambda *words: asyncio.to_thread(headwater, *words, cwd=tmp_path, **given)


async def fetch_all(api_settings: Settings) -> None:
    async with open_harness(api_settings) as harness:
        await harness.work()


def counts(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[f"handoff_{name}_count"] for name in COUNTS}


async def test_a_sync_answers_with_its_run_and_four_counts(api: Api, api_settings: Settings) -> None:
    """Spec 7.1, 7.4."""
    assert (await api.post("/scraping/news/sync", {}, token=None))[0] == 401
    status, first = await api.post("/scraping/news/sync", {})
    assert (status, first["scrape_run_id"], first["items"], first["new_items"], first["new_urls"]) == (200, 1, 2, 2, 2)
    assert counts(first) == {"queued": 0, "completed": 2, "failed": 0, "skipped": 0}
    await fetch_all(api_settings)
    _, second = await api.post("/scraping/news/sync", {})
    assert counts(second) == {"queued": 0, "completed": 0, "failed": 0, "skipped": 2}

    _, page_ = await api.get("/scraping/news/handoffs", params={"scrape_run_id": second["scrape_run_id"]})
    assert page_["total"] == len(page_["handoffs"]) == 2
    by_url = {row["url"]: row for row in page_["handoffs"]}
    assert by_url["http://news.test/a"]["reason_code"] == "ingestion_job_already_ready"
    assert by_url["http://news.test/b"]["reason_code"] == "ingestion_job_already_failed"
    assert by_url["http://news.test/b"]["job_reason"] == "not_found"
    assert (await api.get("/scraping/news/handoffs?scrape_run_id=1"))[1]["total"] == 0, "touched again since"


async def test_hand_offs_are_listed_by_pages_that_add_up(api: Api) -> None:
    """Spec 7.4: a stable order, a total, an empty page past the end."""
    await api.post("/scraping/news/sync", {})
    pages = [(await api.get(f"/scraping/news/handoffs?limit=1&offset={offset}"))[1] for offset in range(3)]
    ids = [row["handoff_id"] for page_ in pages for row in page_["handoffs"]]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 2
    assert [(page_["total"], page_["limit"], page_["offset"]) for page_ in pages] == [(2, 1, 0), (2, 1, 1), (2, 1, 2)]
    assert pages[2]["handoffs"] == []
    assert (await api.get("/scraping/news/handoffs?status=failed"))[1]["total"] == 0
    assert (await api.get("/scraping/slow/handoffs"))[1]["total"] == 0
    assert (await api.get(f"/handoffs/{ids[0]}"))[1] == pages[0]["handoffs"][0]


BAD_READS = (
    ("/scraping/unknown/handoffs", 404, Reason.UNKNOWN_SOURCE, "unknown"),
    ("/scraping/news/handoffs?status=skipped", 422, Reason.BAD_REQUEST, "status: "),
    ("/scraping/news/handoffs?scrape_run_id=x", 422, Reason.BAD_REQUEST, "scrape_run_id: "),
    ("/scraping/news/handoffs?scrape_run_id=0", 422, Reason.BAD_REQUEST, "scrape_run_id: "),
    ("/scraping/news/handoffs?limit=0", 422, Reason.BAD_REQUEST, "limit: "),
    ("/scraping/news/handoffs?limit=100000", 422, Reason.BAD_REQUEST, "limit: "),
    ("/scraping/news/handoffs?offset=-1", 422, Reason.BAD_REQUEST, "offset: "),
    ("/scraping/news/handoffs?state=failed", 422, Reason.BAD_REQUEST, "state: "),
    ("/handoffs/9", 404, Reason.UNKNOWN_HANDOFF, "9"),
    ("/handoffs/0", 422, Reason.BAD_REQUEST, "handoff_id: "),
    ("/jobs/9", 404, Reason.UNKNOWN_JOB, "9"),
    ("/jobs?source=unknown", 404, Reason.UNKNOWN_SOURCE, "unknown"),
    ("/jobs?status=done", 422, Reason.BAD_REQUEST, "status: "),
    ("/jobs?reason=nonsense", 422, Reason.BAD_REQUEST, "reason: "),
    ("/jobs?limit=1001", 422, Reason.BAD_REQUEST, "limit: "),
)


async def test_a_bad_read_is_refused_by_name(api: Api) -> None:
    """Issue 9, bad input."""
    for path, status, reason, named in BAD_READS:
        found, answer = await api.get(path)
        assert (path, found, answer["error"]["reason"]) == (path, status, reason)
        assert named in answer["error"]["message"]


BAD_WRITES: tuple[tuple[str, dict[str, str], int, Reason], ...] = (
    ("/scraping/unknown/sync", {}, 404, Reason.UNKNOWN_SOURCE),
    ("/scraping/by-hand/sync", {}, 422, Reason.BAD_REQUEST),
    ("/jobs/9/retry", {}, 404, Reason.UNKNOWN_JOB),
    ("/jobs/retry", {}, 422, Reason.BAD_REQUEST),
    ("/jobs/retry", {"source": "unknown"}, 404, Reason.UNKNOWN_SOURCE),
    ("/jobs/retry", {"reason": "nonsense"}, 422, Reason.BAD_REQUEST),
    ("/jobs/retry", {"colour": "red"}, 422, Reason.BAD_REQUEST),
    ("/handoffs/9/retry", {}, 404, Reason.UNKNOWN_HANDOFF),
)


async def test_a_bad_write_is_refused_and_needs_the_token(api: Api) -> None:
    """Issue 9, bad input; spec 8.1."""
    for path, body, status, reason in BAD_WRITES:
        found, answer = await api.post(path, body)
        assert (path, found, answer["error"]["reason"]) == (path, status, reason)
        assert (await api.post(path, body, token=None))[0] == 401


async def test_a_second_sync_is_refused_with_the_run_under_way(site: Site, api: Api, program: Program) -> None:
    """Spec 7.1: 409 with the running run's id."""
    site.hanging.add("http://slow.test/feed")
    running = asyncio.create_task(api.post("/scraping/slow/sync", {}))
    while "http://slow.test/feed" not in site.waiting:
        await asyncio.sleep(0.01)
    status, answer = await api.post("/scraping/slow/sync", {})
    assert (status, answer["error"]["reason"], answer["error"]["run_id"]) == (409, Reason.RUN_UNDER_WAY, 1)
    refused = await program("source", "sync", "slow")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "run 1" in refused.stderr
    assert (await api.post("/scraping/news/sync", {}))[0] == 200, "another source can be synced"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_sync_during_a_poll_is_refused(api: Api, api_settings: Settings) -> None:
    """Spec 7.1: a poll is no run, so the error has no run id."""
    async with open_harness(api_settings) as harness:
        await harness.execute(
            "UPDATE poll_state SET lease_holder = 'a poller', lease_token = gen_random_uuid(), "
            "lease_until = now() + interval '1 min' WHERE source_id = (SELECT id FROM sources WHERE name = 'news')"
        )
    status, answer = await api.post("/scraping/news/sync", {})
    assert (status, answer["error"]["reason"]) == (409, Reason.RUN_UNDER_WAY)
    assert answer["error"]["run_id"] is None
    assert "a poll" in answer["error"]["message"]


BAD_BODIES = (
    (b'{"method": "bogus"}', "method: "),
    (b'{"method": "spider"}', "method: is one of main, sitemap, not 'spider'."),
    (b'{"colour": "red"}', "colour: The request has no such field."),
    (b"[1]", "body: Input should be an object."),
    (b"junk", "body: "),
)


async def test_a_sync_reads_its_body_or_refuses_it_by_name(api: Api) -> None:
    """Issue 9, bad input: the source is not read then."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    for body, named in BAD_BODIES:
        async with api.session.post(api.base + "/scraping/news/sync", data=body, headers=headers) as response:
            status, answer = response.status, await response.json()
        assert (body, status, answer["error"]["reason"]) == (body, 422, Reason.BAD_REQUEST)
        assert named in answer["error"]["message"]
    assert (await api.get("/ops/runs"))[1]["runs"] == []


async def test_a_sync_reads_by_the_requested_method(site: Site, api: Api) -> None:
    """Issue 9: the same as `source sync --method`."""
    site.answers["http://news.test/map.xml"] = Answer(urlset(("http://news.test/c", None)))
    site.answers["http://news.test/robots.txt"] = Answer(b"Sitemap: http://news.test/map.xml")
    status, synced = await api.post("/scraping/news/sync", {"method": "sitemap"})
    assert (status, synced["method"], synced["urls"]) == (200, "sitemap", 1)
    assert (await api.post("/scraping/news/sync", {"method": None}))[1]["method"] == "main"


async def test_jobs_are_listed_shown_and_retried(site: Site, api: Api, api_settings: Settings) -> None:
    """Spec 7.3."""
    await api.post("/scraping/news/sync", {})
    assert (await api.get("/jobs?status=queued"))[1]["total"] == 2
    await fetch_all(api_settings)
    _, ready = await api.get("/jobs", params={"source": "news", "status": "ready"})
    assert [(job["url"], job["document_id"]) for job in ready["jobs"]] == [("http://news.test/a", 1)]
    _, failed = await api.get("/jobs", params={"reason": "not_found", "scrape_run_id": 1})
    (job,) = failed["jobs"]
    assert (job["status"], job["url"], job["document_id"]) == ("failed", "http://news.test/b", None)
    assert (await api.get("/jobs", params={"reference_id": job["reference_id"]}))[1]["jobs"] == [job]

    site.answers["http://news.test/b"] = Answer(page("a bridge"), headers=HTML)
    path = f"/jobs/{job['job_id']}/retry"
    assert (await api.post(path, {}))[1]["status"] == "queued"
    status, answer = await api.post(path, {})
    assert (status, answer["error"]["reason"]) == (409, Reason.NOT_FAILED)
    await fetch_all(api_settings)
    assert (await api.get(f"/jobs/{job['job_id']}"))[1]["status"] == "ready"
    assert (await api.post("/jobs/retry", {"source": "news"}))[1] == {"retried": 0}


async def test_metrics_report_waiting_and_failed_jobs_and_hand_offs(api: Api, api_settings: Settings) -> None:
    """Spec 6.7; issue 9."""

    async def measured() -> dict[str, float]:
        async with api.session.get(api.base + "/metrics") as response:
            lines = (await response.text()).splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    await api.post("/scraping/news/sync", {})
    found = await measured()
    assert (found['headwater_jobs{status="queued"}'], found['headwater_handoffs_total{end="completed"}']) == (2, 2)
    assert (found["headwater_handoffs_waiting"], found["headwater_handoffs_waiting_seconds"]) == (0, 0)
    await fetch_all(api_settings)
    async with open_harness(api_settings) as harness:
        await harness.execute("ALTER TABLE ingestion_handoffs DISABLE TRIGGER trg_update_ingestion_handoff_timestamp")
        await harness.execute("UPDATE ingestion_handoffs SET status = 'queued', updated_at = now() - interval '90 s'")
    found = await measured()
    assert (found['headwater_jobs{status="queued"}'], found['headwater_jobs{status="failed"}']) == (0, 1)
    assert found["headwater_handoffs_waiting"] == 2
    assert found["headwater_handoffs_waiting_seconds"] >= 90


async def test_rolled_back_hand_offs_are_reported_and_work_again_when_applied(api: Api, program: Program) -> None:
    """Spec 7.5, with a running program."""
    await api.post("/scraping/news/sync", {})
    assert (await program("migrate", "down", "--only", "handoffs", "--yes")).stdout == "rolled back 003 handoffs\n"
    status, answer = await api.get("/scraping/news/handoffs")
    assert (status, answer["error"]["reason"]) == (503, Reason.HANDOFFS_MISSING)
    assert "003_handoffs" in answer["error"]["message"]
    assert (await api.get("/handoffs/1"))[0] == (await api.post("/handoffs/1/retry", {}))[0] == 503
    status, synced = await api.post("/scraping/news/sync", {})
    assert (status, synced["items"], counts(synced)) == (200, 2, dict.fromkeys(COUNTS))
    assert (await api.get("/jobs"))[1]["total"] == 2
    assert (await api.get("/why", params={"url": "http://news.test/a"}))[1]["handoffs"] == []
    by_cli = await program("source", "sync", "news")
    assert "003_handoffs" in by_cli.stdout
    refused = await program("handoff", "list")
    assert (refused.returncode, "003_handoffs" in refused.stderr) == (2, True)
    assert "003_handoffs" in json.dumps(json.loads((await program("doctor", "--json")).stdout))

    assert (await program("migrate", "up")).stdout == "applied 003 handoffs\n"
    _, again = await api.post("/scraping/news/sync", {})
    assert counts(again) == {"queued": 0, "completed": 0, "failed": 0, "skipped": 2}
    assert (await api.get("/scraping/news/handoffs"))[1]["total"] == 2


async def test_the_command_line_syncs_lists_shows_and_retries(api_settings: Settings, program: Program) -> None:
    """Spec 8.2."""
    synced = json.loads((await program("source", "sync", "news", "--json")).stdout)
    assert (synced["scrape_run_id"], synced["items"]) == (1, 2)
    assert counts(synced) == {"queued": 0, "completed": 2, "failed": 0, "skipped": 0}
    assert (await program("source", "sync", "news")).stdout.endswith("Run 2: 0 handed off, 2 skipped.\n")
    await fetch_all(api_settings)

    listed = json.loads((await program("handoff", "list", "--source", "news", "--json")).stdout)
    assert listed["total"] == 2
    failed = next(row for row in listed["handoffs"] if row["job_status"] == "failed")
    shown_list = (await program("handoff", "list")).stdout
    assert f"job {failed['job_id']} failed (not_found)" in shown_list
    assert shown_list.split()[:3] == ["hand-off", "status", "updated,"]
    assert (
        f"{failed['updated_at'][:10]} {failed['updated_at'][11:16]}       2  ingestion_job_already_active" in shown_list
    )
    assert (await program("handoff", "list", "--offset", "5")).stdout == "There are only 2.\n"
    shown = await program("handoff", "show", str(failed["handoff_id"]))
    for reason in (Reason.INGESTION_JOB_ALREADY_ACTIVE, Reason.NOT_FOUND):
        assert f"{reason}: {reason.sentence}" in shown.stdout
    as_json = json.loads((await program("handoff", "show", str(failed["handoff_id"]), "--json")).stdout)
    assert [job["reason"] for job in as_json["jobs"]] == ["not_found"]
    assert "document 1" in (await program("handoff", "jobs", "--status", "ready")).stdout
    assert json.loads((await program("handoff", "jobs", "--json")).stdout)["total"] == 2

    assert "queued" in (await program("handoff", "retry", str(failed["handoff_id"]))).stdout
    await fetch_all(api_settings)
    chosen = ("handoff", "retry", "--all", "--source", "news", "--reason", "not_found")
    assert "--yes" in (await program(*chosen)).stderr
    assert (await program(*chosen, "--yes")).stdout == "1 job waits for its page again.\n"
    for words, said in (
        (("handoff", "retry"), "--all"),
        (("handoff", "retry", "--all", "--yes"), "--source"),
        (("handoff", "retry", "1", "--source", "news"), "--all"),
        (("handoff", "retry", "99"), "99"),
        (("handoff", "show", "99"), "99"),
        (
            ("handoff", "list", "--status", "done"),
            "status: ",
        ),
        (("handoff", "list", "--source", "unknown"), "unknown"),
        (("handoff", "list", "--limit", "0"), "--limit"),
        (("handoff", "list", "--limit", "100000"), "--limit"),
        (("migrate", "down", "--only", "jobs"), "jobs"),
        (("migrate", "down", "--yes"), "--only"),
    ):
        refused = await program(*words)
        assert refused.returncode == 2
        assert said in refused.stderr


async def test_why_reports_hand_offs_and_jobs(site: Site, harness: AppHarness) -> None:
    """Spec 8.3."""
    site.answers[FEED] = rss("http://news.test/a", "http://news.test/b")
    site.answers["http://news.test/a"] = Answer(page("river"), headers=HTML)
    await harness.operations.sources.create("news", "site", {"feed_url": FEED})
    await harness.operations.sources.sync("news")

    async def job_of(name: str) -> tuple[str, Reason | None]:
        (job,) = (await harness.operations.why(f"http://news.test/{name}")).jobs
        return job.status, job.reason

    (handoff,) = (await harness.operations.why("http://news.test/a")).handoffs
    assert (handoff.source, handoff.scrape_run_id, handoff.status) == ("news", 1, "completed")
    assert await job_of("a") == ("queued", None)
    await harness.work()
    assert await job_of("a") == ("ready", None)
    assert await job_of("b") == ("failed", Reason.NOT_FOUND)
    lines = (await harness.operations.why("http://news.test/b")).lines
    assert any("`headwater handoff retry --all --source news --reason not_found`" in line.text for line in lines)
