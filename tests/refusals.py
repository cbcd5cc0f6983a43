"""Refusals: an error with its reason, and the values that its message names."""

import contextlib
from collections.abc import Iterator

import pytest

from headwater.core.errors import HeadwaterError, Unreadable
from headwater.core.reasons import Reason
from headwater.extraction.registry import normalize


@contextlib.contextmanager
def refused(reason: Reason, *values: object) -> Iterator[pytest.ExceptionInfo[HeadwaterError]]:
    """Expect an error with this reason, whose message names these values."""
    with pytest.raises(HeadwaterError) as caught:
        yield caught
    message = str(caught.value)
    assert caught.value.reason is reason, message
    missing = [value for value in values if str(value) not in message]
    assert not missing, message


def refusal_of(body: bytes, url: str, content_type: str) -> Reason:
    """Return the reason for which a body is refused for good."""
    with pytest.raises(Unreadable) as caught:
        normalize(body, url, content_type)
    assert not caught.value.retryable
    return caught.value.reason
