"""Reports of the Congressional Research Service: their list from api.congress.gov, and their pages or records."""

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Literal

from headwater.core.errors import Unreadable
from headwater.core.source import Item, Undated
from headwater.sources.kinds.federal.congress import CongressApi, CongressKind
from headwater.sources.kinds.records import Record, check_url, read_midnight, read_text
from headwater.sources.run import Problems, Run

_NUMBER = re.compile(r"([A-Z]{0,4})\d[\d-]{0,20}")  # R47175, or the old form 98-807
_OVERLAP = timedelta(days=2)


class CrsReportsKind(CongressKind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reports that were updated since the last run. The first run reads all of them."""

    schedule: str | None = "0 8 * * *"
    files_url: str = "https://www.congress.gov/crs_external_products"
    # Fetch the page of a report, or its record in the API. The record has the summary and never an interstitial.
    form: Literal["html", "json"] = "html"

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        check_url("files_url", self.files_url)
        super().check()

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield each report once."""
        query = {}
        if read_at := run.state.get("read_at"):
            query["fromDateTime"] = f"{datetime.fromisoformat(read_at) - _OVERLAP:%Y-%m-%dT%H:%M:%SZ}"
        problems = Problems()
        for record in await CongressApi(run, self.api_url).read_list("crsreport", "CRSReports", _number, query):
            number = _number(record)
            if _NUMBER.fullmatch(number):
                yield self._item(record, number)
            else:
                problems.add(
                    read_text(record, "url"), Unreadable(f"A report has a number that cannot be used: {number!r}.")
                )
        problems.save(run.state)
        run.state["read_at"] = run.now.isoformat()

    def partition(self, item: Item) -> str:
        """Return `{number}.html`, or `{number}.json` for a record."""
        number = _number(item.raw)
        return f"{number}.json" if item.url == self._record_url(number) else f"{number}.html"

    def _item(self, record: Record, number: str) -> Item:
        # The date of the current version. `updateDate` is the date of the record.
        published_at = read_midnight(record, "publishDate", self.timezone)
        return Item(
            url=self._record_url(number) if self.form == "json" else self._page_url(number),
            title=read_text(record, "title") or number,
            published_at=published_at,
            updated_at=published_at,
            undated=Undated.UNKNOWN,
            tags={"document_type": read_text(record, "contentType") or None, "native_ids": {"report": number}},
            raw=record,
        )

    def _page_url(self, number: str) -> str:
        """Return the URL of a report's page, or of its record if its number has no series."""
        series = number.rstrip("0123456789-")
        return f"{self.files_url.rstrip('/')}/{series}/HTML/{number}.html" if series else self._record_url(number)

    def _record_url(self, number: str) -> str:
        return f"{self.api_url.rstrip('/')}/crsreport/{number}?format=json"


def _number(record: Record) -> str:
    return read_text(record, "id")
