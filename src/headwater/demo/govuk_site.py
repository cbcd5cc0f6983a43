"""GOV.UK on the demo web: pages and APIs from one table, which has each trap of a London day.

The times of the table are those of London. The pages show its days, with hours of their own.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from headwater.demo.govuk_api import GovukApi
from headwater.demo.govuk_pages import LONDON, READING, RIVERS, ROADS, TAXON_NAMES, GovukPage, Organisation, content_id
from headwater.demo.pages import slug
from headwater.demo.plan import Ends, Piece, Site

Label = Literal["NEW", "LATEST"]

_ZONE = ZoneInfo(LONDON)
_INDEXED_AFTER = timedelta(seconds=95)
_TAXONS = {name: taxon for taxon, name in TAXON_NAMES.items()}


@dataclass(frozen=True, slots=True)
class _At:
    """A time in London, some days before the day of the web."""

    days_ago: int
    hour: int = 9
    minute: int = 30
    second: int = 0

    def on(self, today: date) -> datetime:
        day = today - timedelta(days=self.days_ago)
        return datetime.combine(day, time(self.hour, self.minute, self.second), _ZONE).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class _Row:
    headline: str
    topic: str
    published: _At
    updated: _At | None
    _: KW_ONLY
    document_type: str = "guidance"
    organisations: tuple[Organisation, ...] = (RIVERS,)
    taxon: str = "Rivers and floods"
    elsewhere: str | None = None  # the address, if the page is on another host
    in_content: bool = True
    content_updated: _At | None = None  # the time of the Content API, if it is another

    @property
    def path(self) -> str:
        return f"/government/publications/{slug(self.headline)}"

    @property
    def link(self) -> str:
        return self.elsewhere or self.path

    def label(self, days_ago: int) -> Label | None:
        if self.published.days_ago == days_ago:
            return "NEW"
        if self.updated is not None and self.updated.days_ago == days_ago:
            return "LATEST"
        return None

    def piece(self) -> Piece:
        is_later = self.updated is not None and self.updated.days_ago < self.published.days_ago
        return Piece(
            self.headline,
            self.topic,
            self.published.days_ago,
            updated_days_ago=self.updated.days_ago if self.updated and is_later else None,
            path=self.path,
            link=self.elsewhere,
            ends=Ends.STORED if self.label(1) else Ends.NONE,  # only the pages of the day before are submitted
        )

    def page(self, today: date) -> GovukPage:
        published, updated = self.published.on(today), self.updated.on(today) if self.updated else None
        return GovukPage(
            title=self.headline,
            link=self.link,
            first_published_at=published,
            public_timestamp=updated,
            updated_at=(updated or published) + _INDEXED_AFTER,
            content_id=None if self.elsewhere else content_id(self.path),
            document_type=self.document_type,
            organisations=self.organisations,
            taxons=(_TAXONS[self.taxon],),
            latest_change_note=None if updated in (None, published) else "Brought up to date.",
            in_content=self.in_content,
            content_updated_at=self.content_updated.on(today) if self.content_updated else None,
        )


_MORNING = _At(1)
_LAST_SECOND = _At(1, 23, 59, 59)
_FIRST_SECOND = _At(1, 0, 0)
_MIDNIGHT_AFTER = _At(0, 0, 0)

_ROWS = (
    _Row("River gauges can be read by anglers and rowers", "rivers", _MORNING, _MORNING, document_type="press_release"),
    _Row(
        "Grants for village reading rooms open to all",
        "libraries",
        _At(1, 7, 0),
        _At(1, 16, 45),  # a second time on the day of its publication
        organisations=(READING,),
        taxon="Libraries and reading",
    ),
    _Row("Bus fares in small towns: what drivers may ask", "transport", _At(21), _At(1, 11, 15), taxon="Transport"),
    _Row(
        "Tables of what each region spends, second edition",
        "budgets",
        _At(40),
        _At(1, 14, 0),
        document_type="official_statistics",
        organisations=(READING, ROADS),
        taxon="Public money",
    ),
    # It was one of the day before until its next update.
    _Row("Flood warnings by telephone: how to be called", "weather", _At(30), _At(0, 0, 30), taxon="Weather"),
    _Row("Notice to mariners on the lower Wend", "rivers", _At(1, 12, 0), None),
    _Row(
        "Road repairs as the town tells it",
        "transport",
        _At(1, 10, 0),
        _At(1, 10, 0),
        organisations=(ROADS,),
        taxon="Transport",
        elsewhere="http://gazette.demo.test/news/road-repairs",
    ),
    _Row(
        "Decision about the footbridge in Mill Lane",
        "councils",
        _At(300, 10, 33, 55),
        _At(1, 13, 55, 40),
        document_type="employment_tribunal_decision",
        organisations=(ROADS,),
        taxon="Transport",
        content_updated=_At(5, 15, 10, 7),
    ),
    _Row("Ferry crossings in fog: standing orders", "weather", _At(14), _At(1, 15, 30), in_content=False),
    _Row("Weir licences are granted until the last minute", "rivers", _LAST_SECOND, _LAST_SECOND),
    _Row("Winter tolls apply from midnight", "transport", _FIRST_SECOND, _FIRST_SECOND, taxon="Transport"),
    _Row("Summer tolls apply from the midnight after", "transport", _MIDNIGHT_AFTER, _MIDNIGHT_AFTER),
    _Row(
        "Willow bark tonic: new advice for ferrymen", "rivers", _MORNING, _MORNING, document_type="drug_safety_update"
    ),
    _Row("How to read a tide table", "rivers", _At(60), _At(10)),
)


def govuk_api(today: date, _seed: int = 1) -> GovukApi:
    """Make the API of the host for a day."""
    return GovukApi(row.page(today) for row in _ROWS)


GOVUK = Site(
    host="govuk.demo.test",
    title="Government of the Valley",
    look="council",
    pieces=tuple(row.piece() for row in _ROWS),
    api=govuk_api,
)


def expected_day(day: date, *, today: date | None = None) -> Mapping[str, Label]:
    """Return the label of each link of a London day, on a web whose day is `today` (by default the day after)."""
    days_ago = 1 if today is None else (today - day).days
    return {row.link: label for row in _ROWS if (label := row.label(days_ago)) is not None}
