"""Who we say we are (spec: honest by default; a source may choose to look like a browser)."""

from datetime import date, timedelta

# One browser of one day, as 002 asks for; bump both together.
_CHROME_VERSION = 146
CHROME_RELEASED = date(2026, 3, 10)
_STALE = timedelta(days=366)

STYLES = HONEST, BROWSER = "honest", "browser"


def user_agent(style: str, version: str, contact_url: str = "") -> str:
    """Return the header for a style; the browser's own is marked with our name as well."""
    if style == BROWSER:
        return (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) "
            f"Chrome/{_CHROME_VERSION}.0.0.0 Safari/537.36 headwater/{version}"
        )
    contact = f" (+{contact_url})" if contact_url else ""
    return f"Headwater/{version}{contact}"


def browser_is_stale(today: date) -> bool:
    """Tell whether the browser we look like is over a year old: worth a warning, never a failure."""
    return today - CHROME_RELEASED > _STALE
