"""Extract articles from XML documents of the federal government, version 1.

Each vocabulary has its own reader: BILLSTATUS, the Federal Register, and laws.
"""

from collections.abc import Callable, Mapping
from typing import Any

from lxml import etree

from headwater.core.errors import Unreadable
from headwater.core.reasons import Reason
from headwater.extraction.article import Article
from headwater.extraction.sniffing import REGISTER_ROOTS
from headwater.extraction.xml.bill import read_bill_status
from headwater.extraction.xml.law import read_law
from headwater.extraction.xml.register import read_register
from headwater.extraction.xml.tree import local_name

_READERS: Mapping[str, Callable[[etree._Element, str], Article]] = {
    "billStatus": read_bill_status,
    "pLaw": read_law,
    "bill": read_law,
    "resolution": read_law,
    **dict.fromkeys(REGISTER_ROOTS, read_register),
}


def normalize_xml(body: bytes, url: str, content_type: str | None, selectors: Mapping[str, str] | None) -> Article:
    """Return the article of a document. Raises Unreadable if it is malformed, of an unknown schema, or without text."""
    root = _parse(body, url)
    read = _READERS.get(local_name(root))
    if read is None:
        raise Unreadable(Reason.UNKNOWN_SCHEMA.sentence, reason=Reason.UNKNOWN_SCHEMA, url=url)
    return read(root, url)


def _parse(body: bytes, url: str) -> etree._Element:
    """Parse a document without resolving entities or following references."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable(f"The document is not well-formed XML: {error.msg}.", url=url) from None
    dtd: Any = root.getroottree().docinfo.internalDTD
    if dtd is not None and dtd.entities():
        raise Unreadable("The document declares entities, which are never resolved.", url=url)
    return root
