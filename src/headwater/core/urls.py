"""The normalized form of a URL, in which it is stored, compared and hashed.

The WHATWG parser does what browsers do (case of scheme and host, IDNA, default ports, dot segments, tabs and newlines,
backslashes, odd forms of IPv4). Our own rules follow: no fragment, no tracking parameters, a sorted query, no trailing
slash except the root's, no trailing dot in the host. Percent-escapes and path case stay as given.
"""

import re
from collections.abc import Callable, Container
from hashlib import sha1, sha256
from operator import itemgetter

import ada_url

from headwater.core.errors import InvalidURL

MAX_URL_LENGTH = 8192

# Parameters that show a site where a reader came from, and never change the page. Compared in lower case.
TRACKING_PREFIXES = ("hsa_", "matomo_", "mtm_", "piwik_", "pk_", "utm_")
_ADVERTISING_CLICKS = """
    dclid epik fbclid gad_campaignid gad_source gbraid gclid gclsrc li_fat_id msclkid qclid rdt_cid sccid srsltid
    ttclid twclid wbraid yclid ysclid"""
_MAILINGS = """
    _hsenc _hsmi _ke ck_subscriber_id dm_i hsctatracking mc_cid mc_eid mkt_tok ml_subscriber ml_subscriber_hash
    oly_anon_id oly_enc_id vero_conv vero_id"""
_VISITORS_AND_SHARES = """
    __hsfp __hssc __hstc _ga _gl _openstat guccounter guce_referrer guce_referrer_sig igsh igshid wickedid"""
_PUBLISHERS_CAMPAIGNS = """
    at_bbc_team at_campaign at_campaign_type at_link_id at_link_origin at_link_type at_medium at_ptr_name
    cmpid ns_campaign ns_linkname ns_mchannel ns_source wt_mc wt_zmc"""
TRACKING_NAMES = frozenset(f"{_ADVERTISING_CLICKS} {_MAILINGS} {_VISITORS_AND_SHARES} {_PUBLISHERS_CAMPAIGNS}".split())

_SCHEME = re.compile(r"[\x00-\x20]*([a-zA-Z][a-zA-Z0-9+.-]*):")
_MAX_HOST_LENGTH = 253
_MAX_LABEL_LENGTH = 63


def normalize_url(url: str, base: str | None = None, *, keep_trailing_slash: bool = False) -> str:
    """Return the normalized form of `url`, resolved against `base` if it is relative.

    Raises InvalidURL with the reason if it is not an http(s) URL without credentials.
    """
    return _normalize(url, base, lambda _: keep_trailing_slash)[0]


def identify(url: str, *, keeps_slash: Container[str] = ()) -> tuple[str, str]:
    """Return the normalized form of a URL, and its host. The hosts in `keeps_slash` keep trailing slashes.

    Raises InvalidURL as `normalize_url` does.
    """
    return _normalize(url, None, keeps_slash.__contains__)


def _normalize(url: str, base: str | None, keeps_slash: Callable[[str], bool]) -> tuple[str, str]:
    scheme, host, path, query = _split(url, base)
    if path.endswith("/") and not keeps_slash(host):
        path = path.rstrip("/")
    if query:
        query = _normalize_query(query)
    normalized = f"{scheme}//{host}/{path}?{query}" if query else f"{scheme}//{host}/{path}"
    if len(normalized) > MAX_URL_LENGTH:
        raise InvalidURL(f"The address is longer than {MAX_URL_LENGTH} characters when written out.", url=url)
    return normalized, host


def join_url(url: str, base: str) -> str:
    """Return `url` as it is, resolved against `base`, without its fragment. Requests use this form.

    Raises InvalidURL with the reason if it is not an http(s) URL without credentials.
    """
    scheme, authority, path, query = _split(url, base)
    return f"{scheme}//{authority}/{path}?{query}" if query else f"{scheme}//{authority}/{path}"


def host_of(url: str) -> str:
    """Return the host of a URL, with its port if that is not the scheme's default."""
    return _split(url, None)[1]


def url_hash(url: str) -> bytes:
    """Return the SHA-256 digest of a normalized URL."""
    return sha256(url.encode()).digest()


def uid_of(url: str | bytes) -> str:
    """Return the uid of a category's link: the first 16 hex digits of the SHA-1 of its URL as given."""
    return sha1(url if isinstance(url, bytes) else url.encode(), usedforsecurity=False).hexdigest()[:16]


def page_subpath(host: str, url: str) -> str:
    """Return the place of a page's raw file if its source names none."""
    name = url_hash(url).hex()
    return f"{host}/{name[:2]}/{name}"


def _split(url: str, base: str | None) -> tuple[str, str, str, str]:
    """Return scheme with its colon, host with port, path without its first slash, and query."""
    if not url or url.isspace():
        raise InvalidURL("The address is empty.", url=url)
    if len(url) > MAX_URL_LENGTH or (base is not None and len(base) > MAX_URL_LENGTH):
        raise InvalidURL(f"The address is longer than {MAX_URL_LENGTH} characters.", url=url[:MAX_URL_LENGTH])
    try:
        href = ada_url.normalize_url(url) if base is None else ada_url.join_url(base, url)
    except ValueError:
        raise InvalidURL(_why_unparsable(url, base), url=url) from None
    # A parsed URL always has the form "scheme://authority/path?query#fragment", so it can be cut safely.
    scheme, _, rest = href.partition("#")[0].partition("//")
    if scheme not in ("https:", "http:"):
        raise InvalidURL(f"The address must start with http or https, not {scheme.partition(':')[0][:40]!r}.", url=url)
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    if "@" in authority:
        # without the URL, which would bring the password into logs
        raise InvalidURL("The address contains a user name or password.")
    return scheme, _check_host(authority, url), path, query


def _why_unparsable(url: str, base: str | None) -> str:
    if any("\ud800" <= character <= "\udfff" for character in url):
        return "The address contains a broken character (a lone surrogate)."
    scheme = _SCHEME.match(url)
    if scheme is None:
        return "The address has no scheme such as https://." if base is None else "The base address cannot be used."
    if scheme[1].lower() not in ("http", "https"):
        return f"The address must start with http or https, not {scheme[1][:40]!r}."
    if not url[scheme.end() :].strip("/\\"):
        return "The address has no host."
    return "The host or the port of the address cannot be read."


def _check_host(authority: str, url: str) -> str:
    """Return the host and port without the host's trailing dot. Refuse a name that is impossible in DNS."""
    host, colon, port = authority, "", ""
    if authority.startswith("["):
        return authority
    if ":" in authority:
        host, colon, port = authority.partition(":")
    host = host.removesuffix(".")
    if not host:
        raise InvalidURL("The address has no host.", url=url)
    if len(host) > _MAX_HOST_LENGTH or not all(0 < len(label) <= _MAX_LABEL_LENGTH for label in host.split(".")):
        raise InvalidURL("The host has an empty or too long part between its dots, or is too long.", url=url)
    if "xn--" in host:
        try:
            host.encode().decode("idna")
        except UnicodeError:
            raise InvalidURL("The host has a part (xn--) that is no international name.", url=url) from None
    return host + colon + port


def _normalize_query(query: str) -> str:
    """Sort the parameters by name, and drop those that only say where a reader came from."""
    pieces: list[tuple[str, str]] = []
    for piece in filter(None, query.split("&")):
        key = piece.partition("=")[0]
        if key.lower() not in TRACKING_NAMES and not key.lower().startswith(TRACKING_PREFIXES):
            pieces.append((key, piece))
    return "&".join(piece for _, piece in sorted(pieces, key=itemgetter(0)))
