"""The federal government on the demo web: its hosts, and the sources that read them.

All addresses and numbers are fixed; the Federal Register's days are counted back from the web's day.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from html import escape
from typing import Any

from headwater.core.reasons import Reason
from headwater.demo.federal_api import ApiHost, CongressStandIn, Record, RegisterApi
from headwater.demo.federal_forms import bill_status, law, old_bill_status, register_notice, unknown_bill_status
from headwater.demo.pages import Form
from headwater.demo.pdf import pdf
from headwater.demo.plan import NO_IDENTITY, STORED, Piece, Site
from headwater.demo.sitemaps import sitemap, sitemap_index

KEY = "demo" * 10
# With the key, at the host that bills and federal_register share. Most of it is for bills, though fewer than a backfill
# needs; what is left to the others is enough for demos that are killed and begin again.
HOURLY_LIMIT = 32
SHARES: Mapping[str, int] = {"bills": 24, "federal_register": 8}
BILLS_AN_HOUR = SHARES["bills"]
BACKFILL_SINCE = date(2023, 6, 1)
CONGRESS, EARLIER = 119, 118
_RATE = 20  # of pages too: no more than the demo's pause between two requests allows
_XML = "application/xml; charset=utf-8"
API_HOST = "api.demo.test"
_GOVINFO, _CONGRESS = "http://govinfo.demo.test", "http://congress.demo.test"
_API_URL = f"http://{API_HOST}/api/v3"
_CHANGED = datetime(2026, 1, 15, 8, tzinfo=UTC)
_INDEX = "/sitemap/bulkdata/BILLSTATUS/sitemapindex.xml"


@dataclass(frozen=True, slots=True)
class Reader:
    """A source of the demo: its kind and its settings."""

    kind: str
    settings: Mapping[str, Any]


READERS: Mapping[str, Reader] = {
    "bills": Reader(
        "bills",
        {
            "sitemap_url": f"{_GOVINFO}{_INDEX}",
            "api_url": _API_URL,
            "congresses": [CONGRESS],
            "rate_per_second": _RATE,
        },
    ),
    "public_laws": Reader(
        "public_laws",
        {
            "api_url": _API_URL,
            "files_url": f"{_GOVINFO}/content/pkg",
            "congresses": [CONGRESS],
            "rate_per_second": _RATE,
        },
    ),
    "federal_register": Reader(
        "federal_register",
        # The real API takes no key and has its own host. Here it shares both with bills, to show that they get along.
        {"site_url": f"http://{API_HOST}", "budget": "api.data.gov", "rate_per_second": _RATE},
    ),
    "crs": Reader(
        "crs_reports",
        {"api_url": _API_URL, "files_url": f"{_CONGRESS}/crs_external_products", "rate_per_second": _RATE},
    ),
    "gao": Reader("gao_reports", {"feed_url": "http://gao.demo.test/rss/reports.xml", "rate_per_second": _RATE}),
}


def _file(path: str, text: str) -> Piece:
    """Return a file that is read for what it lists, and is no page of its own."""
    return Piece(
        path, "councils", None, path=path, form=lambda _sheet: text.encode(), content_type=_XML, ends=NO_IDENTITY
    )


# The Federal Register: number, headline, how many days ago.
_NOTICES = (
    ("2026-00101", "Drawbridge operation on the lower Wend", 0),
    ("2026-00102", "Meeting of the ferry advisory committee", 2),
    ("2026-00103", "Tolls at Millrace lock, request for comments", 5),
    ("2025-00104", "Towpath closures of a year long past", 400),
)


def _register_path(number: str) -> str:
    return f"/documents/full_text/xml/{number}.xml"


def register_document(number: str, title: str, day: date, site: str = f"http://{API_HOST}") -> dict[str, Any]:
    """Return a document as the API lists it."""
    return {
        "document_number": number,
        "title": title,
        "type": "Notice",
        "publication_date": day.isoformat(),
        "agencies": [{"name": "Department of Waterways", "raw_name": "DEPARTMENT OF WATERWAYS"}],
        "html_url": f"{site}/documents/{number}",
        "full_text_xml_url": f"{site}{_register_path(number)}",
    }


def _register_api(today: date, seed: int) -> RegisterApi:
    del seed
    return RegisterApi(
        register_document(number, title, today - timedelta(days=days_ago)) for number, title, days_ago in _NOTICES
    )


REGISTER = Site(
    host=API_HOST,
    title="Federal Register of the Valley",
    pieces=tuple(
        Piece(
            title,
            "rivers",
            days_ago,
            path=_register_path(number),
            form=register_notice,
            content_type=_XML,
            ends=STORED if days_ago < 7 else NO_IDENTITY,
        )
        for number, title, days_ago in _NOTICES
    ),
    api=_register_api,
)


# Bills: Congress, number, headline, how its status is written.
_BILLS: tuple[tuple[int, int, str, Form], ...] = (
    (CONGRESS, 1, "Ferry Timetables Act", bill_status),
    (CONGRESS, 2, "Weirs and Locks Act", old_bill_status),
    (CONGRESS, 3, "Act of a Schema to Come", unknown_bill_status),
    *((EARLIER, number, f"Towpath Act, part {number}", bill_status) for number in range(1, 25)),
)
_LAWS = ((1, "Harbour Lights Act"), (2, "Act to mend the footbridge at Oxley Quay"))
_REPORTS = (("R47175", "River Ferries: Background and Issues for Congress"),)
_PRODUCTS = (("gao-26-107908", "River Ferries: Better Timetables Could Help"),)


def _bill_path(congress: int, number: int) -> str:
    return f"/bulkdata/BILLSTATUS/{congress}/hr/BILLSTATUS-{congress}hr{number}.xml"


def _law_path(number: int) -> str:
    package = f"PLAW-{CONGRESS}publ{number}"
    return f"/content/pkg/{package}/uslm/{package}.xml"


def _bill_piece(congress: int, number: int, title: str, form: Form) -> Piece:
    ends = frozenset({Reason.UNKNOWN_SCHEMA}) if form is unknown_bill_status else STORED
    return Piece(
        title,
        "rivers",
        None,
        path=_bill_path(congress, number),
        form=form,
        content_type=_XML,
        ends=ends if congress == CONGRESS else NO_IDENTITY,  # the backfill waits for its budget to the end
    )


def _series(congress: int) -> Piece:
    paths = [_bill_path(of, number) for of, number, *_ in _BILLS if of == congress]
    return _file(
        f"/sitemap/bulkdata/BILLSTATUS/{congress}hr/sitemap.xml",
        sitemap((f"{_GOVINFO}{path}", _CHANGED) for path in paths),
    )


_SERIES = tuple(map(_series, (EARLIER, CONGRESS)))
GOVINFO = Site(
    host="govinfo.demo.test",
    title="Printing Office of the Valley",
    pieces=(
        _file(_INDEX, sitemap_index((f"{_GOVINFO}{piece.path}" for piece in _SERIES), _CHANGED)),
        *_SERIES,
        *(_bill_piece(*bill) for bill in _BILLS),
        *(Piece(title, "rivers", None, path=_law_path(number), form=law, content_type=_XML) for number, title in _LAWS),
    ),
)


def _congress_api(today: date, seed: int) -> CongressStandIn:
    del today, seed
    return CongressStandIn(
        bills=map(_bill_record, _BILLS), laws=map(_law_record, _LAWS), reports=map(_report, _REPORTS)
    )


def _bill_record(bill: tuple[int, int, str, Form]) -> Record:
    congress, number, title, _ = bill
    return {
        "congress": congress,
        "number": str(number),
        "type": "HR",
        "title": title,
        "introducedDate": "2025-03-04",
        "updateDate": "2026-01-15T07:00:00Z",
    }


def _law_record(numbered: tuple[int, str]) -> Record:
    number, title = numbered
    return {
        "congress": CONGRESS,
        "number": str(900 + number),
        "type": "HR",
        "title": title,
        "laws": [{"number": f"{CONGRESS}-{number}", "type": "Public Law"}],
        "latestAction": {"actionDate": "2025-06-02", "text": f"Became Public Law No: {CONGRESS}-{number}."},
        "updateDate": "2026-01-15",
    }


def _report(numbered: tuple[str, str]) -> Record:
    number, title = numbered
    return {
        "id": number,
        "title": title,
        "contentType": "Reports",
        "publishDate": "2026-01-12T05:00:00Z",
        "updateDate": "2026-01-14T23:19:00Z",
        "summary": "<p>Ferries cross rivers.</p><p>Where they do not, there are bridges.</p>",
        "authors": [{"author": "Ada Weir"}],
        "topics": [{"topic": "Waterways"}],
    }


API = Site(host=API_HOST, title="API of Congress", pieces=(), api=_congress_api)
CONGRESS_SITE = Site(
    host="congress.demo.test",
    title="Congress of the Valley",
    pieces=tuple(
        Piece(title, "rivers", 3, path=f"/crs_external_products/R/HTML/{number}.html") for number, title in _REPORTS
    ),
)


def _products() -> str:
    items = "".join(
        f"<item><title>{escape(title)}</title><link>http://gao.demo.test/products/{number}</link>"
        f"<pubDate>Wed, 14 Jan 2026 07:23:00 -0500</pubDate><guid isPermaLink='false'>{number}</guid></item>"
        for number, title in _PRODUCTS
    )
    channel = f"<title>Reports</title><link>http://gao.demo.test/</link><description>All</description>{items}"
    return f'<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel>{channel}</channel></rss>'


GAO = Site(
    host="gao.demo.test",
    title="Accountability Office of the Valley",
    pieces=(
        _file("/rss/reports.xml", _products()),
        *(
            Piece(title, "transport", None, path=f"/assets/{number}.pdf", form=pdf, content_type="application/pdf")
            for number, title in _PRODUCTS
        ),
    ),
)


def _shared_api(today: date, seed: int) -> ApiHost:
    apis = {"/api/v1/": _register_api(today, seed), "/api/v3/": _congress_api(today, seed)}
    return ApiHost(apis, limit=HOURLY_LIMIT)


# REGISTER and API are its two halves, each for itself.
SHARED = replace(REGISTER, title="APIs with one key", api=_shared_api)
FEDERAL = (SHARED, GOVINFO, CONGRESS_SITE, GAO)
