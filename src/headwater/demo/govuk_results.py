"""How the stand-in for GOV.UK writes what it knows of a page: as a result of search, and as a content item."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from headwater.demo.govuk_pages import LONDON, GovukPage, Organisation

_LONDON = ZoneInfo(LONDON)
_SCHEMAS = {
    "guidance": "publication",
    "news_story": "news_article",
    "official_statistics": "publication",
    "policy_paper": "publication",
    "press_release": "news_article",
    "transparency": "publication",
}

_DEFAULT_FIELDS = (
    "description",
    "format",
    "link",
    "organisations",
    "public_timestamp",
    "title",
    "world_locations",
    "topical_events",
    "organisation_content_ids",
    "expanded_organisations",
)


def _organisations(page: GovukPage) -> list[dict[str, Any]]:
    return [_organisation(organisation) for organisation in page.organisations]


def _utc_text(moment: datetime | None) -> str | None:
    """Return a time as search writes it, with fractions of a second only where there are some."""
    if moment is None:
        return None
    spec = "milliseconds" if moment.microsecond else "seconds"
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=spec)}Z"


_FIELDS: Mapping[str, Callable[[GovukPage], Any]] = {
    "content_id": lambda page: page.content_id,
    "content_store_document_type": lambda page: page.document_type,
    "description": lambda page: page.description,
    "document_type": lambda page: page.index_type,
    "expanded_organisations": _organisations,
    "first_published_at": lambda page: _utc_text(page.first_published_at) if page.shows_first_published_at else None,
    "format": lambda page: page.document_type,
    "is_withdrawn": lambda page: False,
    "latest_change_note": lambda page: page.latest_change_note,
    "link": lambda page: page.link,
    "organisation_content_ids": lambda page: [organisation.content_id for organisation in page.organisations],
    "organisations": _organisations,
    "part_of_taxonomy_tree": lambda page: list(page.taxons),
    "popularity": lambda page: page.popularity,
    "public_timestamp": lambda page: _utc_text(page.public_timestamp),
    "taxons": lambda page: list(page.taxons),
    "title": lambda page: page.title,
    "topical_events": lambda page: [],
    "updated_at": lambda page: _utc_text(page.updated_at),
    "world_locations": lambda page: [],
}
# May be asked for, and no page here has them.
_EMPTY_FIELDS = ("display_type", "document_series", "government_name", "image_url", "policy_areas", "slug", "topics")
KNOWN_FIELDS = frozenset((*_FIELDS, *_EMPTY_FIELDS))


def search_result(page: GovukPage, fields: tuple[str, ...] | None, score: float | None) -> dict[str, Any]:
    """Write a result with the fields that were asked for, where there is something in them."""
    writers = ((name, _FIELDS[name]) for name in fields or _DEFAULT_FIELDS if name in _FIELDS)
    values = {name: value for name, write in writers if (value := write(page)) is not None}
    return values | {
        "index": "govuk",
        "es_score": score,
        "_id": page.link,
        "elasticsearch_type": page.index_type,
        "document_type": page.index_type,
    }


def content_item(page: GovukPage, taxon_names: Mapping[str, str]) -> dict[str, Any]:
    """Write what the Content API has about a page; its times are those of London."""
    published = page.content_first_published_at or page.first_published_at
    updated = page.content_updated_at or page.public_timestamp
    return {
        "base_path": page.link,
        "content_id": page.content_id,
        "description": page.description,
        "details": {"change_history": _change_history(page, published, updated)},
        "document_type": page.document_type,
        "first_published_at": _london_text(published),
        "links": {
            "organisations": _organisations(page),
            "taxons": [{"content_id": taxon, "title": taxon_names[taxon]} for taxon in page.taxons],
        },
        "locale": "en",
        "phase": "live",
        "public_updated_at": _london_text(updated),
        "publishing_app": "whitehall",
        "schema_name": _SCHEMAS.get(page.document_type, page.document_type),
        "title": page.title,
        "updated_at": _london_text(page.updated_at),
    }


def _organisation(organisation: Organisation) -> dict[str, Any]:
    return asdict(organisation) | {
        "link": organisation.link,
        "content_id": organisation.content_id,
        "organisation_state": "live",
    }


def _change_history(page: GovukPage, published: datetime | None, updated: datetime | None) -> list[dict[str, Any]]:
    history = [{"note": "First published.", "public_timestamp": _london_text(published)}] if published else []
    if updated and updated != published:
        history.append({"note": page.latest_change_note or "Updated.", "public_timestamp": _london_text(updated)})
    return history


def _london_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(_LONDON).isoformat(timespec="seconds")
