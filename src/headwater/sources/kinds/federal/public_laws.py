"""Public laws: their list from api.congress.gov, and their texts in USLM from govinfo."""

import re
from collections.abc import AsyncIterator

from headwater.core.dates import day_of
from headwater.core.source import Item, Undated
from headwater.sources.kinds.federal.congress import CongressApi, CongressKind, congress_on, refuse_future
from headwater.sources.kinds.records import (
    US_CAPITAL,
    Record,
    check_url,
    read_midnight,
    read_object,
    read_objects,
    read_text,
)
from headwater.sources.run import Run

FIRST_CONGRESS = 113  # the first one with XML
_NUMBER = re.compile(r"(\d{1,3})-(\d{1,5})")
_BECAME = re.compile(r"Became Public Law No: ?(\d+-\d+)")


class PublicLawsKind(CongressKind, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Laws of the current Congress and of the one before, or of the Congresses in `congresses`."""

    schedule: str | None = "30 7 * * *"
    files_url: str = "https://www.govinfo.gov/content/pkg"
    congresses: tuple[int, ...] = ()

    def check(self) -> None:
        """Refuse settings that cannot work, with a ValueError that names the field."""
        check_url("files_url", self.files_url)
        if any(congress < FIRST_CONGRESS for congress in self.congresses):
            raise ValueError(f"congresses: laws before the {FIRST_CONGRESS}th Congress are not published as XML")
        super().check()

    async def discover(self, run: Run) -> AsyncIterator[Item]:
        """Yield each law once."""
        api = CongressApi(run, self.api_url)
        now = congress_on(day_of(run.now, self.timezone or US_CAPITAL))
        refuse_future(self.congresses, now)
        for congress in self.congresses or (now - 1, now):
            for record in await api.read_list(f"law/{congress}/pub", "bills", _key):
                for number in _numbers(record):
                    yield self._item(record, number)

    def partition(self, item: Item) -> str:
        """Return `{congress}/PLAW-{congress}publ{number}.xml`."""
        congress, number = item.tags["native_ids"]["law"].split("-")
        return f"{congress}/{_package(congress, number)}.xml"

    def _item(self, record: Record, law: str) -> Item:
        package = _package(*law.split("-"))
        action = read_object(record, "latestAction")
        became = _BECAME.match(read_text(action, "text"))
        is_enacted = became is not None and became[1] == law
        return Item(
            url=f"{self.files_url.rstrip('/')}/{package}/uslm/{package}.xml",
            title=read_text(record, "title") or f"Public Law {law}",
            # `updateDate` is the date of the record. Without the date of its last action, a law belongs to no day.
            published_at=read_midnight(action, "actionDate", self.timezone) if is_enacted else None,
            undated=Undated.UNKNOWN,
            tags={"document_type": "Public Law", "native_ids": {"law": law}},
            raw=record,
        )


def _key(record: Record) -> tuple[str, str, str]:
    return str(record.get("congress")), read_text(record, "type"), str(record.get("number"))


def _numbers(record: Record) -> list[str]:
    return [number for law in read_objects(record, "laws") if _NUMBER.fullmatch(number := read_text(law, "number"))]


def _package(congress: str, number: str) -> str:
    return f"PLAW-{congress}publ{number}"
