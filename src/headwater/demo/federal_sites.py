"""The federal government on the demo web: its hosts, its documents, and the sources that read them.

All addresses and numbers are fixed. The days of the Federal Register are relative to the day of the web.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from html import escape
from typing import Any

from headwater.core.json_values import JsonObject
from headwater.core.reasons import Reason
from headwater.demo.content import read_file, template
from headwater.demo.federal_api import CongressServer, Record, RegisterApi
from headwater.demo.feeds import sitemap, sitemap_index
from headwater.demo.pages import Form, Sheet
from headwater.demo.pdf import pdf
from headwater.demo.plan import Ends, Piece, Site

KEY = "demo" * 10
# The budget of the key at the host that bills and federal_register share. Bills get most of it, but less than their
# backfill needs. The rest is enough for demos that are killed and start again.
HOURLY_LIMIT = 32
SHARES: Mapping[str, int] = {"bills": 24, "federal_register": 8}
BACKFILL_SINCE = date(2023, 6, 1)
CONGRESS, EARLIER = 119, 118
_RATE = 20  # requests per second, which the demo's pause between two requests to a host allows
_XML = "application/xml; charset=utf-8"
API_HOST = "api.demo.test"
_GOVINFO, _CONGRESS = "http://govinfo.demo.test", "http://congress.demo.test"
_API_URL = f"http://{API_HOST}/api/v3"
_CHANGED = datetime(2026, 1, 15, 8, tzinfo=UTC)
_INDEX = "/sitemap/bulkdata/BILLSTATUS/sitemapindex.xml"


@dataclass(frozen=True, slots=True)
class DemoSource:
    """A source of the demo."""

    kind: str
    settings: Mapping[str, Any]


_BILL_FILE = re.compile(r"BILLSTATUS-(\d+)([a-z]+)(\d+)")


def _form(name: str, **constants: str) -> Form:
    return lambda sheet: template("federal", name).substitute(constants, **_values(sheet)).encode()


def _values(sheet: Sheet) -> dict[str, str]:
    file, texts = _BILL_FILE.search(sheet.url), [escape(text) for text in sheet.story.paragraphs]
    bill = {"congress": file[1], "kind": file[2].upper(), "number": file[3]} if file else {}
    return bill | {
        "headline": escape(sheet.story.headline),
        "byline": escape(sheet.story.byline),
        "summary": escape(sheet.story.summary),
        "html": "".join(f"<p>{text}</p>" for text in texts),
        "notice": "\n".join(f"<P>{text}</P>" for text in texts),
        "sections": "\n".join(
            f'<section><num value="{number}">Sec. {number}. </num><content>{text}</content></section>'
            for number, text in enumerate(texts, start=1)
        ),
    }


bill_status, unknown_bill_status = _form("bill.xml", version="3.0.0"), _form("bill.xml", version="9.0.0")
old_bill_status, law, register_notice = _form("old_bill.xml"), _form("law.xml"), _form("notice.xml")


def _federal(kind: str, **settings: Any) -> DemoSource:
    return DemoSource(kind, {"rate_per_second": _RATE, **settings})


_OF_CONGRESS = {"api_url": _API_URL, "congresses": [CONGRESS]}
SOURCES: Mapping[str, DemoSource] = {
    # Lookups use the key, so that the budgets meet.
    "bills": _federal("bills", sitemap_url=f"{_GOVINFO}{_INDEX}", lookups_per_run=1000, **_OF_CONGRESS),
    "public_laws": _federal("public_laws", files_url=f"{_GOVINFO}/content/pkg", **_OF_CONGRESS),
    # The real API has its own host and needs no key. Here it shares both with bills, so that their budgets meet.
    "federal_register": _federal("federal_register", site_url=f"http://{API_HOST}", budget="api.data.gov"),
    "crs": _federal("crs_reports", api_url=_API_URL, files_url=f"{_CONGRESS}/crs_external_products"),
    "gao": _federal("gao_reports", feed_url="http://gao.demo.test/rss/reports.xml"),
}


def _file(path: str, text: str) -> Piece:
    """Return a file that only lists other addresses."""
    return _document(path, path, lambda _sheet: text.encode(), ends=Ends.NONE)


def _document(
    title: str, path: str, form: Form, days_ago: int | None = None, *, ends: frozenset[Reason] = Ends.STORED
) -> Piece:
    return Piece(title, "rivers", days_ago, path=path, form=form, content_type=_XML, ends=ends)


# The documents of the Federal Register: number, headline, age in days.
_NOTICES = (
    ("2026-00101", "Drawbridge operation on the lower Wend", 0),
    ("2026-00102", "Meeting of the ferry advisory committee", 2),
    ("2026-00103", "Tolls at Millrace lock, request for comments", 5),
    ("2025-00104", "Towpath closures of a year long past", 400),
)


def _register_path(number: str) -> str:
    return f"/documents/full_text/xml/{number}.xml"


def register_document(number: str, title: str, day: date, site: str = f"http://{API_HOST}") -> JsonObject:
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


def _register_api(today: date, _seed: int) -> RegisterApi:
    return RegisterApi(
        [register_document(number, title, today - timedelta(days=days_ago)) for number, title, days_ago in _NOTICES]
    )


REGISTER = Site(
    host=API_HOST,
    title="Federal Register of the Valley",
    pieces=tuple(
        _document(title, _register_path(number), register_notice, ago, ends=Ends.STORED if ago < 7 else Ends.NONE)
        for number, title, ago in _NOTICES
    ),
    api=_register_api,
)


# The bills: Congress, number, headline, form of the status.
_BILLS: tuple[tuple[int, int, str, Form], ...] = (
    (CONGRESS, 1, "Ferry Timetables Act", bill_status),
    (CONGRESS, 2, "Weirs and Locks Act", old_bill_status),
    (CONGRESS, 3, "Act of a Schema to Come", unknown_bill_status),
    *((EARLIER, number, f"Towpath Act, part {number}", bill_status) for number in range(1, 25)),
)
_LAWS = ((1, "Harbour Lights Act"), (2, "Act to mend the footbridge at Oxley Quay"))


def _bill_path(congress: int, number: int) -> str:
    return f"/bulkdata/BILLSTATUS/{congress}/hr/BILLSTATUS-{congress}hr{number}.xml"


def _law_path(number: int) -> str:
    package = f"PLAW-{CONGRESS}publ{number}"
    return f"/content/pkg/{package}/uslm/{package}.xml"


def _bill_piece(congress: int, number: int, title: str, form: Form) -> Piece:
    ends = frozenset({Reason.UNKNOWN_SCHEMA}) if form is unknown_bill_status else Ends.STORED
    # The budget ends before the backfill reaches the bills of the earlier Congress.
    return _document(title, _bill_path(congress, number), form, ends=ends if congress == CONGRESS else Ends.NONE)


def _series(congress: int) -> Piece:
    bills = ((f"{_GOVINFO}{_bill_path(of, number)}", _CHANGED) for of, number, *_ in _BILLS if of == congress)
    return _file(f"/sitemap/bulkdata/BILLSTATUS/{congress}hr/sitemap.xml", sitemap(bills))


_SERIES = tuple(map(_series, (EARLIER, CONGRESS)))
GOVINFO = Site(
    host="govinfo.demo.test",
    title="Printing Office of the Valley",
    pieces=(
        _file(_INDEX, sitemap_index((f"{_GOVINFO}{piece.path}" for piece in _SERIES), _CHANGED)),
        *_SERIES,
        *(_bill_piece(*bill) for bill in _BILLS),
        *(_document(title, _law_path(number), law) for number, title in _LAWS),
    ),
)


def _congress_api(limit: int = 1_000, register: RegisterApi | None = None) -> CongressServer:
    return CongressServer(
        bills=[_bill_record(congress, number, title) for congress, number, title, _ in _BILLS],
        laws=[_law_record(number, title) for number, title in _LAWS],
        reports=[json.loads(read_file("looks", "federal", "report.json"))],
        limit=limit,
        register=register,
    )


def _bill_record(congress: int, number: int, title: str) -> Record:
    return {
        "congress": congress,
        "number": str(number),
        "type": "HR",
        "title": title,
        "introducedDate": "2025-03-04",
        "updateDate": "2026-01-15T07:00:00Z",
    }


def _law_record(number: int, title: str) -> Record:
    return {
        "congress": CONGRESS,
        "number": str(900 + number),
        "type": "HR",
        "title": title,
        "laws": [{"number": f"{CONGRESS}-{number}", "type": "Public Law"}],
        "latestAction": {"actionDate": "2025-06-02", "text": f"Became Public Law No: {CONGRESS}-{number}."},
        "updateDate": "2026-01-15",
    }


API = Site(host=API_HOST, title="API of Congress", api=lambda _today, _seed: _congress_api())
_REPORT = Piece(
    "River Ferries: Background and Issues for Congress", "rivers", 3, path="/crs_external_products/R/HTML/R47175.html"
)
CONGRESS_SITE = Site(host="congress.demo.test", title="Congress of the Valley", pieces=(_REPORT,))
_TITLE = "River Ferries: Better Timetables Could Help"
_PRODUCT = Piece(_TITLE, "transport", None, path="/assets/gao-26-107908.pdf", form=pdf, content_type="application/pdf")
GAO = Site(
    host="gao.demo.test",
    title="Accountability Office of the Valley",
    pieces=(_file("/rss/reports.xml", read_file("looks", "federal", "products.xml")), _PRODUCT),
)


# REGISTER and API are the two halves of this host.
SHARED = replace(
    REGISTER, title="APIs with one key", api=lambda today, seed: _congress_api(HOURLY_LIMIT, _register_api(today, seed))
)
FEDERAL = (SHARED, GOVINFO, CONGRESS_SITE, GAO)
