"""Odd records of the federal kinds (spec 1.1, 1.5; issue 10)."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import Item
from headwater.sources.kinds.federal.congress import congress_on
from headwater.sources.kinds.federal.crs_reports import CrsReportsKind
from headwater.sources.kinds.federal.federal_register import FederalRegisterKind
from headwater.sources.kinds.records import read_midnight, read_text


@pytest.mark.parametrize(
    ("day", "congress"),
    [
        (date(1789, 3, 4), 1),
        (date(2023, 1, 2), 117),
        (date(2023, 1, 3), 118),
        (date(2024, 2, 29), 118),
        (date(2025, 1, 2), 118),
        (date(2025, 1, 3), 119),
        (date(2026, 12, 31), 119),
    ],
)
def test_a_congress_begins_on_the_third_of_january_of_an_odd_year(day: date, congress: int) -> None:
    assert congress_on(day) == congress


XML = "https://www.federalregister.gov/documents/full_text/xml/2026/06/02/x.xml"


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({}, "2026/06/2026-10962.xml"),
        ({"document_number": "E9-12951"}, "2026/06/E9-12951.xml"),
        ({"document_number": "../../etc/passwd"}, None),
        ({"document_number": "a/b"}, None),
        ({"document_number": "x" * 500}, None),
        ({"full_text_xml_url": None}, None),
        ({"number_is_taken": True}, None),
    ],
)
def test_a_document_of_the_register_has_its_place_by_number_or_none(changed: dict[str, Any], place: str | None) -> None:
    record = {"document_number": "2026-10962", "publication_date": "2026-06-02", "full_text_xml_url": XML, **changed}
    assert FederalRegisterKind().partition(Item(XML, "t", raw=record)) == place


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.sampled_from(["a", "b"]), JSON))
def test_fields_of_any_type_are_read_or_left_alone(record: dict[str, Any]) -> None:
    assert "\n" not in read_text(record, "a")
    found = read_midnight(record, "a", None)
    assert found is None or found.tzinfo is not None


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://www.congress.gov/crs_external_products/IF/HTML/IF12345.html", "IF12345.html"),
        ("https://api.congress.gov/v3/crsreport/IF12345?format=json", "IF12345.json"),
    ],
)
def test_a_report_has_its_place_by_what_is_fetched_of_it(url: str, place: str) -> None:
    assert CrsReportsKind().partition(Item(url, "t", raw={"id": "IF12345"})) == place
