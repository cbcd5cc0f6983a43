"""No page reads a large table in whole (issue 22). The bench of the pages fills the database."""

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import groupby

from bench.pages import Size, choose_paths, fill
from bench.server import connect
from bench.steps import showing_steps

from headwater.core.settings import Settings
from tests.api import TOKEN
from tests.harness import open_harness
from tests.pages import open_reader

SIZE = Size(documents=20_000, urls=100_000, sources=60)
LARGE = 5000
# Each row of these is of a source. A list of sources needs the state of all of them.
OF_SOURCES = {"sources", "poll_state"}
SCANS = "SELECT relname, coalesce(seq_scan, 0) AS scans, n_live_tup AS rows FROM pg_stat_user_tables"


async def test_no_statement_of_a_page_reads_a_large_table_in_whole(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings(api_token=TOKEN)
    async with open_harness(settings):
        pass  # it makes the schema
    async with connect(settings.database_url) as connection:
        with showing_steps() as steps:
            await fill(connection, SIZE, datetime.now(UTC), steps)
        paths = await choose_paths(connection)
        seen = {row["relname"]: row["scans"] for row in await connection.fetch(SCANS)}
        chance, found = random.Random(1), {}
        addresses = {name: make(chance) for name, make in paths.items()}
        for part, pages in groupby(addresses.items(), key=lambda page: re.split("[/?]", page[1])[0]):
            async with open_reader(settings) as reader:  # its connections report their scans when they close
                await reader.sign_in()
                statuses = {name: (await reader.get(f"/ui/{path}")).status for name, path in pages}
            assert (part, set(statuses.values())) == (part, {200}), statuses
            for table, scans, rows in await connection.fetch(SCANS):
                if scans > seen[table] and rows > LARGE and table not in OF_SOURCES:
                    found.setdefault(part, []).append(table)
                seen[table] = scans
    assert found == {}
