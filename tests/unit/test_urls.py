"""Spec 2.1: URL normalization, the eight rules of the frontier design and what hostile input makes of them."""

from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import HeadwaterError
from headwater.core.reasons import Reason
from headwater.core.urls import (
    MAX_URL_LENGTH,
    TRACKING_NAMES,
    TRACKING_PREFIXES,
    host_of,
    identify,
    normalize_url,
    url_hash,
)
from tests.refusals import refused

SAME_ADDRESS = [
    # 1: scheme and host in lower case, path case kept
    ("HTTPS://Example.ORG/News/A", "https://example.org/News/A"),
    # 2: default ports
    ("http://example.org:80/a", "http://example.org/a"),
    ("https://example.org:443/a", "https://example.org/a"),
    ("https://example.org:80/a", "https://example.org:80/a"),
    # 3: dot segments, also spelt as escapes
    ("https://example.org/a/../b/./c", "https://example.org/b/c"),
    ("https://example.org/../../a", "https://example.org/a"),
    ("https://example.org/a/%2e%2E/b", "https://example.org/b"),
    # 4: trailing slashes, the root's stays
    ("https://example.org", "https://example.org/"),
    ("https://example.org/", "https://example.org/"),
    ("https://example.org//", "https://example.org/"),
    ("https://example.org/a/", "https://example.org/a"),
    ("https://example.org/a//", "https://example.org/a"),
    ("https://example.org/a/?b=1", "https://example.org/a?b=1"),
    # 5: query sorted by key, equal keys in their order
    ("https://example.org/?b=2&a=1", "https://example.org/?a=1&b=2"),
    ("https://example.org/?k=2&a=x&k=1", "https://example.org/?a=x&k=2&k=1"),
    ("https://example.org/?b&a=", "https://example.org/?a=&b"),
    ("https://example.org/a?", "https://example.org/a"),
    ("https://example.org/a?&&b&", "https://example.org/a?b"),
    ("https://example.org/??a", "https://example.org/??a"),
    # 6: tracking parameters
    ("https://example.org/?utm_source=x&id=7&fbclid=y", "https://example.org/?id=7"),
    ("https://example.org/a?UTM_Medium=x&gclid=z", "https://example.org/a"),
    ("https://example.org/?utm=1&gclidx=2", "https://example.org/?gclidx=2&utm=1"),
    ("https://example.org/?q=utm_source", "https://example.org/?q=utm_source"),
    # 7: fragment
    ("https://example.org/a#top?b=1", "https://example.org/a"),
    # escapes untouched, what may not stand bare is escaped
    ("https://example.org/%7Euser/%7euser/%C3%A4?q=%c3%A4", "https://example.org/%7Euser/%7euser/%C3%A4?q=%c3%A4"),
    ("https://example.org/ä b?q=ö c", "https://example.org/%C3%A4%20b?q=%C3%B6%20c"),
    ("https://example.org/100%", "https://example.org/100%"),
    # hosts
    ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
    ("https://example。org/", "https://example.org/"),
    ("https://example.org./a", "https://example.org/a"),
    ("https://example.org.:8443/a", "https://example.org:8443/a"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://017700000001/", "http://127.0.0.1/"),
    ("http://[2001:DB8:0:0::1]:80/a", "http://[2001:db8::1]/a"),
    ("http://[::ffff:127.0.0.1]:8080/", "http://[::ffff:7f00:1]:8080/"),
    # forms that browsers accept
    (" \thttps://exa\tmple.org/a\r\nb ", "https://example.org/ab"),
    ("https:\\\\example.org\\a", "https://example.org/a"),
    ("https:/example.org/a", "https://example.org/a"),
    ("https://@example.org/a", "https://example.org/a"),
]


@pytest.mark.parametrize(("given_url", "normal"), SAME_ADDRESS)
def test_one_address_has_one_spelling(given_url: str, normal: str) -> None:
    assert normalize_url(given_url) == normal
    assert normalize_url(normal) == normal


@pytest.mark.parametrize(
    ("reference", "base", "absolute"),
    [
        ("b", "https://example.org/a/x", "https://example.org/a/b"),
        ("../b?z=1&y=2#f", "https://example.org/a/x/", "https://example.org/a/b?y=2&z=1"),
        ("//other.example/b", "https://example.org/", "https://other.example/b"),
        ("?page=2", "https://example.org/a/b?page=1", "https://example.org/a/b?page=2"),
        ("https://other.example/", "https://example.org/a", "https://other.example/"),
    ],
)
def test_a_relative_address_is_resolved_against_its_base(reference: str, base: str, absolute: str) -> None:
    assert normalize_url(reference, base) == absolute


def test_a_source_can_keep_its_trailing_slashes() -> None:
    assert normalize_url("https://example.org/a/?b=1", keep_trailing_slash=True) == "https://example.org/a/?b=1"
    assert normalize_url("https://example.org/a/", keep_trailing_slash=True) == "https://example.org/a/"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        (" \n", ""),
        ("https://example.org/" + "a" * MAX_URL_LENGTH, str(MAX_URL_LENGTH)),
        ("https://example.org/" + "ä" * 2000, str(MAX_URL_LENGTH)),
        ("/a/b", "scheme"),
        ("example.org/a", "scheme"),
        ("ftp://example.org/a", "'ftp'"),
        ("javascript:alert(1)", "'javascript'"),
        ("https://", "host"),
        ("https://./", "host"),
        ("https://user@example.org/", "password"),
        ("https://:secret@example.org/", "password"),
        ("https://exa mple.org/", ""),
        ("https://example.org:99999/", ""),
        ("https://[::1/", ""),
        ("https://1.2.3.4.5/", ""),
        ("https://a..b/", "part"),
        ("http://xn--a/", "international"),
        ("https://a.1../", "part"),
        ("https://" + "a" * 64 + ".org/", "part"),
        ("https://" + "a." * 130 + "org/", ""),
        ("https://example.org/\ud800", "surrogate"),
    ],
)
def test_an_unusable_address_is_refused_with_its_reason(url: str, named: str) -> None:
    with refused(Reason.INVALID_URL, named):
        normalize_url(url)


