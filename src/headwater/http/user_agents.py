"""The User-Agent header: honest by default. A source may choose a header that looks like a browser (spec 1.3)."""

from datetime import date, timedelta

# Change version and release date together.
_CHROME_VERSION = 146
CHROME_RELEASED = date(2026, 3, 10)
_STALE = timedelta(days=366)

STYLES = HONEST, BROWSER = "honest", "browser"


def user_agent(style: str, version: str, contact_url: str = "") -> str:
    """Return the header for a style. The browser style also contains our name."""
    if style == BROWSER:
        return (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) "
            f"Chrome/{_CHROME_VERSION}.0.0.0 Safari/537.36 headwater/{version}"
        )
    contact = f" (+{contact_url})" if contact_url else ""
    return f"Headwater/{version}{contact}"


def browser_is_stale(today: date) -> bool:
    """Return whether the browser of the browser style is over a year old. This is a warning, never a failure."""
    return today - CHROME_RELEASED > _STALE
