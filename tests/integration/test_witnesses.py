"""Whose fault a failure is: ours, when nobody who was reached lately can be reached any more (spec 3.2)."""

import asyncio
import errno
import socket

import pytest

from headwater.http.offline_detector import OfflineDetector, is_doubtful

TEMPORARY = socket.gaierror(socket.EAI_AGAIN, "no name server answers")
NO_ROUTE = OSError(errno.ENETUNREACH, "no way out")
NO_FILE = OSError(errno.EMFILE, "too many open files")


@pytest.mark.parametrize(
    "error", [TEMPORARY, NO_ROUTE, NO_FILE, TimeoutError(), OSError(errno.EHOSTUNREACH, "nobody there")]
)
async def test_while_somebody_is_reached_a_failure_is_the_others(error: Exception) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1") as server:
        witnesses = OfflineDetector()
        witnesses.add("one.test", ("127.0.0.1", 1))  # which refuses, and so is there too
        witnesses.add("two.test", server.sockets[0].getsockname())
        assert is_doubtful(error)
        assert not await witnesses.is_ours(error, "news.test")


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(errno.ECONNREFUSED, "no"), socket.gaierror(socket.EAI_NONAME, "no such name")]
)
async def test_whoever_answers_no_is_there(error: Exception) -> None:
    witnesses = OfflineDetector()
    witnesses.add("one.test", ("192.0.2.1", 9))
    assert not await witnesses.is_ours(error, "news.test")


async def test_before_anybody_was_reached_only_our_own_network_is_blamed_for_what_is_its_own() -> None:
    witnesses = OfflineDetector()
    for error in (TEMPORARY, NO_ROUTE, NO_FILE):
        assert await witnesses.is_ours(error, "news.test")
    assert not await witnesses.is_ours(TimeoutError(), "news.test")


async def test_a_host_is_no_witness_of_its_own_failure() -> None:
    witnesses = OfflineDetector()
    witnesses.add("news.test", ("127.0.0.1", 1))
    assert not await witnesses.is_ours(TimeoutError(), "news.test")
