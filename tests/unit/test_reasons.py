"""The closed list of reasons and the error tree."""

import inspect
import re
from pathlib import Path

from headwater.core import errors
from headwater.core.reasons import Reason, ReasonClass
from headwater.db import sql
from headwater.extraction.article import BodyStatus


def test_every_reason_has_a_class_and_a_sentence() -> None:
    """Issue 2, model/."""
    for reason in Reason:
        assert reason.kind in ReasonClass
        assert re.fullmatch(r"[A-Z].*\.", reason.sentence), reason
        assert Reason.of(str(reason)) is reason


def test_only_temporary_reasons_are_retryable() -> None:
    assert Reason.TIMEOUT.retryable
    assert Reason.WORKER_LOST.retryable
    assert not Reason.NOT_FOUND.retryable
    assert not Reason.ROBOTS_BLOCKED.retryable


def test_every_reason_is_used() -> None:
    source = Path(errors.__file__).parents[1]
    text = "\n".join(path.read_text() for path in source.rglob("*.py") if path.name != "reasons.py")
    text += "\n".join(sql.query(name) for name in sql.names())
    statuses = {str(status) for status in BodyStatus}  # a status of a body is also the code of its reason
    unused = [
        reason.name
        for reason in Reason
        if reason not in statuses and f"Reason.{reason.name}" not in text and f"'{reason}'" not in text
    ]
    assert unused == []


def test_every_error_is_drawn_in_the_tree() -> None:
    classes = [item for _, item in inspect.getmembers(errors, inspect.isclass) if item.__module__ == errors.__name__]
    assert classes
    for item in classes:
        assert issubclass(item, errors.HeadwaterError)
        assert item.__name__ in (errors.__doc__ or "")
