"""The harness itself: with a bug put into the program, the invariant that guards against it is seen to break."""

import pytest

from tests.faults.conftest import Crawl
from tests.faults.harness import Harness
from tests.faults.invariants import violations
from tests.stepping import step_clock


async def found_without_fence(harness: Harness) -> None:
    """A program commits long after its leases have ended, when another has done the work."""
    await harness.start("up", plant="no fence,late commit")
    await harness.until_held_back()
    await harness.start("up", plant="no fence,brisk rescuer")
    await harness.until_done(60)
    await harness.let_commit()


async def found_with_commit_before_file(harness: Harness) -> None:
    """A program dies after it has committed a row and before the file is there."""
    first = await harness.start("up", plant="commit before file")
    await harness.until_under_way(0.2)
    await harness.kill(first)
    await harness.start("up")
    await harness.until_done(60)


async def found_without_politeness(harness: Harness) -> None:
    await harness.start("up", plant="no politeness")
    await harness.until_done(60)


async def found_with_a_hasty_clock(harness: Harness) -> None:
    await harness.start("up", plant="hasty clock")
    await harness.until_under_way(0.2)
    await step_clock(harness.database_url, 60)
    await harness.until_done(60)


@pytest.mark.parametrize(
    ("scenario", "invariant"),
    [
        (found_without_fence, "every_url_ends_once"),
        (found_with_commit_before_file, "every_raw_file_matches_its_row"),
        (found_without_politeness, "no_host_is_asked_too_soon"),
        (found_with_a_hasty_clock, "no_host_is_asked_too_soon"),
    ],
)
async def test_a_planted_bug_breaks_its_invariant(scenario: object, invariant: str, crawl: Crawl) -> None:
    """Issue 3. The re-check of claims is planted against in test_frontier.py, where its moment can be held still."""
    async with crawl(hosts=20, pages=8, feeds=2, delay_ms=300, plain=True) as harness:
        await scenario(harness)  # type: ignore[operator]
        await harness.stop()
        assert invariant in await violations(harness)
