"""Other forms of a page than the one in its site's look."""

from headwater.demo.pages import Sheet, article_values, error_page, template


def amp(sheet: Sheet) -> bytes:
    """Write the story for small screens, as AMP."""
    return _variant("amp.html", sheet)


def for_print(sheet: Sheet) -> bytes:
    """Write the story without anything around it."""
    return _variant("print.html", sheet)


def login_wall(sheet: Sheet) -> bytes:
    """Write a form where the story should be."""
    return _variant("login.html", sheet)


def cookie_wall(sheet: Sheet) -> bytes:
    """Write a question that has to be answered before the story."""
    return _variant("cookies.html", sheet)


def challenge(sheet: Sheet) -> bytes:
    """Write what those are shown who are taken for a program."""
    return _variant("challenge.html", sheet)


def soft_404(sheet: Sheet) -> bytes:
    """Write that there is no such page, which the status then denies."""
    return error_page(sheet.frame, sheet.url)


def _variant(name: str, sheet: Sheet) -> bytes:
    return template("variants", name).substitute(article_values(sheet)).encode()
