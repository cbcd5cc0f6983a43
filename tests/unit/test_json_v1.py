"""json_v1: report records of api.congress.gov (spec 1.5, 4.3; issue 10)."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from headwater.core.reasons import Reason
from headwater.extraction.registry import FileReading, read_file

REPORT = {
    "id": "R47175",
    "title": "Ferries:  Background and Issues",
    "summary": "<p>Ferries <b>cross</b>.</p><p>Bridges # do not.</p>",
    "publishDate": "2026-01-12T05:00:00Z",
    "updateDate": "2026-01-14T23:19:00Z",
    "authors": [{"author": "Ada Weir"}, {"author": None}],
    "topics": [{"topic": "Waterways"}],
}


def read_record(record: Any) -> FileReading:
    body = record if isinstance(record, bytes) else json.dumps({"CRSReport": record}).encode()
    return read_file(body, "https://api.test/crsreport/R47175", "application/json")


def test_a_record_has_its_summary_as_text_and_the_date_of_its_version() -> None:
    found = read_record(REPORT)
    assert (found.normalizer, found.reason) == ("json_v1", None)
    assert found.page
    assert found.page.title == "Ferries: Background and Issues"
    assert found.page.byline == "Ada Weir"
    assert (found.page.published_at, found.page.updated_at) == (datetime(2026, 1, 12, tzinfo=UTC), None)
    assert found.page.abstract == "Ferries cross."
    assert found.page.markdown == (
        "# Ferries: Background and Issues\n\nR47175\n\nFerries cross.\n\nBridges # do not.\n\n## Topics\n\n- Waterways"
    )
    assert set(found.page.provenance.values()) == {"json"}


def test_a_summary_in_lines_keeps_them_as_paragraphs() -> None:
    found = read_record(REPORT | {"summary": "One line.\nAnother line.\n"})
    assert found.page
    assert "One line.\n\nAnother line." in found.page.text


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (REPORT | {"summary": None}, Reason.EMPTY_TEXT),
        (REPORT | {"title": 7}, Reason.UNKNOWN_SCHEMA),
        ({"id": "R47175"}, Reason.UNKNOWN_SCHEMA),
        (REPORT | {"authors": "nobody"}, Reason.UNKNOWN_SCHEMA),
        (b'{"CRSReport": {"id": }}', Reason.PARSE_FAILED),
        (b'{"CRSReport": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}", Reason.PARSE_FAILED),
    ],
    ids=["no summary", "odd title", "no title", "odd authors", "broken", "deep"],
)
def test_other_records_are_refused_with_a_reason(record: Any, reason: Reason) -> None:
    found = read_record(record)
    assert (found.normalizer, found.reason, found.page) == ("json_v1", reason, None)


def test_other_json_is_not_a_document() -> None:
    found = read_file(b'{"bill": {"number": 1}}', "https://api.test/", None)
    assert (found.normalizer, found.reason) == (None, Reason.UNSUPPORTED_TYPE)
