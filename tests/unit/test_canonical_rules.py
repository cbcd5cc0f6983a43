"""Names and codes of canonical articles (spec 5.1, 5.3)."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.canonical.operations import CODES, code_of
from headwater.core.reasons import Reason, ReasonClass
from headwater.core.urls import uid_of
from headwater.db.canonical import FailureCode

# A reason of these classes never ends a URL.
NOT_FAILURES = (ReasonClass.DONE, ReasonClass.CONFIG, ReasonClass.HANDOFF)
ENDS = [reason for reason in Reason if reason.kind not in NOT_FAILURES]


@given(st.text().filter(lambda text: text.encode(errors="replace").decode() == text))
def test_a_uid_is_the_start_of_a_sha1(url: str) -> None:
    """Spec 5.1."""
    assert uid_of(url) == uid_of(url.encode()) == hashlib.sha1(url.encode()).hexdigest()[:16]


def test_the_uid_of_a_known_address() -> None:
    assert uid_of("https://example.com/xyz") == "ddbbc53151acd485"


def test_every_reason_that_can_end_a_url_has_a_code() -> None:
    """Spec 5.3: a new reason needs one of the five codes."""
    assert {CODES.get(reason) for reason in ENDS} <= set(FailureCode)


def test_every_code_has_a_reason_and_no_success_has_a_code() -> None:
    assert set(CODES.values()) == set(FailureCode)
    assert not [reason for reason in CODES if reason.kind is ReasonClass.DONE]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.BAD_HTML, "FAIL_BAD_HTML"),
        (Reason.NOT_FOUND, "FAIL_HTTP"),
        (Reason.ROBOTS_BLOCKED, "FAIL_HTTP"),
        (Reason.TIMEOUT, "FAIL_TIMEOUT"),
        (Reason.SANDBOX_CRASHED, "FAIL_PARSE"),
        (Reason.EMPTY_TEXT, "FAIL_EMPTY"),
    ],
)
def test_the_codes_of_some_reasons(reason: Reason, code: str) -> None:
    assert code_of(reason) == code


@given(st.sampled_from(ENDS), st.text())
def test_a_link_that_used_all_retries_has_the_code_of_the_last_one(last: Reason, words: str) -> None:
    """Spec 5.3: `max_retries` alone does not name the failure."""
    assert code_of(Reason.MAX_RETRIES, f"{last}: {words}") is code_of(last)


@given(st.none() | st.text())
def test_any_detail_has_a_code(words: str | None) -> None:
    assert code_of(Reason.MAX_RETRIES, words) in FailureCode
