"""Whether extraction has drifted: new documents of a source and kind of page, compared with their own past. Pure."""

from collections.abc import Iterator

from headwater.db.alarms import ExtractionSums

FEWEST_RECENT = 20
FEWEST_PAST = 50
_SHORTER, _LONGER = 0.4, 3.0  # of the past length of a text
_MORE_EMPTY = 0.3  # of all documents
_LESS_SURE = 0.15
_FEWER_SELECTED = 0.5  # fields of a document


def can_compare(past: ExtractionSums | None, recent: ExtractionSums | None) -> bool:
    """Return whether there are enough documents for a judgement."""
    return bool(past and recent and past.documents >= FEWEST_PAST and recent.documents >= FEWEST_RECENT)


def find_drift(past: ExtractionSums, recent: ExtractionSums) -> list[str]:
    """Return what has changed, in sentences. An empty list: extraction works as before."""
    return list(_list_changes(past, recent))


def _list_changes(past: ExtractionSums, recent: ExtractionSums) -> Iterator[str]:
    before, now = past.characters / past.documents, recent.characters / recent.documents
    if before and not _SHORTER <= now / before <= _LONGER:
        yield f"The mean text has {now:,.0f} characters; it had {before:,.0f}."
    for field in ("title", "byline", "date"):
        was = getattr(past, f"without_{field}") / past.documents
        share = getattr(recent, f"without_{field}") / recent.documents
        if share - was >= _MORE_EMPTY:
            yield f"{share:.0%} of documents have no {field}; it was {was:.0%}."
    hits, were = recent.selected / recent.documents, past.selected / past.documents
    if were - hits >= _FEWER_SELECTED:
        yield f"The selectors find {hits:.1f} fields of a page; they found {were:.1f}."
    sure, surer = recent.confidence / recent.documents, past.confidence / past.documents
    if surer - sure >= _LESS_SURE:
        yield f"The mean confidence of fields is {sure:.2f}; it was {surer:.2f}."
