"""Name servers that fail and change their answers, through the whole flow (issue 21, spec 4.2, 4.3)."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from headwater.core.settings import Settings
from tests.database_state import make_due
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site, page

Names = list[str | Exception]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """The answers of the name server, in turn. The last one is repeated."""
    answers: Names = []

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return answers


async def work_on(harness: AppHarness, url: str, attempts: int) -> list[tuple[str, int]]:
    """Work at a URL, and let each wait end at once. Returns the reason and the number of each attempt."""
    await harness.operations.frontier.submit([url])
    for done in range(1, attempts + 1):
        await harness.operations.frontier.open_all_hosts()
        await make_due(harness)
        await harness.work(until_attempts=done)
    return [(one.reason.value, one.attempt) for one in await harness.log()]


async def test_a_name_that_fails_for_a_while_costs_no_page(
    site: Site, names: Names, make_settings: Callable[..., Settings]
) -> None:
    """An unknown name is the fault of its host, and a name server that does not answer is ours."""
    names += [socket.gaierror(socket.EAI_NONAME, "unknown"), socket.gaierror(socket.EAI_AGAIN, "later"), "127.0.0.1"]
    url = f"http://away.test:{port_of(site)}/a"
    site.answers[url] = Answer(page("a name"), headers={"Content-Type": "text/html"})
    async with open_harness(make_settings()) as harness:
        reasons = [reason for reason, _ in await work_on(harness, url, 3)]
        assert reasons == ["robots_unreachable", "offline", "stored"]


async def test_a_name_that_changes_is_followed_and_each_new_address_is_checked(
    site: Site, names: Names, make_settings: Callable[..., Settings]
) -> None:
    """The connector remembers an address for ten seconds. Each program here begins without one."""
    port = port_of(site)
    urls = [f"http://moving.test:{port}/{name}" for name in "abc"]
    async with Site("127.0.0.3", port) as other:
        for place, url in zip((site, other), urls, strict=False):
            place.answers[url] = Answer(page(f"page {url[-1]}"), headers={"Content-Type": "text/html"})
        for address, url in zip(("127.0.0.1", "127.0.0.3", "10.9.8.7"), urls, strict=True):
            names[:] = [address]
            async with open_harness(make_settings()) as harness:
                outcomes = await harness.fetch(url)
    assert outcomes == dict(zip(urls, ("stored", "stored", "address_refused"), strict=True))
    assert [seen.url for seen in site.seen if not seen.url.endswith("/robots.txt")] == urls[:1]
    assert [seen.url for seen in other.seen] == urls[1:2]


def port_of(site: Site) -> int:
    return int(site.connect_to[0].rpartition(":")[2])
