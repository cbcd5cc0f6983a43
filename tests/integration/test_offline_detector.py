"""A failure is our own network's fault if no recent host can be reached any more (spec 3.2)."""

import asyncio
import errno
import socket

import pytest

from headwater.http.client import OfflineDetector, could_be_offline

TEMPORARY = socket.gaierror(socket.EAI_AGAIN, "no name server answers")
NO_ROUTE = OSError(errno.ENETUNREACH, "network is unreachable")
NO_FILE = OSError(errno.EMFILE, "too many open files")


@pytest.mark.parametrize(
    "error", [TEMPORARY, NO_ROUTE, NO_FILE, TimeoutError(), OSError(errno.EHOSTUNREACH, "no route to host")]
)
async def test_a_failure_is_the_hosts_while_another_host_answers(error: Exception) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1") as server:
        detector = OfflineDetector()
        detector.add("one.test", ("127.0.0.1", 1))  # refuses the connection, which is an answer, too
        detector.add("two.test", server.sockets[0].getsockname())
        assert could_be_offline(error)
        assert not await detector.is_offline(error, "news.test")


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(errno.ECONNREFUSED, "refused"), socket.gaierror(socket.EAI_NONAME, "no such name")]
)
async def test_a_refusal_or_unknown_name_is_never_our_own_fault(error: Exception) -> None:
    detector = OfflineDetector()
    detector.add("one.test", ("192.0.2.1", 9))
    assert not await detector.is_offline(error, "news.test")


async def test_without_recent_hosts_only_errors_that_name_our_network_are_ours() -> None:
    detector = OfflineDetector()
    for error in (TEMPORARY, NO_ROUTE, NO_FILE):
        assert await detector.is_offline(error, "news.test")
    assert not await detector.is_offline(TimeoutError(), "news.test")


async def test_the_detector_does_not_test_the_host_that_failed() -> None:
    detector = OfflineDetector()
    detector.add("news.test", ("127.0.0.1", 1))
    assert not await detector.is_offline(TimeoutError(), "news.test")
