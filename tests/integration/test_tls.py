"""A server whose TLS fails: no request is sent, the host waits, and no page is lost (issue 21, spec 4.2)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from tests.certificates import make_certificate, serve_certificate, trust
from tests.harness import open_harness
from tests.server import Answer, Site, page

PAGE = "https://secure.test/report"
HTML = {"Content-Type": "text/html; charset=utf-8"}


async def test_a_host_with_a_certificate_that_is_not_trusted_gets_no_request_and_loses_no_page(
    tmp_path: Path, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path, "secure.test")
    async with Site(tls=serve_certificate(certificate)) as site:
        site.answers[PAGE] = Answer(page("trust"), headers=HTML)
        async with open_harness(make_settings(connect_to=site.connect_to)) as harness:
            frontier = harness.operations.frontier
            await frontier.submit([PAGE])
            await harness.work(until_attempts=1)
            explained = await harness.operations.why(PAGE)
            assert [attempt.reason for attempt in explained.fetches] == [Reason.ROBOTS_UNREACHABLE]
            assert site.seen == []
            (host,) = (await frontier.list_hosts()).hosts
            assert host.failure == Reason.CERTIFICATE

            trust(certificate, monkeypatch)
            await frontier.open_host("secure.test")
            assert await harness.fetch(PAGE) == {PAGE: Reason.STORED}
            assert site.visits(PAGE) == 1


async def test_a_host_that_answers_without_tls_gets_no_page_request(
    site: Site, make_settings: Callable[..., Settings]
) -> None:
    async with open_harness(make_settings(connect_to=site.connect_to)) as harness:
        await harness.operations.frontier.submit([PAGE])
        await harness.work(until_attempts=1)
        assert await harness.attempts() == [(Reason.ROBOTS_UNREACHABLE, 1, None)]
        assert PAGE in await harness.queued()
        assert site.seen == []
