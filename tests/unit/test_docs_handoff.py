"""docs/handoff.md is complete: every reason with its sentence, every route, both settings (spec 7; issue 9)."""

from pathlib import Path

import pytest

from headwater.core.reasons import Reason, ReasonClass
from headwater.core.settings import Settings
from headwater.db.handoffs import HandoffStatus
from headwater.db.jobs import JobStatus

TEXT = (Path(__file__).parents[2] / "docs" / "handoff.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason.kind is ReasonClass.HANDOFF])
def test_it_has_every_reason_of_hand_offs_with_its_sentence(reason: Reason) -> None:
    assert f"| `{reason}` |" in TEXT
    assert reason.sentence in TEXT


def test_it_names_every_state_and_setting() -> None:
    for word in (*HandoffStatus, *JobStatus):
        assert word in TEXT.lower()
    for setting in ("handoff_attempts", "handoff_base_seconds"):
        assert f"`{setting}" in TEXT
        assert hasattr(Settings(), setting)


@pytest.mark.parametrize("path", ["/scraping/govuk/sync", "/scraping/govuk/handoffs", "/jobs?", "/jobs/12/retry"])
def test_it_shows_how_to_ask(path: str) -> None:
    assert path in TEXT
