"""The parts of a text that a hit shows (issue 23)."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.search.highlight import make_snippet, mark_matches


def join(text: str, places: list[int]) -> str:
    return "".join(f"[{part.text}]" if part.is_match else part.text for part in mark_matches(text, places))


def test_matches_are_marked_by_the_numbers_of_their_words() -> None:
    assert join("The old mill, the old weir", [2, 5]) == "The [old] mill, the [old] weir"
    assert join("水位正在上升", [1, 2, 5]) == "[水位正]在[上升]"


def test_a_snippet_is_where_most_matches_are() -> None:
    text = "mill " + "x " * 300 + "the old mill and the old weir " + "y " * 300
    parts = make_snippet(text, [1, 303, 304, 307, 308])
    shown = "".join(part.text for part in parts)
    assert [part.text for part in parts if part.is_match] == ["old", "mill", "old", "weir"]
    assert shown[0] == shown[-1] == "…"
    assert len(shown) < 300


def test_a_snippet_without_matches_is_the_beginning() -> None:
    assert "".join(part.text for part in make_snippet("Short\ntext", [])) == "Short text"


@given(st.text(max_size=400), st.lists(st.integers(-5, 20_000), max_size=30))
def test_parts_together_are_the_text(text: str, places: list[int]) -> None:
    assert "".join(part.text for part in mark_matches(text, places)) == text.replace("\n", " ")
    shown = "".join(part.text for part in make_snippet(text, places)).strip("…")
    assert shown.strip("…") in text.replace("\n", " ")
