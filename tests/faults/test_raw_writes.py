"""After a kill at any step of a raw write, the file of every row matches its hash (spec 1.5)."""

import asyncio
import json
import os
from datetime import UTC, datetime

import pytest

from headwater.db.sql import query
from tests.faults.conftest import Crawl
from tests.faults.harness import Harness
from tests.faults.invariants import every_raw_file_matches_its_row
from tests.program import headwater

BEFORE_THE_REPLACE = ("the raw file is drafted",)
BEFORE_THE_COMMIT = (
    "the raw file is renamed",
    "the raw file is in place",
    "texts are written",
    "a document is saved",
    "queue and log are written",
)
AFTER_THE_COMMIT = ("a batch is committed",)


@pytest.mark.timeout(240)
async def test_a_kill_around_any_step_of_a_raw_write_leaves_every_row_its_file(
    crawl: Crawl,
) -> None:
    """All pages have changed and are fetched again, so a new file with an old row is noticed."""
    async with crawl(hosts=40, pages=1, plain=True) as harness:
        await work(harness)
        harness.swarm.rewrite(seed=2)
        ids = [row[0] for row in await harness.rows("SELECT id FROM url_frontier")]
        await harness.rows(query("retry_urls"), ids, 5, datetime.now(UTC))
        await killed(harness, plant="half a draft")
        for point in BEFORE_THE_REPLACE:
            await killed(harness, point=point)
        assert await every_raw_file_matches_its_row(harness) == [], "a draft has changed what is in place"
        for point in (*BEFORE_THE_COMMIT, *AFTER_THE_COMMIT):
            await killed(harness, point=point)
        assert await every_raw_file_matches_its_row(harness) != [], "the kills must leave something to repair"
        await work(harness)
        assert await every_raw_file_matches_its_row(harness) == []
        openings = set(harness.swarm.openings().values())
        bodies = await harness.rows("SELECT body FROM documents JOIN texts USING (content_hash)")
        assert {body.partition("\n")[0] for (body,) in bodies} == openings
        verified = await command(harness, "verify")
        assert (verified["checked"], verified["wrong"]) == (40, 0)
        await assert_drafts_are_swept(harness)


async def work(harness: Harness) -> None:
    await harness.start("up")
    await harness.until_done(60)
    await harness.stop()


async def killed(harness: Harness, *, point: str | None = None, plant: str | None = None) -> None:
    await harness.run_until_killed(point=point, plant=plant)
    await harness.let_leases_end()


async def command(harness: Harness, *words: str) -> dict[str, object]:
    settings = harness.settings()
    answer = await asyncio.to_thread(headwater, *words, "--json", cwd=harness.folder, **settings)  # type: ignore[arg-type]
    told: dict[str, object] = json.loads(answer.stdout)
    return told


async def assert_drafts_are_swept(harness: Harness) -> None:
    """Old drafts of killed programs are removed, and the raw files stay."""
    drafts = list(harness.data.glob("corpus/*/bodies/raw/.tmp/*"))
    assert drafts
    for draft in drafts:
        os.utime(draft, (0, 0))
    assert (await command(harness, "source", "janitor", "--all"))["drafts"] == len(drafts)
    assert not any(draft.exists() for draft in drafts)
    assert await every_raw_file_matches_its_row(harness) == []
