"""Every kind of ours has a golden pair, and each pair comes out as expected (spec 1.1)."""

from pathlib import Path

import pytest

from headwater.sources import golden
from headwater.sources.registry import kinds

FOLDER = Path(__file__).parent
PAIRS = sorted(path.parent for path in FOLDER.glob("*/*/run.json"))
OURS = {name: kind for name, kind in kinds().items() if kind.__module__.startswith("headwater.")}


@pytest.mark.parametrize("name", OURS)
def test_every_kind_has_a_golden_pair(name: str) -> None:
    assert any(pair.parent.name == name for pair in PAIRS), (
        f"write a golden pair in tests/golden/{name}/<what it shows>/"
    )


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.parent.name}-{pair.name}")
async def test_a_golden_pair_comes_out_as_expected(pair: Path) -> None:
    await golden.check(OURS[pair.parent.name], pair)


async def test_a_pair_that_comes_out_otherwise_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"now": "2026-01-15T12:00:00Z"}')
    (tmp_path / "expected.json").write_text('{"items": [{"url": "http://a.test/"}], "state": {}}')
    with pytest.raises(AssertionError, match="does not come out as expected"):
        await golden.check(OURS["manual"], tmp_path)
