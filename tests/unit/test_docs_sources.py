"""docs/sources.md documents every setting of a kind (spec 1.1)."""

import dataclasses
import re
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import FieldInfo, fields

from headwater import Item, Kind
from headwater.core.api_budget import DEFAULT_SPLIT
from headwater.sources import golden
from headwater.sources.new_kind import format_entry_point, write_skeleton

TEXT = (Path(__file__).parents[2] / "docs/sources.md").read_text()
TABLE = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", TEXT, re.M))


@pytest.mark.parametrize("field", fields(Kind), ids=lambda field: field.name)
def test_every_setting_is_listed_with_its_default(field: FieldInfo) -> None:
    assert msgspec.json.decode(TABLE[field.name]) == msgspec.to_builtins(field.default)


def test_every_listed_setting_exists() -> None:
    assert list(TABLE) == [field.name for field in fields(Kind)]


@pytest.mark.parametrize("name", ["origin", "dated", "api_hosts"])
def test_class_attributes_are_documented(name: str) -> None:
    assert f"`{name}`" in TEXT
    assert name in Kind.__annotations__ or isinstance(vars(Kind)[name], property)


def test_the_documented_shares_are_the_default_shares() -> None:
    """Spec 1.4."""
    shares = re.search(r"The shares of\s+1,000: (.*?)\. `HEADWATER", TEXT, re.S)
    assert shares
    for source, share in DEFAULT_SPLIT.items():
        assert f"{source} {share}" in shares[1] or (source == "reserve" and f"{share} for all others" in shares[1])


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    assert found
    return found[1]


def rows(text: str) -> list[str]:
    """Return the names in the first column of the tables of a section."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.M)


def test_every_field_of_an_item_is_documented() -> None:
    assert rows(section("The tools of `discover`")) == [field.name for field in dataclasses.fields(Item)]


def test_every_field_of_a_golden_pair_is_documented() -> None:
    text = section("The golden pair")
    exchange = [f"exchanges[].{field.name}" for field in fields(golden.RecordedAnswer)]
    assert rows(text) == [*(field.encode_name for field in fields(golden.Recording)), *exchange]
    required = re.findall(r"^\| `([^`]+)` \| required \|", text, re.M)
    assert required == ["now", "exchanges[].url"]
    for name in ("items", "subpath", "state"):
        assert f"`{name}`" in text.partition("`expected.json` is")[2]


def package() -> str:
    (text,) = re.findall(r"^   ```toml\n(.*?)^   ```", TEXT, re.M | re.S)
    return textwrap.dedent(text)


def test_the_documented_package_contains_the_first_kind(tmp_path: Path) -> None:
    """The test builds the package and reads its entry points."""
    write_skeleton("court_rulings", tmp_path)
    (tmp_path / "pyproject.toml").write_text(package())
    assert tomllib.loads(package())["build-system"]["requires"] == ["hatchling"]
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out")]
    built = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        (points,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("entry_points.txt")]
    assert names == ["court_rulings.py"]
    assert format_entry_point("court_rulings").partition("\n")[2].replace('"', "") in points


@pytest.mark.parametrize(
    "words",
    ["HEADWATER_ALLOW_NETWORKS=127.0.0.0/8", f"{golden.ACCEPT}=1", "`headwater up` then**", "`headwater doctor`"],
)
def test_common_mistakes_are_documented(words: str) -> None:
    assert words in section("Ten minutes")


def test_the_page_has_at_most_220_lines() -> None:
    assert len(TEXT.splitlines()) <= 220
