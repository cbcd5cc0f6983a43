"""The changes between two texts, by paragraphs and words (spec 4.4)."""

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.documents.diff import MAX_CHANGES, ParagraphChange, TextDiff, diff_texts

CHANCE = Random(1)
CHARACTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 3000)))
WORDS = st.lists(
    st.sampled_from(
        ["the", "council", "will", "open", "a", "new", "library", "in", "March", "東", "京", "で", "会", "議"]
    ),
    max_size=12,
)
PARAGRAPHS = st.lists(WORDS.map(" ".join) | st.text(max_size=20), max_size=12).map("\n\n".join)


def paragraphs(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def sides(change: ParagraphChange) -> tuple[str, str]:
    """The paragraph before and after."""
    before = "".join(piece.text for piece in change.pieces if piece.kind != "added")
    after = "".join(piece.text for piece in change.pieces if piece.kind != "removed")
    return before, after


def told(diff: TextDiff) -> list[tuple[str, int, str]]:
    return [
        (change.kind, change.paragraph, "|".join(f"{piece.kind[0]}:{piece.text}" for piece in change.pieces))
        for change in diff.changes
    ]


@given(PARAGRAPHS)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    diff = diff_texts(text, text, "t", "t")
    assert (diff.changes, diff.unchanged) == ([], len(paragraphs(text)))
    assert diff.summary == ["Nothing has changed."]


@given(PARAGRAPHS, PARAGRAPHS)
def test_the_changes_turn_one_text_into_the_other(before: str, after: str) -> None:
    """Each change is listed once, and every word keeps its place."""
    old, new = paragraphs(before), paragraphs(after)
    diff = diff_texts(before, after)
    assert diff.has_all_changes
    assert diff.unchanged + diff.changed + diff.removed == len(old)
    assert diff.unchanged + diff.changed + diff.added == len(new)
    came = {change.paragraph: change for change in diff.changes if change.kind != "removed"}
    went = {change.paragraph for change in diff.changes if change.kind == "removed"}
    left = iter([paragraph for place, paragraph in enumerate(old, 1) if place not in went])
    for place, paragraph in enumerate(new, 1):
        change = came.get(place)
        if change is None:
            assert next(left) == paragraph
        elif change.kind == "changed":
            assert sides(change) == (next(left), paragraph)
        else:
            assert sides(change)[1] == paragraph
    assert not list(left)
    for change in diff.changes:
        if change.kind == "removed":
            assert sides(change)[0] == old[change.paragraph - 1]


def test_words_that_changed_are_marked() -> None:
    diff = diff_texts("The hall opens in March.\n\nEntry is free.", "The hall opens in late April.\n\nEntry is free.")
    assert told(diff) == [("changed", 1, "s:The hall opens in|r: March|a: late April|s:.")]
    assert diff.summary == ["1 paragraph was changed; 1 is as before."]


def test_a_following_sign_does_not_change_a_word() -> None:
    diff = diff_texts("The dog barks at night.", "The dog, which is old, barks at night.")
    assert told(diff) == [("changed", 1, "s:The dog|a:, which is old,|s: barks at night.")]


def test_changes_with_few_words_between_them_are_joined() -> None:
    diff = diff_texts(
        "The council has approved the plans of the harbour company without a vote, it said in a statement.",
        "The council has rejected a proposal by a private investor without a vote, it said in a statement.",
    )
    (change,) = diff.changes
    assert [piece.kind for piece in change.pieces] == ["same", "removed", "added", "same"]


OPENING = "The museum of the town opens at nine on weekdays and at noon on Sundays."
PRICES = "Tickets of the museum cost four pounds on weekdays and six on Sundays."


def test_a_paragraph_is_paired_with_the_one_it_is_most_like() -> None:
    """The first similar paragraph is another one: these two share most of their words."""
    opening, prices = OPENING.replace("nine", "ten"), PRICES.replace("four", "five")
    new = "The museum of the town is closed on weekdays and on Sundays in May."
    diff = diff_texts(f"{OPENING}\n\n{PRICES}", f"{new}\n\n{opening}\n\n{prices}")
    assert [(change.kind, change.paragraph) for change in diff.changes] == [
        ("added", 1),
        ("changed", 2),
        ("changed", 3),
    ]
    assert sides(diff.changes[1]) == (OPENING, opening)
    assert sides(diff.changes[2]) == (PRICES, prices)


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=12, unique=True),
    st.data(),
)
def test_a_paragraph_with_one_more_word_counts_as_changed_among_others(numbers: list[int], data: st.DataObject) -> None:
    def of(number: int) -> str:
        return " ".join(f"{word}{number}" for word in ("north", "south", "east", "west", "up", "down"))

    kept = data.draw(st.lists(st.sampled_from(numbers), unique=True).map(sorted))
    came = data.draw(st.lists(st.integers(100, 199), max_size=8, unique=True))
    after = [f"{of(number)} too" for number in sorted(kept)]
    for number in came:
        after.insert(data.draw(st.integers(0, len(after))), of(number))
    diff = diff_texts("\n".join(of(number) for number in sorted(numbers)), "\n".join(after))
    assert (diff.changed, diff.removed, diff.added) == (len(kept), len(numbers) - len(kept), len(came))
    assert all(sides(change)[1] == f"{sides(change)[0]} too" for change in diff.changes if change.kind == "changed")


