"""Spec 4.3: bytes from outside are parsed only in killable child processes with memory, time and output limits."""

import asyncio
import os
import signal
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from headwater.core.errors import HeadwaterError, InvalidURL, SandboxFailed, Unreadable
from headwater.core.reasons import Reason
from headwater.sandbox.pool import Sandbox
from tests.integration import hostile_functions
from tests.integration.hostile_functions import Finding
from tests.waiting import until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTHING = type(None)


def a_sandbox(**options: Any) -> Sandbox:
    known = [hostile_functions.__name__]
    return Sandbox(**{"workers": 1, "packages": known, "preload": known} | options)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with a_sandbox() as opened:
        yield opened


async def failure(sandbox: Sandbox, function: Callable[..., Any], *args: Any, **options: Any) -> SandboxFailed:
    with pytest.raises(SandboxFailed) as caught:
        await sandbox.run(function, *args, **{"returns": NOTHING, **options})
    return caught.value


def lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def exists(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


async def find_busy(count: int = 1, program: int | None = None) -> list[tuple[int, int]]:
    """Wait until a program has so many busy children. Return each with its fork server."""
    busy: list[tuple[int, int]] = []

    def has_all() -> bool:
        with suppress(psutil.NoSuchProcess):
            children = [child for server in psutil.Process(program).children() for child in server.children()]
            busy[:] = [(one.pid, one.ppid()) for one in children if one.status() == psutil.STATUS_RUNNING]
        return len(busy) == count

    await until(has_all)
    return busy


async def test_a_result_comes_back_as_the_type_asked_for(sandbox: Sandbox) -> None:
    finding = await sandbox.run(hostile_functions.find, "café", NOON, returns=Finding)
    inner = Finding("inner", Reason.GONE, NOON)
    assert finding == Finding("café", Reason.STORED, NOON, ("a", "b"), {"bytes": b"\x00\xff", "n": [1, None]}, inner)
    assert finding.inner is not None
    assert finding.inner.reason.sentence == Reason.GONE.sentence


async def test_long_bodies_arrive_whole_and_leave_no_bytes_to_later_calls(sandbox: Sandbox) -> None:
    """They pass through shared memory, which has the bytes of earlier calls."""
    for sizes in ((100_000, 20, 3_000_000), (50_000,), (16_384, 16_383)):
        bodies = [os.urandom(size) for size in sizes]
        assert await sandbox.run(hostile_functions.join, *bodies, returns=bytes) == b"".join(bodies)


async def test_a_result_may_be_one_of_several_types(sandbox: Sandbox) -> None:
    assert await sandbox.run(hostile_functions.maybe, False, returns=Finding | None) is None
    given = await sandbox.run(hostile_functions.maybe, True, returns=Finding | None)
    assert given is not None
    assert given.name == "given"


@pytest.mark.parametrize("value", [None, True, 2**63, -1.5, "text", b"\x00\xff", NOON, [1, [2]], {"a": {"b": None}}])
async def test_plain_values_are_sent_and_returned(sandbox: Sandbox, value: object) -> None:
    assert await sandbox.run(hostile_functions.echo, value, returns=object) == value


async def test_a_large_body_is_sent_and_returned(sandbox: Sandbox) -> None:
    body = os.urandom(1024 * 1024) * 20
    assert await sandbox.run(hostile_functions.echo, body, returns=bytes) == body


async def test_a_headwater_error_is_raised_unchanged(sandbox: Sandbox) -> None:
    child = await sandbox.run(hostile_functions.process, returns=int)
    with pytest.raises(Unreadable, match=r"^no feed here$") as caught:
        await sandbox.run(hostile_functions.refuse, "no feed here", returns=NOTHING)
    assert (caught.value.reason, caught.value.url) == (Reason.NOT_A_FEED, "https://news.test/feed")
    with pytest.raises(InvalidURL, match=r"^no host$"):
        await sandbox.run(hostile_functions.refuse_address, returns=NOTHING)
    assert await sandbox.run(hostile_functions.process, returns=int) == child


@pytest.mark.parametrize("function", [hostile_functions.refuse_for_now, hostile_functions.refuse_homemade])
async def test_an_error_no_parser_should_raise_is_a_crash(sandbox: Sandbox, function: Callable[..., Any]) -> None:
    assert (await failure(sandbox, function)).reason is Reason.SANDBOX_CRASHED


async def test_any_other_error_is_a_crash_that_says_what_it_was(sandbox: Sandbox) -> None:
    error = await failure(sandbox, hostile_functions.fail, "no such tag")
    assert (error.reason, str(error)) == (Reason.SANDBOX_CRASHED, "ValueError: no such tag")
    assert len(str(await failure(sandbox, hostile_functions.fail, "long" * 100_000))) < 600
    assert str(await failure(sandbox, hostile_functions.recurse)).startswith("RecursionError: ")


@pytest.mark.parametrize("function", [hostile_functions.stutter, hostile_functions.process])
async def test_a_result_of_another_type_is_a_crash(sandbox: Sandbox, function: Callable[..., Any]) -> None:
    assert (await failure(sandbox, function, returns=Finding)).reason is Reason.SANDBOX_CRASHED


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xff" * 64, Reason.SANDBOX_OUTPUT),
        (struct.pack("!Q", 4) + b"R\xc1\xc1\xc1", Reason.SANDBOX_CRASHED),
        (struct.pack("!Q", 4) + b"E\xc1\xc1\xc1", Reason.SANDBOX_CRASHED),
        (struct.pack("!Q", 6) + b"R\xdd\xff\xff\xff\xff", Reason.SANDBOX_CRASHED),
        (struct.pack("!Q", 50_001) + b"R" + b"\x91" * 50_000, Reason.SANDBOX_CRASHED),
        (struct.pack("!Q", 0), Reason.SANDBOX_CRASHED),
    ],
)
async def test_a_child_that_breaks_the_protocol_is_replaced(sandbox: Sandbox, message: bytes, reason: Reason) -> None:
    assert (await failure(sandbox, hostile_functions.babble, message, returns=list[object])).reason is reason
    assert await sandbox.run(hostile_functions.echo, 1, returns=int) == 1


