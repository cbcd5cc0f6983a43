"""What the stand-in for GOV.UK has in its index: pages, and large made-up days of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from random import Random
from types import MappingProxyType
from uuid import NAMESPACE_URL, uuid5
from zlib import crc32

from headwater.core.dates import bounds

LONDON = "Europe/London"
_MINUTE, _SECOND = timedelta(minutes=1), timedelta(seconds=1)

# Types that the index keeps apart; all others are its "edition".
_OWN_TYPES = frozenset({"aaib_report", "drug_safety_update", "raib_report", "research_for_development_output"})
_DATED_TYPES = frozenset({"drug_safety_update", "research_for_development_output"})


def content_id(key: str) -> str:
    """Return the id that a page, an organisation or a taxon of that name has on every run."""
    return str(uuid5(NAMESPACE_URL, key))


@dataclass(frozen=True, slots=True)
class Organisation:
    """One that publishes."""

    title: str
    slug: str
    acronym: str
    organisation_type: str = "ministerial_department"

    @property
    def link(self) -> str:
        """Where its own page would be."""
        return f"/government/organisations/{self.slug}"

    @property
    def content_id(self) -> str:
        """Its id."""
        return content_id(self.link)


@dataclass(frozen=True, slots=True, kw_only=True)
class GovukPage:
    """A page as search knows it; what the Content API says otherwise is in the last three fields."""

    title: str
    link: str  # a path, or the address of a page elsewhere
    description: str = ""
    first_published_at: datetime | None
    public_timestamp: datetime | None  # of the last major update
    updated_at: datetime  # of the index, which is no business of the page
    content_id: str | None = None
    document_type: str = "guidance"  # the content_store_document_type
    organisations: tuple[Organisation, ...] = ()
    taxons: tuple[str, ...] = ()  # ids
    latest_change_note: str | None = None
    in_content: bool = True  # False: the Content API answers 404
    content_first_published_at: datetime | None = None  # None: as search has it
    content_updated_at: datetime | None = None  # None: as search has it

    @property
    def index_type(self) -> str:
        """What search calls its document_type unless content_store_document_type is asked for."""
        return self.document_type if self.document_type in _OWN_TYPES else "edition"

    @property
    def shows_first_published_at(self) -> bool:
        """Whether search gives the date that it lets every page be filtered by."""
        return self.document_type in _DATED_TYPES

    @property
    def popularity(self) -> float:
        """How popular it is: by chance, and always the same."""
        return crc32(self.link.encode()) / 2**32


RIVERS = Organisation("Department for Rivers and Weirs", "department-for-rivers-and-weirs", "DRW")
READING = Organisation("Office for Public Reading", "office-for-public-reading", "OPR", "executive_agency")
ROADS = Organisation("Roads & Ferries Agency", "roads-and-ferries-agency", "RFA", "executive_agency")
TAXON_NAMES: Mapping[str, str] = MappingProxyType(
    {
        content_id(f"taxon/{name}"): name
        for name in ("Rivers and floods", "Libraries and reading", "Transport", "Public money", "Weather")
    }
)
_ORGANISATIONS = (RIVERS, READING, ROADS)
_TYPES = ("guidance", "press_release", "policy_paper", "news_story", "official_statistics", "transparency")


def make_catalogue(day: date, *, new: int, latest: int, others: int = 0, seed: int = 1) -> list[GovukPage]:
    """Make the pages of a London day: so many first published on it, so many older ones updated on it, and others.

    Whatever the seed: the first two of each sort stand on the day's first and last second, minutes are shared by
    several pages, and of the new ones some were updated again on the day, some after it, and some have no
    public_timestamp. The others were touched before the day or after it only.
    """
    return list(_Maker(day, seed).pages(new, latest, others))


class _Maker:
    def __init__(self, day: date, seed: int) -> None:
        self.random = Random(f"{seed}/{day}")  # noqa: S311 - not a secret
        self.start, self.end = bounds(day, LONDON)

    def pages(self, new: int, latest: int, others: int) -> Iterator[GovukPage]:
        for number in range(new):
            published = self.in_day(number)
            yield self.page("new", number, published, self.update_of_new(number, published))
        for number in range(latest):
            yield self.page("latest", number, self.before(), self.in_day(number))
        for number in range(others):
            published = self.before()
            yield self.page("other", number, published, self.after() if number % 2 else published)

    def page(self, sort: str, number: int, published: datetime, updated: datetime | None) -> GovukPage:
        link = f"/government/publications/{sort}-notice-{number}"
        taxon = self.random.choice(list(TAXON_NAMES))
        return GovukPage(
            title=f"{TAXON_NAMES[taxon]}: {sort} notice {number}",
            link=link,
            description=f"What notice {number} says, in one sentence.",
            first_published_at=published,
            public_timestamp=updated,
            updated_at=(updated or published) + 90 * _SECOND,
            content_id=content_id(link),
            document_type=self.random.choice(_TYPES),
            organisations=(self.random.choice(_ORGANISATIONS),),
            taxons=(taxon,),
            latest_change_note=None if updated == published else "Figures corrected.",
        )

    def in_day(self, number: int) -> datetime:
        edges = (self.start, self.end - _SECOND)
        return edges[number] if number < len(edges) else self.between(self.start, self.end)

    def update_of_new(self, number: int, published: datetime) -> datetime | None:
        if number % 50 == 9:
            return None
        match number % 10:
            case 3:
                return self.between(published, self.end)
            case 7:
                return self.after()
        return published

    def before(self) -> datetime:
        return self.between(self.start - timedelta(days=400), self.start)

    def after(self) -> datetime:
        return self.between(self.end, self.end + timedelta(days=1))

    def between(self, earliest: datetime, end: datetime) -> datetime:
        """Return some full minute after the earliest, or that one."""
        return earliest + self.random.randrange(max(1, (end - earliest) // _MINUTE)) * _MINUTE
