"""The words of texts and searches (spec 11.10)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.core.search_words import LARGEST_INDEX, LONGEST_WORD, Form, fold, join_words, split_words

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Élection l'été COVID-19", "election l ete covid 19"),
        ("Straße Łódź Ørsted İstanbul Ĳssel", "strasse lodz orsted istanbul ijssel"),
        ("Ёлка и йод", "елка и йод"),
        ("Ελλάς", "\u03b5\u03bb\u03bb\u03b1\u03c3"),
        ("النَّهْر أحمد ٢٠٢٦", "النهر احمد 2026"),
        ("שָׁלוֹם", "שלום"),
        ("हिन्दी भाषा", "हिन्दी भाषा"),
        ("疫情COVID报告", "疫情 情 covid 报告 告"),
        ("ﾆｭｰｽ", "ニュ ュー ース ス"),
        ("การประชุม", "กา าร รป ปร ระ ะช ชุ ุม ม"),
        ("뉴스를", "뉴스 스를 를"),
        ("a_b.c/d", "a b c d"),
        ("ﬁn \uff12\uff10", "fin 20"),
    ],
)
def test_words_are_folded_and_unspaced_scripts_are_cut_to_pairs(text: str, words: str) -> None:
    assert join_words(text) == words


def test_a_lone_character_differs_from_the_last_one_of_a_run() -> None:
    assert [word.form for word in split_words("桥 开通")] == [Form.LONE, Form.PAIR, Form.LAST]


@given(TEXTS)
@example("ﷺ½㎞")
@example("\u0345a")
def test_words_have_letters_only_and_places_in_order(text: str) -> None:
    words = list(split_words(text))
    assert all(word.text and len(word.text) <= LONGEST_WORD and " " not in word.text for word in words)
    assert not any(set(word.text) & set("'\"\\:&|!()<>*_") for word in words)
    assert all(0 <= word.start < word.end <= len(text) for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)


@given(st.text(max_size=20))
def test_a_folded_word_stays_as_it_is(text: str) -> None:
    """A search for a word as the index has it finds it."""
    assert fold(fold(text)) == fold(text)


def test_words_that_a_tsvector_cannot_hold_are_left_out() -> None:
    text = "".join(map(chr, range(0x20000, 0x2A000))) * 3
    words = join_words(text).split()
    distinct = set(words)
    assert sum(len(word.encode()) + 6 for word in distinct) + 2 * (len(words) - len(distinct)) <= LARGEST_INDEX
