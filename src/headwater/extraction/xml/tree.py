"""Read a tree of XML without regard to namespaces."""

from collections.abc import Collection, Iterator

from lxml import etree

from headwater.core.text import one_line

_NONE: frozenset[str] = frozenset()


def local_name(element: etree._Element) -> str:
    """Return the name of an element without its namespace."""
    return etree.QName(element).localname


def iter_children(element: etree._Element) -> Iterator[etree._Element]:
    """Yield the children of an element, but no unresolved entity references."""
    return element.iterchildren("{*}*")


def get_text(element: etree._Element, skipped: Collection[str] = _NONE) -> str:
    """Return all text of an element as one line, without the text of `skipped` elements."""
    return one_line("".join(_texts(element, skipped)))


def get_own_text(element: etree._Element) -> str:
    """Return the text of an element without the text of its children."""
    return one_line(" ".join([element.text or "", *(child.tail or "" for child in element)]))


def find_text(element: etree._Element, *paths: str) -> str:
    """Return the text of the first path of names that leads to one."""
    for path in paths:
        found = next(find_all(element, path), None)
        if found is not None and (text := get_text(found)):
            return text
    return ""


def find_all(element: etree._Element, path: str) -> Iterator[etree._Element]:
    """Yield the elements at a path of names."""
    return element.iterfind("/".join(f"{{*}}{name}" for name in path.split("/")))


def _texts(element: etree._Element, skipped: Collection[str]) -> Iterator[str]:
    if element.text:
        yield element.text
    for child in element:
        if isinstance(child.tag, str) and local_name(child) not in skipped:
            yield from _texts(child, skipped)
        if child.tail:
            yield child.tail