def local_function() -> None: ...


@pytest.mark.parametrize("function", [local_function, os.getpid, lambda: None, Path.cwd])
async def test_only_module_level_functions_of_known_packages_are_run(
    sandbox: Sandbox, function: Callable[..., Any]
) -> None:
    with pytest.raises(ValueError, match="is not"):
        await sandbox.run(function, returns=object)


async def test_a_call_that_takes_too_long_is_killed_and_its_child_replaced(sandbox: Sandbox) -> None:
    child = await sandbox.run(hostile_functions.process, returns=int)
    error = await failure(sandbox, hostile_functions.spin, seconds=0.1)
    assert (error.reason, str(error)) == (Reason.SANDBOX_TIMEOUT, "stopped after 0.1 s")
    await until(lambda: not exists(child))
    assert await sandbox.run(hostile_functions.process, returns=int) != child


async def test_a_call_that_needs_too_much_memory_is_stopped() -> None:
    async with a_sandbox(memory_mb=256) as sandbox:
        error = await failure(sandbox, hostile_functions.allocate)
        assert (error.reason, str(error)) == (Reason.SANDBOX_MEMORY, "the child process ran out of memory")
        assert await sandbox.run(hostile_functions.echo, 1, returns=int) == 1


async def test_c_code_that_aborts_without_memory_is_not_a_crash(sandbox: Sandbox) -> None:
    """Spec 4.3: that is how pdfium ends when it gets no more, and the C library when it gets none for its threads."""
    said = "the child process aborted, probably without memory"
    for function, argument in ((hostile_functions.shoot_itself, signal.SIGABRT), (hostile_functions.leave, 127)):
        error = await failure(sandbox, function, argument)
        assert (error.reason, str(error)) == (Reason.SANDBOX_MEMORY, said)
    assert await sandbox.run(hostile_functions.echo, 1, returns=int) == 1


