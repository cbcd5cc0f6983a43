"""The prose check of `make check` finds hard sentences wherever people read (spec 11.14)."""

from pathlib import Path

import pytest
from tools.check_prose import find_faults


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.py", '"""Whoever reads this has to read it twice."""\n', "opens without a subject"),
        ("a.py", "x = 1  # the value that nobody reads\n", "avoid 'nobody'"),
        ("a.py", "# The first line is fine.\n# What comes next is not.\n", "opens without a subject"),
        ("a.py", "def test_what_is_told_is_heard():\n    pass\n", "opens without a subject"),
        ("a.sql", "SELECT 1;\n-- The row stands in the table.\n", "avoid 'stands in'"),
        ("a.md", "The program goes on.\n", "avoid 'goes on'"),
    ],
)
def test_check_finds_a_hard_sentence(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    (fault,) = find_faults(tmp_path / name)
    assert words in fault


def test_check_accepts_plain_sentences_questions_and_code(tmp_path: Path) -> None:
    text = "The gate waits until the host may be asked again. What is next? `Nothing` is a value.\n"
    (tmp_path / "a.md").write_text(text)
    assert list(find_faults(tmp_path / "a.md")) == []
