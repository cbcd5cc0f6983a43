"""JSON of the web becomes values that a sandbox and the database can return (spec 4.3)."""

import msgspec
import pytest

from headwater.core.errors import Unreadable
from headwater.core.json_values import parse_json


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"9223372036854775807", 2**63 - 1),
        (b'{"total": 18446744073709551616}', {"total": 2.0**64}),
        (b'["1234567890123456789012", -9223372036854775809]', ["1234567890123456789012", -(2.0**63)]),
        (b"[true, 12345678901234567890.5]", [True, 12345678901234567890.5]),
    ],
)
def test_a_number_of_more_than_64_bits_becomes_a_float(body: bytes, value: object) -> None:
    parsed = parse_json(body)
    assert parsed == value
    assert msgspec.json.encode(parsed)


@pytest.mark.parametrize("body", [b"1" + b"0" * 400, b"1e999", b"[" * 3000 + b"12345678901234567890" + b"]" * 3000])
def test_a_number_that_no_float_holds_makes_the_body_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable):
        parse_json(body)
