"""A test of the harness: a planted bug breaks the invariant that guards against it."""

import pytest

from tests.database_clock import step_clock
from tests.faults.conftest import Crawl
from tests.faults.harness import Harness
from tests.faults.invariants import violations


async def found_without_fence(harness: Harness) -> None:
    """Commit long after the leases have ended, when another program has done the work."""
    await harness.start("up", plant="no fence,late commit")
    await harness.until_held_back()
    await harness.start("up", plant="no fence,brisk rescuer")
    await harness.until_done(60)
    await harness.let_commit()


async def found_with_commit_before_file(harness: Harness) -> None:
    """Kill a program after the commit of a row and before the file is written."""
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
    for part in (0.2, 0.4, 0.6, 0.8):  # at one of them a host has its pause
        await harness.until_under_way(part)
        await step_clock(harness.database_url, 60)
    await harness.until_done(60)


async def found_without_the_trigger_that_settles_jobs(harness: Harness) -> None:
    assert await harness.run("source", "sync", "s1") == 0
    await harness.rows("DROP TRIGGER settle_waiting ON url_frontier")
    await harness.start("up")
    await harness.until_done(60)


async def found_without_the_trigger_that_notes_new_documents(harness: Harness) -> None:
    await harness.rows("DROP TRIGGER record_new ON documents")
    await harness.start("up")
    await harness.until_done(60)


MANY = {"hosts": 20, "pages": 8, "delay_ms": 300}
# On a machine of any speed: few hosts get a second request soon, and some of many have their pause.
FEW = {"hosts": 5, "pages": 6, "delay_ms": 1000}
PATIENT = {"hosts": 20, "pages": 5, "delay_ms": 1000}
QUICK = {"hosts": 10, "pages": 3, "delay_ms": 50}


@pytest.mark.parametrize(
    ("scenario", "web", "invariant"),
    [
        (found_without_fence, MANY, "every_url_ends_once"),
        (found_with_commit_before_file, MANY, "every_raw_file_matches_its_row"),
        (found_without_politeness, FEW, "no_host_is_asked_too_soon"),
        (found_with_a_hasty_clock, PATIENT, "no_host_is_asked_too_soon"),
        (found_without_the_trigger_that_settles_jobs, QUICK, "every_hand_off_has_one_job_that_ended_as_its_page"),
        (found_without_the_trigger_that_notes_new_documents, QUICK, "every_change_of_a_document_is_told_of_once"),
    ],
)
async def test_a_planted_bug_breaks_its_invariant(
    scenario: object, web: dict[str, int], invariant: str, crawl: Crawl
) -> None:
    """Issue 3. test_frontier.py has the bug in the re-check of claims, where it can hold the moment."""
    async with crawl(**web, feeds=2, plain=True) as harness:
        await scenario(harness)  # type: ignore[operator]
        await harness.stop()
        assert invariant in await violations(harness)
