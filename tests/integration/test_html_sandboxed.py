"""Issue 8, spec 4.3 and 5.3: bad pages take limited time and memory, and end with the right reason."""

import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from headwater.core.errors import HeadwaterError, SandboxFailed, Unreadable
from headwater.core.reasons import Reason
from headwater.extraction.registry import NormalizedPage, normalize
from headwater.sandbox.pool import Sandbox

URL = "https://example.org/a"
SECONDS = 2.0
MEMORY_MB = 300
MANY_NAMES = " ".join(f"a{number}" for number in range(200_000))
STORY = "<p>The harbour was quiet when the first of the new ferries came in from the north on Tuesday morning.</p>"


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(
        workers=1, memory_mb=MEMORY_MB, preload=["headwater.extraction.registry", "trafilatura"]
    ) as sandbox:
        await sandbox.run(normalize, page(STORY * 5), URL, None, returns=NormalizedPage)
        yield sandbox


def page(body: str, charset: str = "utf-8") -> bytes:
    return f"<html><head><meta charset={charset}></head><body><article>{body}</article></body></html>".encode(
        charset, "surrogatepass"
    )


async def read(sandbox: Sandbox, body: bytes, content_type: str | None = None) -> str:
    answer = await sandbox.run(normalize, body, URL, content_type, returns=NormalizedPage, seconds=SECONDS)
    return answer.article.text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html><body>" + b"<div>" * 100_000 + STORY.encode(), Reason.PARSE_FAILED),
        (b"<html><body><p>" + b"word " * 10_000_000, Reason.BODY_TOO_LARGE),
        (b"<html><body>" + b"<b>x" * 12_500_000, Reason.BODY_TOO_LARGE),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF" + random.Random(8).randbytes(500_000), Reason.UNSUPPORTED_TYPE),
        (b"<html><body>" + b"<iframe src=/a></iframe>" * 10_000, Reason.EMPTY_TEXT),
    ],
    ids=["100,000 deep", "50 MB of words", "50 MB of tags", "a JPEG", "10,000 iframes"],
)
async def test_an_unreadable_page_ends_with_its_reason(sandbox: Sandbox, body: bytes, reason: Reason) -> None:
    started = time.monotonic()
    with pytest.raises(Unreadable) as caught:
        await read(sandbox, body)
    assert caught.value.reason is reason
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (page(STORY.replace("quiet", "q\0u\0iet") * 5), None),
        (page(STORY.replace("quiet", "\ud800quiet\udfff") * 5), None),
        (page(STORY.replace("harbour", "Häfen") * 5, "windows-1252"), "text/html; charset=utf-8"),
        (page(STORY * 5 + "<iframe src=/a></iframe>" * 10_000), None),
        (page(STORY * 5 + "<table><tr><td>" * 1000), None),
        (page("".join(f"<p>{number} {STORY[3:]}" for number in range(5000))), None),
    ],
    ids=["NULs", "lone surrogates", "wrong charset", "10,000 iframes beside a text", "open tables", "long"],
)
async def test_an_odd_page_with_a_text_is_read(sandbox: Sandbox, body: bytes, content_type: str | None) -> None:
    text = await read(sandbox, body, content_type)
    assert text.count("the first of the new ferries") >= 5
    assert "\0" not in text
    text.encode()


@pytest.mark.parametrize(
    "piece",
    [
        "<p>a</p>",
        "<a href=x>",
        "<table><td>",
        "&",
        "<x-y z=1 w>",
        "<!--",
        "<p class='related sidebar'>b",
        "<li>1.1.2020",
        "<option>x",
        "<div class=author><i><a>Ann</a> x</i>",
    ],
)
async def test_megabytes_of_anything_end_within_their_limits(sandbox: Sandbox, piece: str) -> None:
    """If time or memory runs out, the sandbox kills the child, and the next page has another."""
    with suppress(HeadwaterError):
        await read(sandbox, page(piece * (3_000_000 // len(piece))))
    assert "ferries" in await read(sandbox, page(STORY * 5))


@pytest.mark.parametrize(
    "body", [f"<p {MANY_NAMES}>", "<select>" + "<option>x" * 100_000], ids=["attributes", "options"]
)
async def test_a_page_that_takes_minutes_to_parse_times_out(sandbox: Sandbox, body: str) -> None:
    with pytest.raises(SandboxFailed) as caught:
        await read(sandbox, page(body + STORY * 5))
    assert caught.value.reason is Reason.SANDBOX_TIMEOUT
    assert "ferries" in await read(sandbox, page(STORY * 5))
