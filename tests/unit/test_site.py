"""The settings of a site, and the methods that follow from them (spec 3.1, 3.3, 3.5)."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import FieldInfo, fields

from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.sources.kind import Kind
from headwater.sources.kinds.site import SiteKind
from headwater.sources.registry import configure
from tests.refusals import refused

FEED = {"feed_url": "https://a.example/feed"}
HOME = {"site_url": "https://a.example/"}
MAP = {"sitemap_url": "https://a.example/sitemap.xml"}
QUARTER, SIX_HOURS = timedelta(minutes=15), timedelta(hours=6)
DOCS = (Path(__file__).parents[2] / "docs/sources.md").read_text(encoding="utf-8")
OWN = [field for field in fields(SiteKind) if field.name not in {inherited.name for inherited in fields(Kind)}]


@pytest.mark.parametrize(
    ("settings", "methods"),
    [
        (FEED, {Method.FEED: QUARTER, Method.SITEMAP: SIX_HOURS}),
        (HOME, {Method.FEED: QUARTER, Method.SITEMAP: SIX_HOURS}),
        (MAP, {Method.SITEMAP: SIX_HOURS}),
        (FEED | MAP, {Method.FEED: QUARTER, Method.SITEMAP: SIX_HOURS}),
        (FEED | {"sitemap_hours": None}, {Method.FEED: QUARTER, Method.SITEMAP: None}),
        (HOME | {"sitemap_hours": 12}, {Method.FEED: QUARTER, Method.SITEMAP: timedelta(hours=12)}),
        (FEED | {"poll_interval_minutes": 60}, {Method.FEED: timedelta(hours=1), Method.SITEMAP: SIX_HOURS}),
        (FEED | {"schedule": "0 6 * * *"}, {Method.FEED: None, Method.SITEMAP: SIX_HOURS}),
        (HOME | {"ingestion_mode": "list"}, {Method.FEED: QUARTER}),
        (HOME | {"ingestion_mode": "list", "schedule": "0 6 * * *"}, {Method.FEED: None}),
        (FEED | {"ingestion_mode": "spider"}, {Method.SPIDER: timedelta(days=1)}),
        (
            HOME | {"ingestion_mode": "both", "spider_hours": 48},
            {Method.FEED: QUARTER, Method.SITEMAP: SIX_HOURS, Method.SPIDER: timedelta(days=2)},
        ),
    ],
)
def test_the_mode_and_what_is_known_of_a_site_decide_how_it_is_read(
    settings: dict[str, Any], methods: dict[Method, timedelta | None]
) -> None:
    """Spec 3.3, issue 20: every site with a feed also looks for sitemaps."""
    assert configure("s", "site", settings).methods(QUARTER) == methods


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("feed_url", {}),
        ("feed_url", {"feed_url": "ftp://a.example/feed"}),
        ("site_url", {"site_url": "a.example"}),
        ("sitemap_url", FEED | {"sitemap_url": "https://user:word@a.example/"}),
        ("ingestion_mode", FEED | {"ingestion_mode": "all"}),
        ("site_url", FEED | {"ingestion_mode": "list"}),
        ("sitemap_hours", FEED | {"sitemap_hours": 0}),
        ("spider_hours", FEED | {"spider_hours": 1000}),
        ("spider_depth", FEED | {"spider_depth": 11}),
        ("spider_pages", FEED | {"spider_pages": 0}),
        ("schedule", MAP | {"schedule": "0 6 * * *"}),
        ("article_patterns", FEED | {"article_patterns": ["("]}),
        ("article_patterns", FEED | {"article_patterns": [""]}),
        ("article_patterns", FEED | {"article_patterns": ["a" * 201]}),
        ("article_patterns", FEED | {"article_patterns": ["/news/"] * 21}),
        ("article_patterns", FEED | {"article_patterns": ["/(a+)+$"]}),
        ("article_patterns", FEED | {"article_patterns": ["(x{1,9}){2,}"]}),
    ],
)
def test_unusable_settings_are_refused_with_the_field(field: str, settings: dict[str, Any]) -> None:
    with refused(Reason.BAD_SOURCE, "Source s: ", field):
        configure("s", "site", settings)


@pytest.mark.parametrize("settings", [FEED, HOME, MAP])
def test_a_site_begins_at_its_home_page_or_at_the_root_of_a_host(settings: dict[str, Any]) -> None:
    kind = configure("s", "site", settings)
    assert isinstance(kind, SiteKind)
    assert kind.home == "https://a.example/"


@pytest.mark.parametrize("field", OWN, ids=lambda field: field.name)
def test_every_setting_of_a_site_is_in_the_documents_with_its_default(field: FieldInfo) -> None:
    told = re.search(rf"^\| `{field.name}` \| .* \| `(.*)` \|$", DOCS, re.M)
    assert told, f"docs/sources.md does not tell of {field.name}"
    assert msgspec.json.decode(told[1]) == msgspec.json.decode(msgspec.json.encode(field.default))
