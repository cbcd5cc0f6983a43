"""Stories in the markup of the federal government: each is a `Form`."""

import re
from html import escape

from headwater.demo.pages import Sheet

_BILL = re.compile(r"BILLSTATUS-(\d+)([a-z]+)(\d+)")
_PROLOG = '<?xml version="1.0" encoding="UTF-8"?>\n'


def bill_status(sheet: Sheet) -> bytes:
    """Write BILLSTATUS by schema 3.0.0."""
    return _bill_status(sheet, "3.0.0")


def unknown_bill_status(sheet: Sheet) -> bytes:
    """Write BILLSTATUS by a schema that is yet to come."""
    return _bill_status(sheet, "9.0.0")


def _bill_status(sheet: Sheet, version: str) -> bytes:
    congress, kind, number = _bill(sheet)
    return f"""{_PROLOG}<billStatus><version>{version}</version><bill>
<number>{number}</number><type>{kind}</type><congress>{congress}</congress>
<updateDate>2026-01-15T07:00:00Z</updateDate><introducedDate>2025-03-04</introducedDate>
<title>{escape(sheet.story.headline)}</title>
<sponsors><item><fullName>{escape(sheet.story.byline)}</fullName></item></sponsors>
<summaries><summary><actionDate>2025-03-04</actionDate><text>{_cdata(sheet)}</text></summary></summaries>
<actions><item><actionDate>2025-03-04</actionDate><text>Introduced in House</text></item></actions>
</bill></billStatus>
""".encode()


def old_bill_status(sheet: Sheet) -> bytes:
    """Write BILLSTATUS by schema 1.0.0."""
    congress, kind, number = _bill(sheet)
    summary = f"<item><actionDate>2025-03-04</actionDate><text>{_cdata(sheet)}</text></item>"
    return f"""{_PROLOG}<billStatus><bill>
<billNumber>{number}</billNumber><billType>{kind}</billType><congress>{congress}</congress><version>1.0.0</version>
<createDate>2025-03-05T07:00:00Z</createDate><introducedDate>2025-03-04</introducedDate>
<title>{escape(sheet.story.headline)}</title>
<summaries><billSummaries>{summary}</billSummaries></summaries>
</bill></billStatus>
""".encode()


def register_notice(sheet: Sheet) -> bytes:
    """Write a notice of the Federal Register."""
    paragraphs = "\n".join(f"<P>{escape(paragraph)}</P>" for paragraph in sheet.story.paragraphs)
    return f"""<NOTICE><PREAMB><AGENCY TYPE="F">DEPARTMENT OF WATERWAYS</AGENCY>
<SUBJECT>{escape(sheet.story.headline)}</SUBJECT>
<SUM><HD SOURCE="HED">SUMMARY:</HD><P>{escape(sheet.story.summary)}</P></SUM></PREAMB>
<SUPLINF>{paragraphs}</SUPLINF></NOTICE>
""".encode()


def law(sheet: Sheet) -> bytes:
    """Write a public law in USLM."""
    sections = "\n".join(
        f'<section><num value="{number}">Sec. {number}. </num><content>{escape(paragraph)}</content></section>'
        for number, paragraph in enumerate(sheet.story.paragraphs, start=1)
    )
    return f"""{_PROLOG}<pLaw xmlns="http://schemas.gpo.gov/xml/uslm" xmlns:dc="http://purl.org/dc/elements/1.1/">
<meta><dc:title>{escape(sheet.story.headline)}</dc:title><approvedDate>2025-06-02</approvedDate></meta>
<main>{sections}</main></pLaw>
""".encode()


def _bill(sheet: Sheet) -> tuple[str, str, str]:
    found = _BILL.search(sheet.url)
    assert found, "the name of a bill's file tells which it is"
    return found[1], found[2].upper(), found[3]


def _cdata(sheet: Sheet) -> str:
    return f"<![CDATA[{''.join(f'<p>{escape(paragraph)}</p>' for paragraph in sheet.story.paragraphs)}]]>"
