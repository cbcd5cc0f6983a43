"""Reports of the Congressional Research Service: the list of api.congress.gov, and the page or record of each."""

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Literal

from headwater.model.source import Item, Undated
from headwater.policy.urls import host_of
from headwater.sources.federal.congress import API_URL, CongressApi
from headwater.sources.federal.counted import Record
from headwater.sources.federal.fields import HOME, check_address, midnight, text
from headwater.sources.kind import Kind
from headwater.sources.run import Run

_NUMBER = re.compile(r"([A-Z]{1,4})\d{4,6}")
_OVERLAP = timedelta(days=2)


class CrsReportsKind(Kind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reports that were touched since the last run, or all of them at first."""

    schedule: str | None = "0 8 * * *"
    timezone: str | None = HOME
    budget: Literal["api.data.gov"] | None = "api.data.gov"
    api_url: str = API_URL
    files_url: str = "https://www.congress.gov/crs_external_products"
    # What is fetched of a report: its page, or its record in the API, which has the summary and is behind no bot wall.
    form: Literal["html", "json"] = "html"

    @property
    def api_hosts(self) -> frozenset[str]:
        """The API, which counts requests; the reports are not part of it."""
        return frozenset({host_of(self.api_url)})

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        check_address("api_url", self.api_url)
        check_address("files_url", self.files_url)
        super().check()

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield each report once."""
        query = {}
        if read_at := run.state.get("read_at"):
            query["fromDateTime"] = f"{datetime.fromisoformat(read_at) - _OVERLAP:%Y-%m-%dT%H:%M:%SZ}"
        for record in await CongressApi(run, self.api_url).listed("crsreport", "CRSReports", _number, query):
            if _NUMBER.fullmatch(_number(record)):
                yield self._item(record)
        run.state["read_at"] = run.now.isoformat()

    def partition(self, item: Item) -> str:
        """Return `{number}.html`, or `{number}.json` for a record."""
        return f"{_number(item.raw)}.{self.form}"

    def _item(self, record: Record) -> Item:
        number = _number(record)
        # Of the version that stands now: `updateDate` is when the record was touched.
        published_at = midnight(record, "publishDate", self.timezone)
        return Item(
            url=self._address(number),
            title=text(record, "title") or number,
            published_at=published_at,
            updated_at=published_at,
            undated=Undated.UNKNOWN,
            tags={"document_type": text(record, "contentType") or None, "native_ids": {"report": number}},
            raw=record,
        )

    def _address(self, number: str) -> str:
        if self.form == "json":
            return f"{self.api_url.rstrip('/')}/crsreport/{number}?format=json"
        family = number.rstrip("0123456789")
        return f"{self.files_url.rstrip('/')}/{family}/HTML/{number}.web.html"


def _number(record: Record) -> str:
    return text(record, "id")
