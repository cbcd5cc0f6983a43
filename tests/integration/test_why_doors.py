"""`why URL` at its doors: the desk, the command and the API, and what they refuse (spec 8.3)."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from rich.cells import cell_len

from headwater.api import make_app
from headwater.app.roles import RoleName, serve
from headwater.core.errors import InvalidURL, OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from tests.harness import AppHarness, open_harness
from tests.program import headwater
from tests.server import Answer, Site, page, rss

FEED = "http://news.test/feed"
A = "http://news.test/a"


async def test_an_invalid_address_is_refused_with_the_reason(harness: AppHarness) -> None:
    """Spec 8.3, 2.1: and no password is repeated."""
    for url, said in (
        ("", "The address is empty."),
        ("javascript:alert(1)", "must start with http or https, not 'javascript'"),
        ("news.test/a", "has no scheme"),
        ("http://me:secret@news.test/a", "contains a user name or password"),
        ("http://", "has no host"),
        ("http://news.test/" + "x" * 9000, "longer than"),
    ):
        with pytest.raises(InvalidURL, match=said) as refused:
            await harness.operations.why(url)
        assert "secret" not in f"{refused.value} {refused.value.url}"


async def test_an_unknown_url_is_refused(site: Site, harness: AppHarness) -> None:
    """Spec 8.3."""
    site.answers[FEED] = rss(A)
    await harness.operations.sources.add(FEED)
    with pytest.raises(OperatorError) as refused:
        await harness.operations.why("http://news.test/b?utm_source=x")
    assert refused.value.reason is Reason.UNKNOWN_URL


HOSTILE = "\x1b[31m[bold]Sale[/bold] \u202e:bomb: " + "川" * 90


@pytest.fixture
async def hostile(site: Site, make_settings: Callable[..., Settings]) -> Settings:
    """Settings of a house that has a page with a hostile title and robots.txt."""
    settings = make_settings(connect_to=site.connect_to)
    site.answers["http://news.test/robots.txt"] = Answer("User-agent: headwater\nAllow: /\x1b[31m[bold]*\nAllow: /a\n")
    async with open_harness(settings) as harness:
        site.answers[FEED] = rss(A)
        site.answers[A] = Answer(page(HOSTILE.replace("\x1b", "&#27;")), headers={"Content-Type": "text/html"})
        await harness.operations.sources.add(FEED)
        await harness.work()
    return settings


def test_the_command_prints_prose_of_80_columns_or_json(hostile: Settings, tmp_path: Path) -> None:
    """Spec 8.3, 8.2."""
    where = {"data_dir": hostile.data_dir, "database_url": hostile.database_url, "host_delay_ms": 0}
    shown = headwater("why", A, cwd=tmp_path, **where)
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0] == A
    assert [line.split()[0] for line in lines[1:] if not line.startswith(" ")] == [
        *("Status", "Seen", "Priority", "Robots", "Host", "Fetches", "Document", "Next")
    ]
    assert max(cell_len(line) for line in lines) <= 80
    assert all(mark.isprintable() or mark == "\n" for mark in shown.stdout)
    assert "[bold]Sale[/bold] :bomb:" in shown.stdout
    printed = headwater("why", A, "--json", cwd=tmp_path, **where)
    answer = json.loads(printed.stdout)
    assert (answer["status"], answer["reason"], answer["robots"]["allowed"]) == ("fetched", "stored", True)
    assert answer["lines"][-1]["label"] == "Next"


def test_the_command_refuses_bad_input_with_one_line(hostile: Settings, tmp_path: Path) -> None:
    """Spec 8.3, 8.2."""
    for url, said in (
        ("http://news.test/never", "http://news.test/never has never been seen here"),
        ("javascript:alert(1)", "must start with http or https"),
        ("", "The address is empty."),
        ("http://me:secret@news.test/a", "contains a user name or password"),
    ):
        refused = headwater("why", url, cwd=tmp_path, data_dir=hostile.data_dir, database_url=hostile.database_url)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert said in refused.stderr
        assert "secret" not in refused.stderr


@pytest.fixture
async def api(hostile: Settings) -> AsyncIterator[str]:
    """The address of a running API."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(hostile, [RoleName.API], make_app, on_ready=address.set_result))
    yield await address
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


async def test_the_api_returns_the_same(api: str) -> None:
    """Spec 8.3, 8.1."""
    async with aiohttp.ClientSession() as session:
        for url, status, reason in (
            ("http://news.test/a?utm_source=x", 200, None),
            ("http://news.test/never", 404, Reason.UNKNOWN_URL),
            ("javascript:alert(1)", 422, Reason.INVALID_URL),
            ("", 422, Reason.INVALID_URL),
            ("http://me:secret@news.test/a", 422, Reason.INVALID_URL),
            (None, 422, Reason.BAD_REQUEST),
        ):
            async with session.get(f"{api}/why", params={"url": url} if url is not None else {}) as response:
                text = await response.text()
                assert (response.status, json.loads(text).get("error", {}).get("reason")) == (status, reason)
                assert "secret" not in text
        async with session.get(f"{api}/why", params={"url": A}) as response:
            answer = await response.json()
        assert (answer["url"], answer["fetches"][0]["http_status"], answer["document"]["id"]) == (A, 200, 1)
        assert "`headwater frontier retry http://news.test/a`" in answer["lines"][-1]["text"]
        async with session.get(f"{api}/openapi.json") as response:
            assert "/why" in (await response.json())["paths"]
