"""docs/glossary.md explains every word in one line (spec 11.14)."""

import re
from pathlib import Path

from tools.write_glossary import GLOSSARY, render_glossary

import headwater
from headwater.core.reasons import Reason
from headwater.core.settings import Settings

SOURCE = Path(headwater.__file__).parent
HEADING = re.compile(r"\| (word|package|table|setting|reason) \| ")
CREATED = re.compile(r"^CREATE TABLE (?:IF NOT EXISTS )?(\w+)", re.MULTILINE)


def read_sections() -> dict[str, dict[str, str]]:
    """Return the words of each section with their lines."""
    sections: dict[str, dict[str, str]] = {}
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = sections[line.removeprefix("## ")] = {}
        elif line.startswith("| ") and not HEADING.match(line):
            word, meaning = line.removeprefix("| ").removesuffix(" |").split(" | ", 1)
            assert word not in section, f"{word} has two lines"
            section[word.strip("`")] = meaning
    return sections


def test_glossary_lists_every_package() -> None:
    packages = {
        ".".join(folder.relative_to(SOURCE).parts)
        for folder in SOURCE.rglob("*")
        if (folder / "__init__.py").exists() or (folder / "kind.py.txt").exists()
    }
    assert set(read_sections()["Packages"]) == packages


def test_glossary_lists_every_table() -> None:
    statements = [*SOURCE.glob("db/migrations/*.up.sql"), *SOURCE.glob("db/queries/migrations.sql")]
    tables = {table for path in statements for table in CREATED.findall(path.read_text(encoding="utf-8"))}
    assert set(read_sections()["Tables"]) == tables


def test_glossary_lists_every_setting_and_reason() -> None:
    sections = read_sections()
    assert set(sections["Settings"]) == set(Settings.__dataclass_fields__)
    assert set(sections["Reasons"]) == {reason.value for reason in Reason}


def test_generated_lists_of_glossary_are_current() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    assert text == render_glossary(text), "run `make docs`"


def test_words_of_glossary_are_in_alphabetical_order() -> None:
    words = [word.lower() for word in read_sections()["Words"]]
    assert words == sorted(words)
