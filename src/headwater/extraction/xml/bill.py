"""Read BILLSTATUS, the status of a bill, in GPO's schemas 1.0.0 (with `createDate`) and 3.0.0."""

from collections.abc import Iterator
from dataclasses import replace

from lxml import etree

from headwater.core.dates import parse_date
from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.core.text import one_line
from headwater.extraction.article import Article
from headwater.extraction.document_text import DocumentText, split_paragraphs
from headwater.extraction.xml.tree import find_all, find_text, get_text

_KNOWN_VERSIONS = ("1.0.0", "3.0.0")  # files without a version follow the first
_NAMES = {
    "HR": "H.R.",
    "S": "S.",
    "HRES": "H.Res.",
    "SRES": "S.Res.",
    "HJRES": "H.J.Res.",
    "SJRES": "S.J.Res.",
    "HCONRES": "H.Con.Res.",
    "SCONRES": "S.Con.Res.",
}
_SUMMARIES = ("summaries/summary", "summaries/billSummaries/item")
_COMMITTEES = ("committees/item", "committees/billCommittees/item")
_SUBJECTS = (
    "subjects/legislativeSubjects/item",
    *("subjects/billSubjects/legislativeSubjects/item", "subjects/billSubjects/otherSubjects/item"),
)


def read_bill_status(root: etree._Element, url: str) -> Article:
    """Return a bill with its summary and its actions. Its dates are `introducedDate` and that of its last action.

    `updateDate` is when a system changed the file, also without a change of the bill.
    Raises Unreadable with the reason UNKNOWN_SCHEMA if the file follows neither schema.
    """
    bills = list(find_all(root, "bill"))
    bill = bills[0] if bills else None
    version = _version(root)
    if bill is None or version not in _KNOWN_VERSIONS:
        raise _unknown(f"version {version}, without a bill" if bill is None else f"version {version}", url)
    if len(bills) > 1:
        raise _unknown(f"version {version}, with {len(bills)} bills", url)
    name = _name(bill)
    if name is None:
        raise _unknown(f"version {version}, without the bill's number", url)
    title = find_text(bill, "title") or name
    sponsors = [find_text(sponsor, "fullName") for sponsor in find_all(bill, "sponsors/item")]
    introduced = parse_date(find_text(bill, "introducedDate"))
    acted = max(
        filter(None, (parse_date(find_text(one, "actionDate")) for one in find_all(bill, "actions/item"))), default=None
    )
    summary = _last_summary(bill)
    document = _write_document(bill, name, title, summary)
    abstract = summary.partition("\n\n")[0]
    article = document.make_article(
        url, "xml", title=title, authors=sponsors, published_at=introduced, abstract=abstract
    )
    return (
        replace(article, updated_at=acted, provenance={**article.provenance, "updated_at": "xml"}) if acted else article
    )


def _version(root: etree._Element) -> str:
    """Return the version that a file names. A file that names several versions has an unknown one."""
    named = [get_text(found) or "unsaid" for path in ("version", "bill/version") for found in find_all(root, path)]
    return " and ".join(named) or _KNOWN_VERSIONS[0]


def _unknown(what: str, url: str) -> Unreadable:
    return Unreadable(f"The BILLSTATUS has an unknown schema ({what[:80]}).", reason=Reason.UNKNOWN_SCHEMA, url=url)


def _name(bill: etree._Element) -> str | None:
    number, kind = find_text(bill, "number", "billNumber"), find_text(bill, "type", "billType")
    congress = find_text(bill, "congress")
    if not (number and kind and congress):
        return None
    return f"{_NAMES.get(kind.upper(), kind)} {number}, {ordinal(congress)} Congress"


def ordinal(number: str) -> str:
    """Return an ordinal number such as "117th"."""
    ending = {"1": "st", "2": "nd", "3": "rd"}.get(number[-1:], "th")
    return number + ("th" if number[-2:-1] == "1" else ending)


def _write_document(bill: etree._Element, name: str, title: str, summary: str) -> DocumentText:
    document = DocumentText()
    document.add_heading(title, 1)
    document.add_paragraph(name)
    for law in find_all(bill, "laws/item"):
        document.add_paragraph(one_line(f"{find_text(law, 'type')} {find_text(law, 'number')}"))
    if area := find_text(bill, "policyArea/name", "primarySubject/name"):
        document.add_paragraph(f"Policy area: {area}")
    if summary:
        document.add_heading("Summary", 2)
        for paragraph in summary.split("\n\n"):
            document.add_paragraph(paragraph)
    lists = {
        "Actions": _actions(bill),
        "Committees": _names(bill, *_COMMITTEES),
        "Cosponsors": (find_text(one, "fullName") for one in find_all(bill, "cosponsors/item")),
        "Subjects": _names(bill, *_SUBJECTS),
    }
    for heading, lines in lists.items():
        document.add_list(heading, dict.fromkeys(lines))
    return document


def _actions(bill: etree._Element) -> Iterator[str]:
    for action in find_all(bill, "actions/item"):
        if text := find_text(action, "text"):
            yield f"{find_text(action, 'actionDate')}: {text}"


def _names(bill: etree._Element, *paths: str) -> Iterator[str]:
    for path in paths:
        for found in find_all(bill, path):
            yield find_text(found, "name")


def _last_summary(bill: etree._Element) -> str:
    summaries = [summary for path in _SUMMARIES for summary in find_all(bill, path)]
    last = max(summaries, key=lambda summary: find_text(summary, "actionDate"), default=None)
    return "" if last is None else split_paragraphs(find_text(last, "text", "cdata/text"))
