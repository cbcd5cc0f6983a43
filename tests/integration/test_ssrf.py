"""Spec 1.7, 4.3: no way out leads to an address of the closed table, given as it is, by a name or by a redirect.

Each test also sees that no connection to such an address is begun. tests/browser/test_confinement.py has the browser.
"""

from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from headwater.changes.operations import NewWebhook
from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.core.source import Method
from headwater.core.urls import host_of
from tests.closed_addresses import closed_hosts, closed_names
from tests.harness import AppHarness, open_harness
from tests.server import Answer, Site

HERE = "127.0.0.2"
HOSTS = closed_hosts()
NAMES = closed_names()
URLS = [f"http://{host}/{number}" for number, host in enumerate((*HOSTS, *NAMES))]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site at the only address of this machine that is allowed."""
    async with Site(HERE) as serving:
        yield serving


@pytest.fixture(autouse=True)
def _no_connection_is_begun(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record each connection that the program begins. Only the site and the database may be among them."""
    connected: list[Any] = []
    connect = BaseSelectorEventLoop.sock_connect

    async def record(self: BaseSelectorEventLoop, sock: Any, address: Any) -> None:
        connected.append(address)
        await connect(self, sock, address)

    monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", record)
    yield
    allowed = (HERE, int(site.connect_to[0].rpartition(":")[2]))
    assert [address for address in connected if isinstance(address, tuple) and address[:2] != allowed] == []


@pytest.fixture
async def strict(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    """An application that may reach the site, and no other closed address."""
    port = site.connect_to[0].rpartition(":")[2]
    inside = [f"{name}={f'[{address}]' if ':' in address else address}:{port}" for name, address in NAMES.items()]
    settings = make_settings(connect_to=(*inside, *site.connect_to), allow_networks=(f"{HERE}/32",))
    async with open_harness(settings) as opened:
        yield opened


async def test_no_page_is_read_from_a_closed_address(strict: AppHarness) -> None:
    outcomes = await strict.fetch(*URLS)
    assert set(outcomes.values()) == {Reason.ADDRESS_REFUSED}
    assert len(outcomes) == len(URLS) > 160
    assert not [attempt for attempt in await strict.log() if attempt.sent_at]


async def test_no_redirect_leads_to_a_closed_address(strict: AppHarness, site: Site) -> None:
    """The first hop is answered, and the next one is refused."""
    starts = [f"http://site.test/{number}" for number in range(len(URLS))]
    site.answers |= {start: moved(url) for start, url in zip(starts, URLS, strict=True)}
    outcomes = await strict.fetch(*starts)
    assert {outcomes.pop(start) for start in starts} == {Reason.REDIRECT}
    assert set(outcomes.values()) == {Reason.ADDRESS_REFUSED}
    assert len(outcomes) == len(URLS)


async def test_no_robots_file_is_read_from_a_closed_address(strict: AppHarness, site: Site) -> None:
    """A redirect of robots.txt to such an address blocks the host, and its page is not asked for."""
    targets = {host_of(url): url for url in URLS}
    hosts = [f"robots{number}.test" for number in range(len(targets))]
    site.answers |= {f"http://{host}/robots.txt": moved(url) for host, url in zip(hosts, targets.values(), strict=True)}
    await strict.operations.frontier.submit([f"http://{host}/page" for host in hosts])
    await strict.work(until_attempts=len(hosts))
    assert {attempt.reason for attempt in await strict.log()} == {Reason.ROBOTS_UNREACHABLE}
    assert {seen.url for seen in site.seen} == {f"http://{host}/robots.txt" for host in hosts}


@pytest.mark.parametrize(("method", "setting"), [(Method.FEED, "feed_url"), (Method.SITEMAP, "sitemap_url")])
async def test_no_feed_and_no_sitemap_is_read_from_a_closed_address(
    method: Method, setting: str, strict: AppHarness
) -> None:
    for number, url in enumerate(URLS):
        await strict.operations.sources.create(f"s{number}", "site", {setting: url, "site_url": "http://site.test/"})
        assert (await strict.poll(f"s{number}", method)).reason is Reason.ADDRESS_REFUSED, url


async def test_no_webhook_is_sent_to_a_closed_address(strict: AppHarness) -> None:
    for number, url in enumerate(URLS):
        await strict.operations.webhooks.add(NewWebhook(f"h{number}", url))
        assert (await strict.operations.webhooks.send_test(f"h{number}")).reason is Reason.ADDRESS_REFUSED, url


async def test_no_new_source_is_searched_at_a_closed_address(strict: AppHarness) -> None:
    for url in URLS:
        with pytest.raises(HeadwaterError) as caught:
            await strict.operations.sources.add(url)
        assert caught.value.reason is Reason.ADDRESS_REFUSED, url


def moved(url: str) -> Answer:
    return Answer(status=302, headers={"Location": url})
