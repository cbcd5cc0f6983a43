"""The refusal of a body by the readers."""

import pytest

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.extraction.registry import normalize


def refusal_of(body: bytes, url: str, content_type: str) -> Reason:
    """Return the reason for which a body is refused for good."""
    with pytest.raises(Unreadable) as caught:
        normalize(body, url, content_type)
    assert not caught.value.retryable
    return caught.value.reason
