"""Extract articles from JSON records of api.congress.gov reports, version 1."""

from collections.abc import Mapping

import msgspec

from headwater.core.dates import parse_date
from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import one_line
from headwater.extraction.article import Article
from headwater.extraction.document_text import DocumentText, split_paragraphs


class _Author(msgspec.Struct):
    author: str | None = None


class _Topic(msgspec.Struct):
    topic: str | None = None


class _CrsReport(msgspec.Struct, rename="camel"):
    id: str
    title: str
    summary: str | None = None
    publish_date: str | None = None
    authors: list[_Author] | None = None
    topics: list[_Topic] | None = None


class _CrsRecord(msgspec.Struct, rename={"report": "CRSReport"}):
    report: _CrsReport


def normalize_json(body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None) -> Article:
    """Return the article of a report. Raises Unreadable if the record is malformed or has no summary."""
    report = _parse(body, url)
    title = one_line(report.title)
    summary = split_paragraphs(report.summary or "")
    if not summary:
        raise Unreadable("The record contains no text.", reason=Reason.EMPTY_TEXT, url=url)
    published_at = parse_date((report.publish_date or "")[: len("2026-01-15")])
    authors = [one_line(author.author) for author in report.authors or () if author.author]
    abstract = summary.partition("\n\n")[0]
    document = _write_document(title, report, summary)
    return document.make_article(
        url, "json", title=title, authors=authors, published_at=published_at, abstract=abstract
    )


def _parse(body: bytes, url: str) -> _CrsReport:
    try:
        return msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"), type=_CrsRecord).report
    except msgspec.ValidationError as error:
        message = f"The record of a report has an unknown schema ({error})."
        raise Unreadable(message, reason=Reason.UNKNOWN_SCHEMA, url=url) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unreadable(f"The record is not JSON: {error}.", url=url) from None


def _write_document(title: str, report: _CrsReport, summary: str) -> DocumentText:
    document = DocumentText()
    document.add_heading(title, 1)
    document.add_paragraph(one_line(report.id))
    for paragraph in summary.split("\n\n"):
        document.add_paragraph(paragraph)
    document.add_list("Topics", (topic.topic for topic in report.topics or () if topic.topic))
    return document
