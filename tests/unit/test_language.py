"""A language is stored as its plain code, and its region separately (spec 4.4, 5.1; 11.10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.language import split_language


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("de", ("de", None)),
        ("de-DE", ("de", "DE")),
        ("EN_gb", ("en", "GB")),
        (" fr_CA.UTF-8 ", ("fr", "CA")),
        ("ca_ES@valencia", ("ca", "ES")),
        ("zh-Hans-CN", ("zh", "CN")),
        ("es-419", ("es", "419")),
        ("de-1996", ("de", None)),
        ("en-x-us-private", ("en", None)),
        ("haw-US", ("haw", "US")),
        ("English", None),
        ("all of them", None),
        ("x-default", None),
        ("", None),
        ("de-" + "a" * 40, None),
    ],
)
def test_a_tag_is_split_into_code_and_region(tag: str, expected: tuple[str, str | None] | None) -> None:
    assert split_language(tag) == expected


@given(st.text())
def test_every_text_is_a_language_or_none(text: str) -> None:
    found = split_language(text)
    assert found is None or split_language("-".join(filter(None, found))) == found