def test_scripts_without_spaces_are_compared_by_the_character() -> None:
    diff = diff_texts("市議会は三月に図書館を開く。", "市議会は四月に図書館を開く。")
    assert told(diff) == [("changed", 1, "s:市議会は|r:三|a:四|s:月に図書館を開く。")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("3,400", "3,500"),
        ("10:30", "10:45"),
        ("2026-11-10", "2026-11-12"),
        ("1,250.50", "1,350.50"),
        ("1.20", "1.25"),
        ("16/11/2026", "17/11/2026"),
    ],
)
def test_a_number_a_date_or_a_time_is_one_word(before: str, after: str) -> None:
    diff = diff_texts(f"The hall is worth it, €{before}.", f"The hall is worth it, €{after}.")
    assert told(diff) == [("changed", 1, f"s:The hall is worth it, €|r:{before}|a:{after}|s:.")]


def test_a_number_that_changed_in_a_table_has_its_row_label() -> None:
    before, after = "Fares\n\nAdults\n\n2.40\n\n£1.20\n\nDogs", "Fares\n\nAdults\n\n2.40\n\n£1.25\n\nDogs"
    (change,) = diff_texts(before, after).changes
    assert (change.kind, change.paragraph, change.row_label) == ("changed", 4, "Adults")
    (change,) = diff_texts("Adults\n\nThey pay 2", "Adults\n\nThey pay 3").changes
    assert change.row_label == ""


def test_added_and_removed_paragraphs_are_whole() -> None:
    before = "First of all.\n\nThis one is taken out again.\n\nLast of all."
    after = "First of all.\n\nLast of all.\n\nA note from the editors follows.\n\nAnd another."
    diff = diff_texts(before, after, "Old", "New")
    assert told(diff) == [
        ("removed", 2, "r:This one is taken out again."),
        ("added", 3, "a:A note from the editors follows."),
        ("added", 4, "a:And another."),
    ]
    assert diff.summary == [
        "The title changed from “Old” to “New”.",
        "2 paragraphs were added and 1 removed; 2 are as before.",
    ]


def drawn(count: int, length: int, alphabet: str, between: str = "") -> str:
    return "\n".join(between.join(CHANCE.choices(alphabet, k=length)) for _ in range(count))


def test_huge_and_hostile_texts_are_compared_in_bounded_time() -> None:
    """Bad input: 20,000 paragraphs, one paragraph of 200,000 words, all the same words."""
    numbered = "\n".join(f"Paragraph {number} of many." for number in range(20_000))
    shuffled = "\n".join(f"Paragraph {number * 7 % 20_000} of much more." for number in range(20_000))
    hostile = [
        (numbered, shuffled),
        ("word " * 200_000, "word other " * 100_000),
        ("a\n" * 3000, "b\na\n" * 1500),
        ("a b " * 400 + "x", "b a " * 400 + "y"),
        (
            "\n".join(f"{'a b c d ' * 30}{n}" for n in range(2000)),
            "\n".join(f"{'a b c d ' * 30}{-n}" for n in range(2000)),
        ),
        ("x" * 5_000_000, "y" * 5_000_000),
        (drawn(700, 400, CHARACTERS), drawn(700, 400, CHARACTERS)),
        (drawn(10, 50_000, CHARACTERS), drawn(10, 50_000, CHARACTERS)),
        (drawn(2900, 12, "abcdefgh", " "), drawn(2900, 12, "abcdefgh", " ")),
    ]
    for before, after in hostile:
        began = time.process_time()
        diff = diff_texts(before, after)
        assert time.process_time() - began < 3
        assert len(diff.changes) <= MAX_CHANGES
        assert diff.unchanged + diff.changed + diff.added == len(paragraphs(after))
