"""The signatures of documents and their comparison are pure (issue 23)."""

import os
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec
import pytest

from headwater.stories.builder import find_roots
from headwater.stories.matching import are_one_story, compare_words, estimate_shares
from headwater.stories.signature import FUNCTION_VERSION, WINDOW, Signature, make_signature

NOON = datetime(2026, 3, 12, 12, tzinfo=UTC)
_CHANCE = random.Random(5)
WORDS = ["".join(_CHANCE.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(5000)]


def sign(title: str, text: str, host: str = "a.test", at: datetime | None = NOON) -> Signature:
    return make_signature(title, text, host=host, published_at=at)


def make_text(seed: int, words: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=words)


@pytest.mark.parametrize("copied", [0, 60, 200, 400, 600])
def test_the_estimate_of_a_share_is_near_the_true_share(copied: int) -> None:
    """A text of 600 words, of which so many are in the first 600 words of another text."""
    first, second = make_text(1, 600), make_text(2, 600)
    mixed = first[:copied] + second[: 600 - copied]
    mine, theirs = estimate_shares(sign("a", " ".join(mixed)), sign("b", " ".join(first)))
    assert mine == pytest.approx(copied / 600, abs=0.1)
    assert theirs == pytest.approx(copied / 600, abs=0.1)


def test_the_share_of_short_texts_is_exact() -> None:
    """100 shingles of 4 words, of which 47 are in the other text."""
    first, second = make_text(1, 103), make_text(2, 53)
    shares = estimate_shares(sign("a", " ".join(first)), sign("b", " ".join(first[:50] + second)))
    assert shares == (47 / 100, 47 / 100)


def test_two_documents_in_the_window_share_a_key_of_each_common_word() -> None:
    chance = random.Random(9)
    for _ in range(300):
        earlier = NOON + timedelta(seconds=chance.randrange(10**8))
        later = earlier + WINDOW * chance.random()
        one, other = (sign("Flood at Ripple", "", at=at) for at in (earlier, later))
        assert {*one.list_keys()} & {*other.list_keys()}
        apart = sign("Flood at Ripple", "", at=earlier + 3 * WINDOW)
        assert not {*one.list_keys()} & {*apart.list_keys()}


def test_a_signature_is_the_same_in_each_process() -> None:
    """Derived rows do not depend on the order of sets, which differs between processes."""
    code = (
        "import msgspec; from datetime import *; from headwater.stories.signature import make_signature as m;"
        "print(m('Flut in Köln: 3 Tote', 'Der Rhein, 4,2 m hoch, fließt. 大桥因裂缝关闭。' * 9, host='a.test',"
        "published_at=datetime(2026, 3, 12, tzinfo=UTC)))"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "...",
        "x" * 100_000,
        "a " * 50_000,
        "\u202e\u0000\ud7ff\u0301",
        "7 " * 300,
        "裂" * 20_000,
        "e\u0301" * 9000,
    ],
)
def test_odd_texts_have_signatures_that_can_be_stored(text: str) -> None:
    made = sign(text, text)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Signature) == made
    assert len(msgspec.msgpack.encode(made)) < 2000
    assert all(0 <= key < 2**63 for key in made.list_keys())
    assert 0 <= compare_words(made, made) <= 1.001
    assert are_one_story(made, made) in (True, False)


def test_signatures_change_only_with_their_version() -> None:
    """Stored signatures must be those that this program makes. If this test fails, raise FUNCTION_VERSION."""
    texts = (
        "The Severn bridge at Upton was closed: 14,000 cars. " * 30,
        "大桥因裂缝关闭,每天有一万四千辆汽车必须绕行。" * 9,
    )
    made = [sign("Upton's bridge shut, 2 piers crack", text) for text in texts]
    digest = sha256(msgspec.msgpack.encode([(one, one.list_keys()) for one in made])).hexdigest()[:16]
    assert (FUNCTION_VERSION, digest) == (1001, "e91923b829ed4827")


@pytest.mark.parametrize("year", [1, 1969, 9999])
def test_keys_of_any_date_can_be_stored(year: int) -> None:
    keys = sign("Flood at Ripple", "", at=datetime(year, 6, 1, tzinfo=UTC)).list_keys()
    assert keys
    assert all(0 <= key < 2**63 for key in keys)


def test_texts_without_words_in_common_are_not_one_story() -> None:
    assert not are_one_story(sign("", ""), sign("", "", "b.test"))
    assert not are_one_story(sign("one", "a a a"), sign("two", "b b b", "b.test"))


def test_the_root_of_connected_numbers_is_the_smallest() -> None:
    assert find_roots([(9, 5), (5, 7), (3, 9), (8, 4)]) == {9: 3, 5: 3, 7: 3, 3: 3, 8: 4, 4: 4}