def test_backslashes_cannot_hide_the_host_that_is_asked() -> None:
    assert host_of("https://good.example\\@evil.example/") == "good.example"


def test_a_base_that_cannot_be_used_is_refused() -> None:
    with refused(Reason.INVALID_URL):
        normalize_url("a", "nonsense")


def test_the_politeness_host_carries_only_an_unusual_port() -> None:
    hosts = {
        "https://Example.org/a": "example.org",
        "https://example.org:443/a": "example.org",
        "http://example.org:8080/a": "example.org:8080",
        "http://example.org:443": "example.org:443",
        "http://[::1]:8080/": "[::1]:8080",
        "https://example.org./": "example.org",
    }
    assert {url: host_of(url) for url in hosts} == hosts


def test_the_hash_is_the_digest_of_the_normalized_address() -> None:
    url = normalize_url("HTTPS://example.org/a/")
    assert url_hash(url) == sha256(b"https://example.org/a").digest()


hosts = st.sampled_from(
    ["example.org", "EXAMPLE.org.", "a.1..", "[::1]", "0x7f.1", "münchen.de", "xn--a", "h:80", "h:8"]
)
anything = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("/\\?&=#%.:@;[]\t\n\x00 ü")), max_size=40)
near_urls = st.builds(
    "{}{}{}{}".format, st.sampled_from(["http://", "https://", "//", "", "HTTP:\\\\"]), hosts, anything, anything
)


@given(url=st.one_of(near_urls, anything), base=st.one_of(st.none(), near_urls), keep=st.booleans())
def test_normalizing_twice_changes_nothing_more(url: str, base: str | None, keep: bool) -> None:
    try:
        once = normalize_url(url, base, keep_trailing_slash=keep)
    except HeadwaterError:
        return
    assert normalize_url(once, keep_trailing_slash=keep) == once
    assert once.isascii()
    assert "#" not in once
    assert host_of(once) == once.split("/")[2]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("123")), max_size=6))
def test_equal_keys_keep_their_order_whatever_stands_between(pairs: list[tuple[str, str]]) -> None:
    url = "https://example.org/?" + "&".join(f"{key}={value}" for key, value in pairs)
    query = normalize_url(url).partition("?")[2]
    read_back = [tuple(piece.split("=")) for piece in query.split("&") if piece]
    assert read_back == sorted(pairs, key=lambda pair: pair[0])


names = st.text(alphabet="abcdefgh_", min_size=1, max_size=8).filter(
    lambda name: name not in TRACKING_NAMES and not name.startswith(TRACKING_PREFIXES)
)
parameters = st.lists(st.builds("{}={}".format, names, st.text(alphabet="xyz%20", max_size=4)), max_size=5)
tracking = st.one_of(
    st.sampled_from(sorted(TRACKING_NAMES)),
    st.builds("{}{}".format, st.sampled_from(TRACKING_PREFIXES), st.text(alphabet="abc", max_size=4)),
)
cases = st.sampled_from([str, str.upper, str.title])


@given(parameters, st.lists(st.tuples(tracking, cases, st.integers(0, 5)), max_size=4))
def test_tracking_parameters_make_no_other_url(
    kept: list[str], added: list[tuple[str, Callable[[str], str], int]]
) -> None:
    """At any place and in any form; all other parameters stay."""
    mixed = list(kept)
    for name, case, place in added:
        mixed.insert(place, f"{case(name)}=1")
    normal = normalize_url("https://example.org/a?" + "&".join(mixed))
    assert normal == normalize_url("https://example.org/a?" + "&".join(kept))
    assert sorted(normal.partition("?")[2].split("&")) == sorted(kept or [""])


@given(
    path=st.lists(
        st.text(alphabet="aZ9-_~!%20", min_size=1, max_size=5).filter(lambda part: part != "%2e"), max_size=4
    ),
    query=parameters,
    host=st.sampled_from(["example.org", "EXAMPLE.org", "Example.Org.", "example.org:443", "example。org"]),
    scheme=st.sampled_from(["https://", "HTTPS://", "https:\\\\", " https:/"]),
    slashes=st.sampled_from(["", "/", "//"]),
    fragment=st.sampled_from(["", "#", "#top?a=b"]),
)
def test_one_address_has_one_spelling_however_it_is_written(
    path: list[str], query: list[str], host: str, scheme: str, slashes: str, fragment: str
) -> None:
    """And what is not ours to change, the path's case and the escapes, stays."""
    plain = "https://example.org/" + "/".join(path)
    asked = "?" + "&".join(sorted(query, key=lambda piece: piece.partition("=")[0])) if query else ""
    given_url = f"{scheme}{host}/{'/'.join(path)}{slashes}{'?' if query else ''}{'&'.join(query)}{fragment}"
    assert normalize_url(given_url) == plain + asked
    assert identify(given_url) == (plain + asked, "example.org")


@given(near_urls)
def test_a_host_that_keeps_its_slashes_keeps_them_and_no_other_does(url: str) -> None:
    try:
        stripped, host = identify(url)
        kept, _ = identify(url, keeps_slash={host})
    except HeadwaterError:
        return
    assert kept == normalize_url(url, keep_trailing_slash=True)
    assert stripped == identify(url, keeps_slash={f"not-{host}"})[0]
    assert stripped == normalize_url(kept)
