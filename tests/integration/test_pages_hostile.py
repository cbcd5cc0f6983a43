"""Every page shows hostile text as text (spec 8.4, 11.13, issue 22)."""

from collections.abc import AsyncIterator, Callable

import pytest

from headwater.app.metrics import Metrics
from headwater.app.operations import Operations
from headwater.core.settings import Settings
from headwater.web import make_app
from tests.api import TOKEN
from tests.every_page import ADDRESSES, fill_pages, list_routes
from tests.harness import AppHarness, open_harness
from tests.integration.test_pages import check_page
from tests.pages import open_reader
from tests.server import Site

HOSTILE = '<script>alert(1)</script> "x" onmouseover="y \' \x1b[31mred\x1b[0m \u202eevil \u2066<img src=x onerror=z>'
CALM = "<script>alert(1)</script>"
# The columns with text from outside, or with text of a user, that pages show.
COLUMNS = {
    "items": "title",
    "documents": "title byline abstract normalizer",
    "document_revisions": "title",
    "texts": "body",
    "runs": "error",
    "poll_state": "last_error next_poll_why",
    "poll_log": "error",
    "fetch_log": "detail holder",
    "history_marks": "label",
    "host_state": "robots_txt",
    "ingestion_handoffs": "error",
    "webhooks": "error",
    "saved_searches": "words",
}


@pytest.fixture
async def harness(site: Site, make_settings: Callable[..., Settings]) -> AsyncIterator[AppHarness]:
    async with open_harness(make_settings(connect_to=site.connect_to, api_token=TOKEN)) as opened:
        await fill_pages(opened, site)
        for table, columns in COLUMNS.items():
            for column in columns.split():
                text = f"{column} || $1" if (table, column) == ("texts", "body") else "$1"
                await opened.execute(f"UPDATE {table} SET {column} = {text}", HOSTILE)
        category = "UPDATE sources SET settings = settings || jsonb_build_object('category', $1::text)"
        await opened.execute(category, HOSTILE)
        yield opened


async def test_every_page_shows_hostile_text_as_text(harness: AppHarness) -> None:
    app = make_app(Operations(harness.runtime, Metrics()))
    assert list_routes(app) == ADDRESSES.keys(), "each page has an address in tests/every_page.py"
    shown = {}
    async with open_reader(harness.operations.settings) as reader:
        for is_signed_in in (False, True):
            if is_signed_in:
                await reader.sign_in()
            for path in ADDRESSES.values():
                page = await reader.get(f"/ui{path}")
                assert page.status in ((200,) if is_signed_in else (200, 403)), path
                check_page(page)
                assert not page.tree.css("main img, main [onmouseover], main [onerror]"), path
                if CALM in page.tree.css_first("main").text():
                    shown[path] = True
    assert len(shown) > 15, f"the hostile text is on these pages only: {sorted(shown)}"
