"""Spec 3.2 and 5.1: a date is read, or it is none; it is never guessed."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.dates import MAX_YEAR, MIN_YEAR, parse_date


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        # RFC 822 and what became of it
        ("Thu, 01 Jan 2004 19:48:21 GMT", "2004-01-01T19:48:21"),
        ("Thu, 01 Jan 2004 19:48:21 +0100", "2004-01-01T18:48:21"),
        ("01 Jan 04 19:48 EST", "2004-01-02T00:48:00"),
        ("1 Jan 2004 19:48:21 PDT", "2004-01-02T02:48:21"),
        ("Thu,28 Jul 2022 4:35:5 GMT+9", "2022-07-27T19:35:05"),
        ("Thursday, 01-Jan-04 10:00:00 UTC", "2004-01-01T10:00:00"),
        ("Wed, 4 Sept 2024 10:00:00 CEST", "2024-09-04T08:00:00"),
        ("4 September 2024 10:00 UNKNOWN", "2024-09-04T10:00:00"),
        ("Mon, 6 Jan 2025 08:00:00 -0500 (EST)", "2025-01-06T13:00:00"),
        ("Sun Jan  4 16:29:06 PST 2004", "2004-01-05T00:29:06"),
        ("Thu Jan 01 2004 00:00:00 GMT+0100 (CET)", "2003-12-31T23:00:00"),
        ("Fri, 01 Mar 2024", "2024-03-01T00:00:00"),
        ("Wed, 31 Dec 2003 24:00:00 GMT", "2004-01-01T00:00:00"),
        # ISO 8601 and W3CDTF
        ("2004", "2004-01-01T00:00:00"),
        ("2004-05", "2004-05-01T00:00:00"),
        ("2004-05-06", "2004-05-06T00:00:00"),
        ("20040506", "2004-05-06T00:00:00"),
        ("2004-05-06T07:08Z", "2004-05-06T07:08:00"),
        ("2004-05-06T07:08:09.123+02:00", "2004-05-06T05:08:09.123"),
        ("2004-05-06T07:08:09 +0200", "2004-05-06T05:08:09"),
        ("2004-05-06 07:08:09", "2004-05-06T07:08:09"),
        ("2004-05-06T07:08:09 EST", "2004-05-06T12:08:09"),
        ("2004/5/6 7:08 PM", "2004-05-06T19:08:00"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59"),
        ("2024-03-01T10:00:00+01:00[Europe/Paris]", "2024-03-01T09:00:00"),
        # written out
        ("March 5, 2024", "2024-03-05T00:00:00"),
        ("5th of March 2024 at 12:30 a.m.", "2024-03-05T00:30:00"),
        ("Published: Mar 5, 2024 12:30pm EST", "2024-03-05T17:30:00"),
    ],
)
def test_dates_are_read_as_utc(text: str, moment: str) -> None:
    assert parse_date(text) == datetime.fromisoformat(moment).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "yesterday", "2 hours ago", "now", "today at 10:00", "Monday", "10:00", "soon"),
        *("31 Feb 2024", "2024-13-01", "2024-02-30T10:00:00Z", "Mon, 01 Jan 2024 25:00:00 GMT", "13:30 pm 5 Mar 2024"),
        *("1970-01-01T00:00:00Z", "Mon, 01 Jan 0001 00:00:00 +0000", "9999-12-31", "2100-12-31T23:00:00-05:00"),
        *("01/02/2004", "1700000000", "Fri, 01 Mar 2024 10:00:00 +9900", "March 2024", "5 March", "x" * 200),
    ],
)
def test_an_impossible_relative_absurd_or_ambiguous_date_is_none(text: str) -> None:
    assert parse_date(text) is None


@given(st.text())
def test_no_text_is_an_error_and_no_result_has_an_absurd_year(text: str) -> None:
    moment = parse_date(text)
    assert moment is None or (moment.tzinfo is UTC and MIN_YEAR <= moment.year <= MAX_YEAR)


@given(st.datetimes(datetime(MIN_YEAR, 1, 2), datetime(MAX_YEAR, 12, 30)))
def test_dates_that_programs_write_are_read_back(moment: datetime) -> None:
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    assert parse_date(moment.isoformat()) == moment
    assert parse_date(moment.strftime("%a, %d %b %Y %H:%M:%S GMT")) == moment
    assert parse_date(moment.strftime("%Y-%m-%d %H:%M:%S UTC")) == moment


ODD = {
    "weekday": ["Mon", "Monday,", "Mar,", "12", ""],
    "day": ["5", "00", "32"],
    "month": ["dec", "Sept", "Foo"],
    "year": ["1989", "2101", "24", "02024"],
    "clock": ["23:59:60", "24:00:00", "24:00:01", "10:30", "10:30:00.5", "103000.1", "10:3:000"],
    "zone": ["+0137", "+1500", "+2300", "-9900", "EST", "UT", "+1"],
}


@pytest.mark.parametrize("odd", [{}, *({part: text} for part, texts in ODD.items() for text in texts)])
@given(
    weekday=st.sampled_from(["Mon,", "Sun,"]),
    day=st.sampled_from(["01", "28", "29", "31"]),
    month=st.sampled_from(["Feb", "Sep", "Dec"]),
    year=st.sampled_from(["1990", "2023", "2024", "2100"]),
    clock=st.sampled_from(["00:00:00", "10:30:59", "23:59:59"]),
    zone=st.sampled_from(["GMT", "UTC", "Z", "+0000", "-0000", "+0130", "-1445"]),
)
def test_how_feeds_usually_write_a_date_is_read_as_any_other(odd: dict[str, str], **usual: str) -> None:
    """The comma behind the year keeps the second from being read the quick way."""
    parts = {**usual, **odd}
    written = "{weekday} {day} {month} {year}{comma} {clock} {zone}"
    assert parse_date(written.format(**parts, comma="")) == parse_date(written.format(**parts, comma=","))
