"""The pages in GOV.UK's index and their form in both APIs."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from zlib import crc32
from zoneinfo import ZoneInfo

from headwater.core.json_values import JsonObject

LONDON = "Europe/London"
_ZONE = ZoneInfo(LONDON)
# The search gives these types by their name, with the first publication date. It gives all others as "edition".
_OWN_TYPES = frozenset({"drug_safety_update", "research_for_development_output"})


def content_id(key: str) -> str:
    """Return the id of a page or a taxon. The same name gives the same id on every run."""
    return str(uuid5(NAMESPACE_URL, key))


@dataclass(frozen=True, slots=True)
class Organisation:
    """An organisation that publishes pages."""

    title: str
    slug: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GovukPage:
    """A page as the search knows it. The last three fields are what the Content API knows otherwise."""

    title: str
    link: str  # a path, or the address of a page on another host
    description: str = ""
    first_published_at: datetime | None
    public_timestamp: datetime | None  # the last major update
    updated_at: datetime  # the last change of the index
    content_id: str | None = None
    document_type: str = "guidance"  # the content_store_document_type
    organisations: tuple[Organisation, ...] = ()
    taxons: tuple[str, ...] = ()  # ids
    latest_change_note: str | None = None
    in_content: bool = True  # False: the Content API answers 404
    content_first_published_at: datetime | None = None  # None: the search is right
    content_updated_at: datetime | None = None  # None: the search is right

    @property
    def index_type(self) -> str:
        """The document_type in the search, unless content_store_document_type is asked for."""
        return self.document_type if self.document_type in _OWN_TYPES else "edition"

    @property
    def popularity(self) -> float:
        """A popularity that has nothing to do with time and is the same on every run."""
        return crc32(self.link.encode()) / 2**32


RIVERS = Organisation("Department for Rivers and Weirs", "department-for-rivers-and-weirs")
READING = Organisation("Office for Public Reading", "office-for-public-reading")
ROADS = Organisation("Roads & Ferries Agency", "roads-and-ferries-agency")
TAXON_NAMES: Mapping[str, str] = MappingProxyType(
    {
        content_id(f"taxon/{name}"): name
        for name in ("Rivers and floods", "Libraries and reading", "Transport", "Public money", "Weather")
    }
)


def _utc_text(moment: datetime | None) -> str | None:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if moment else None


def _london_text(moment: datetime | None) -> str | None:
    return moment.astimezone(_ZONE).isoformat(timespec="seconds") if moment else None


FIELDS: Mapping[str, Callable[[GovukPage], Any]] = {
    "content_id": lambda page: page.content_id,
    "content_store_document_type": lambda page: page.document_type,
    "description": lambda page: page.description,
    "first_published_at": lambda page: _utc_text(page.first_published_at) if page.index_type in _OWN_TYPES else None,
    "format": lambda page: page.document_type,
    "latest_change_note": lambda page: page.latest_change_note,
    "link": lambda page: page.link,
    "organisations": lambda page: list(map(asdict, page.organisations)),
    "public_timestamp": lambda page: _utc_text(page.public_timestamp),
    "taxons": lambda page: list(page.taxons),
    "title": lambda page: page.title,
    "updated_at": lambda page: _utc_text(page.updated_at),
}
_DEFAULT_FIELDS = ("description", "format", "link", "organisations", "public_timestamp", "title")


def search_result(page: GovukPage, fields: tuple[str, ...] | None) -> JsonObject:
    """Write a search result with the fields that were asked for, if they have a value."""
    values = {name: value for name in fields or _DEFAULT_FIELDS if (value := FIELDS[name](page)) is not None}
    return values | {"_id": page.link, "document_type": page.index_type}


def content_item(page: GovukPage) -> JsonObject:
    """Write a page as the Content API does, with times of London."""
    return {
        "base_path": page.link,
        "content_id": page.content_id,
        "document_type": page.document_type,
        "first_published_at": _london_text(page.content_first_published_at or page.first_published_at),
        "links": {"taxons": [{"content_id": taxon, "title": TAXON_NAMES[taxon]} for taxon in page.taxons]},
        "public_updated_at": _london_text(page.content_updated_at or page.public_timestamp),
        "title": page.title,
    }