async def test_a_result_that_is_too_large_is_refused(sandbox: Sandbox) -> None:
    child = await sandbox.run(hostile_functions.process, returns=int)
    error = await failure(sandbox, hostile_functions.produce, 1024 * 1024, returns=bytes, output_bytes=1024 * 1024)
    assert error.reason is Reason.SANDBOX_OUTPUT
    await until(lambda: not exists(child))
    assert len(await sandbox.run(hostile_functions.produce, 1000, returns=bytes, output_bytes=1010)) == 1000


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (hostile_functions.leave, ()),
        (hostile_functions.exit_politely, ()),
        (hostile_functions.shoot_itself, (signal.SIGKILL,)),
        (hostile_functions.shoot_itself, (signal.SIGSEGV,)),
        (hostile_functions.touch_nothing, ()),
        (hostile_functions.overflow_the_stack, ()),
    ],
)
async def test_the_death_of_a_child_is_a_failure_of_its_call_only(
    sandbox: Sandbox, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    assert (await failure(sandbox, function, *args)).reason is Reason.SANDBOX_CRASHED
    assert await sandbox.run(hostile_functions.echo, 1, returns=int) == 1


async def test_a_child_that_dies_between_calls_is_replaced_unnoticed(sandbox: Sandbox) -> None:
    child = await sandbox.run(hostile_functions.process, returns=int)
    os.kill(child, signal.SIGKILL)
    await until(lambda: not exists(child))
    assert await sandbox.run(hostile_functions.process, returns=int) != child


async def test_a_child_can_open_few_files_and_has_limits(sandbox: Sandbox) -> None:
    assert "Too many open files" in str(await failure(sandbox, hostile_functions.open_many))
    assert await sandbox.run(hostile_functions.limits, returns=list[int]) == [1024 * 1024 * 1024, 0, 0, 32]


async def test_a_child_has_no_access_to_the_terminal(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    await sandbox.run(hostile_functions.shout, returns=NOTHING)
    assert capfd.readouterr() == ("", "")
    assert os.getsid(await sandbox.run(hostile_functions.process, returns=int)) != os.getsid(0)


async def test_a_child_sees_neither_the_secrets_nor_the_main_module_of_the_program(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_API_DATA_GOV_KEY", "secret")
    assert "secret" not in (await sandbox.run(hostile_functions.environment, returns=dict[str, str])).values()
    assert await sandbox.run(hostile_functions.main_file, returns=str | None) is None
    assert "pytest" not in await sandbox.run(hostile_functions.modules, returns=list[str])


async def test_a_child_is_used_for_a_limited_number_of_calls(sandbox: Sandbox) -> None:
    children = [await sandbox.run(hostile_functions.process, returns=int) for _ in range(1001)]
    assert len(set(children[:1000])) == 1
    assert children[1000] != children[0]


async def test_no_process_starts_before_the_first_call() -> None:
    before = set(os.listdir("/proc/self/fd"))
    async with a_sandbox():
        assert set(os.listdir("/proc/self/fd")) == before


async def test_calls_run_concurrently_on_as_many_children_as_allowed() -> None:
    async with a_sandbox(workers=2) as sandbox:
        children = await asyncio.gather(*(sandbox.run(hostile_functions.nap, 0.05, returns=int) for _ in range(6)))
    assert len(set(children)) == 2


async def test_calls_beyond_the_limit_wait(sandbox: Sandbox) -> None:
    order: list[int] = []

    async def call(number: int) -> None:
        order.append(await sandbox.run(hostile_functions.echo, number, returns=int))

    await asyncio.gather(*(call(number) for number in range(20)))
    assert order == list(range(20))


async def test_cancelling_a_call_kills_its_child_and_releases_its_slot(sandbox: Sandbox) -> None:
    call = asyncio.create_task(sandbox.run(hostile_functions.spin, returns=NOTHING))
    [(child, _)] = await find_busy()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not exists(child))
    assert await sandbox.run(hostile_functions.echo, 1, returns=int) == 1


async def test_cancelling_while_a_child_starts_leaves_nothing_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    async with a_sandbox() as sandbox:
        call = asyncio.create_task(sandbox.run(hostile_functions.echo, 1, returns=int))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await sandbox.run(hostile_functions.echo, 2, returns=int) == 2
    assert set(os.listdir("/proc/self/fd")) == before


async def test_a_sandbox_at_rest_has_no_process() -> None:
    """Issue 25: the processes start again with the next call."""
    async with a_sandbox(rest_seconds=0.3) as sandbox:
        first = await sandbox.run(hostile_functions.process, returns=int)
        await until(lambda: not psutil.pid_exists(first))
        assert await sandbox.run(hostile_functions.process, returns=int) != first
        assert await sandbox.run(hostile_functions.nap, 0.5, returns=int) != first  # a call is no rest


async def test_a_dead_fork_server_is_replaced(sandbox: Sandbox) -> None:
    server = await sandbox.run(hostile_functions.parent, returns=int)
    call = asyncio.create_task(failure(sandbox, hostile_functions.spin, seconds=0.5))
    [(child, _)] = await find_busy()
    os.kill(server, signal.SIGKILL)
    assert (await call).reason is Reason.SANDBOX_TIMEOUT
    assert await sandbox.run(hostile_functions.parent, returns=int) != server
    await until(lambda: not lives(child))


async def test_closing_leaves_no_process_and_no_descriptor_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    sandbox = a_sandbox(workers=3)
    idle = set(await asyncio.gather(*(sandbox.run(hostile_functions.nap, 0.05, returns=int) for _ in range(2))))
    server = await sandbox.run(hostile_functions.parent, returns=int)
    busy = asyncio.create_task(failure(sandbox, hostile_functions.spin, seconds=60))
    queued = [asyncio.create_task(failure(sandbox, hostile_functions.spin, seconds=60)) for _ in range(5)]
    processes = {server, *idle, *(child for child, _ in await find_busy(3))}
    assert all(map(exists, processes))
    began = time.monotonic()
    await sandbox.close()
    assert time.monotonic() - began < 1
    assert not any(map(exists, processes))
    assert set(os.listdir("/proc/self/fd")) == before
    assert {(await call).reason for call in (busy, *queued)} == {Reason.SHUTDOWN}


async def test_a_closed_sandbox_refuses_calls_and_may_be_closed_again(sandbox: Sandbox) -> None:
    await sandbox.close()
    assert (await failure(sandbox, hostile_functions.echo, 1)).reason is Reason.SHUTDOWN
    await sandbox.close()


PROGRAM = """
import asyncio, sys
sys.path[:0] = sys.argv[1:]
from headwater.sandbox.pool import Sandbox
from tests.integration import hostile_functions

async def main():
    async with Sandbox(packages=["tests"], preload=[hostile_functions.__name__], workers=2) as sandbox:
        await asyncio.gather(
            sandbox.run(hostile_functions.spin, returns=int, seconds=60),
            sandbox.run(hostile_functions.spin, returns=int, seconds=60),
        )

asyncio.run(main())
"""


async def test_neither_children_nor_fork_server_outlive_a_killed_program() -> None:
    """Spec 9.3."""
    command = [sys.executable, "-c", PROGRAM, str(Path(hostile_functions.__file__).parents[2])]
    program = await asyncio.create_subprocess_exec(*command)
    try:
        processes = {number for pair in await find_busy(2, program.pid) for number in pair}
    finally:
        program.kill()
        await program.wait()
    assert len(processes) == 3
    await until(lambda: not any(map(lives, processes)), seconds=2)


async def test_a_busy_child_ends_itself_after_its_program_died(sandbox: Sandbox) -> None:
    call = asyncio.create_task(failure(sandbox, hostile_functions.spin, seconds=0.5))
    [(child, server)] = await find_busy()
    os.kill(server, signal.SIGKILL)
    assert (await call).reason is Reason.SANDBOX_TIMEOUT
    await until(lambda: not lives(child), seconds=5)


def test_every_headwater_error_but_one_can_leave_a_child() -> None:
    from headwater.sandbox.pool import _ERRORS

    every = {HeadwaterError, *HeadwaterError.__subclasses__()}
    assert {kind.__name__ for kind in every if kind.__module__ == "headwater.core.errors"} - set(_ERRORS) == {"NotNow"}
