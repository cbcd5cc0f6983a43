"""Spec 4.1 and 8.6: robots.txt by RFC 9309."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidURL
from headwater.formats.robots import MAX_BYTES, Robots, RobotsVerdict, check_robots

SITE = "https://example.org"
AGENT = "Headwater/0.1 (+https://headwater.example/bot)"


def allows(lines: str, path: str, agent: str = AGENT) -> bool:
    return Robots(lines).allowed(agent, SITE + path)


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        # 2.2.2: the longest match decides, whatever the order
        (["Disallow: /a", "Allow: /a/b"], "/a/b/c", True),
        (["Allow: /a/b", "Disallow: /a"], "/a/c", False),
        (["Allow: /", "Disallow: /a/b"], "/a/b", False),
        (["Disallow: /a/b", "Allow: /a"], "/a/b", False),
        # as long: allow
        (["Disallow: /page", "Allow: /page"], "/page", True),
        (["Allow: /page", "Disallow: /page"], "/page", True),
        # no match, no rules, an empty rule: allowed
        (["Disallow: /a"], "/b", True),
        ([], "/b", True),
        (["Disallow:"], "/b", True),
        (["Disallow: /"], "/", False),
        # matches are from the start of the path, by octet and with regard to case
        (["Disallow: /fish"], "/fish.html", False),
        (["Disallow: /fish"], "/fishheads/yummy.html", False),
        (["Disallow: /fish"], "/Fish", True),
        (["Disallow: /fish"], "/catfish", True),
        (["Disallow: /fish/"], "/fish", True),
        (["Disallow: /fish/"], "/fish/a", False),
        (["Disallow: /a?b="], "/a?b=1", False),
        (["Disallow: /a?b="], "/a?c=1", True),
        # 2.2.3: * and $
        (["Disallow: /*.php"], "/folder/any.php5?x", False),
        (["Disallow: /*.php$"], "/filename.php", False),
        (["Disallow: /*.php$"], "/filename.php?parameters", True),
        (["Disallow: /fish*.php"], "/fishheads/catfish.php?parameters", False),
        (["Disallow: /*/private/*/x"], "/a/private/b/c/x", False),
        (["Disallow: *"], "/anything", False),
        (["Disallow: /a$"], "/a", False),
        (["Disallow: /a$"], "/ab", True),
        (["Allow: /p", "Disallow: /*.html$"], "/page.html", False),
        # percent-encoding: both spellings are one
        (["Disallow: /foo/bar/ツ"], "/foo/bar/%E3%83%84", False),
        (["Disallow: /foo/bar/%E3%83%84"], "/foo/bar/ツ", False),
        (["Disallow: /foo/bar/%62%61%7A"], "/foo/bar/baz", False),
        (["Disallow: /foo/bar/baz"], "/foo/bar/%62%61%7a", False),
        (["Disallow: /a%2Fb"], "/a/b", True),
        (["Disallow: /path/file-with-a-%2A.html"], "/path/file-with-a-*.html", False),
        (["Disallow: /path/file-with-a-%2A.html"], "/path/file-with-a-star.html", True),
        # 2.2.2: robots.txt itself is always allowed
        (["Disallow: /"], "/robots.txt", True),
        (["Disallow: /"], "/a/robots.txt", False),
    ],
)
def test_rules_match_as_the_rfc_says(rules: list[str], path: str, allowed: bool) -> None:
    assert allows("\n".join(["User-agent: *", *rules]), path) is allowed


@pytest.mark.parametrize(
    ("agent", "allowed"),
    [
        ("Headwater", False),
        ("headwater/2.0", False),
        ("HEADWATER/0.1 (+https://headwater.example)", False),
        ("Mozilla/5.0 (compatible; Headwater/0.1; +https://headwater.example)", False),
        ("Headwaters/1.0", True),
        ("Head", True),
        ("My-Headwater/1.0", True),
        ("Other (like Headwater)", True),
        ("", True),
    ],
)
def test_a_group_holds_for_its_whole_product_token_only(agent: str, allowed: bool) -> None:
    assert allows("User-agent: HeadWater\nDisallow: /\n\nUser-agent: *\nDisallow: /x", "/a", agent) is allowed


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        # our own group alone holds, even where it is empty
        ("User-agent: *\nDisallow: /\n\nUser-agent: headwater\nAllow: /", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: headwater\nDisallow:", True),
        ("User-agent: headwater\nDisallow: /x\n\nUser-agent: *\nDisallow: /", True),
        # nobody's group: everybody's
        ("User-agent: other\nDisallow:\n\nUser-agent: *\nDisallow: /", False),
        ("User-agent: other\nDisallow: /", True),
        # groups of one agent are one
        (
            "User-agent: headwater\nDisallow: /x\n\nUser-agent: *\nAllow: /\n\nUser-agent: headwater\nDisallow: /a",
            False,
        ),
        ("User-agent: *\nDisallow: /x\n\nUser-agent: *\nDisallow: /a", False),
        # several agents share a group, versions and comments behind a name do not matter
        ("User-agent: other\nUser-agent: headwater\nDisallow: /", False),
        ("User-agent: headwater\nSitemap: https://example.org/s.xml\nUser-agent: other\nDisallow: /", False),
        ("User-agent: Headwater/9.9 # us\nDisallow: /", False),
        ("User-agent: Headwater/9.9\nDisallow: /x\nUser-agent: headwater\nDisallow: /a", False),
        # rules before any group belong to nobody
        ("Disallow: /\nUser-agent: *\nDisallow: /x", True),
    ],
)
def test_the_right_group_is_chosen(text: str, allowed: bool) -> None:
    assert allows(text, "/a") is allowed


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffUser-agent: *\nDisallow: /a",
        "User-agent: *\r\nDisallow: /a\r\n",
        "User-agent: *\rDisallow: /a",
        "user-AGENT : *\nDISALLOW:/a",
        "  User-agent: *  \n\t Disallow: /a # not this one\n",
        "User-agent: *\n\n# a comment\n\nDisallow: /a",
        "<html>nonsense\n%%%\nUser-agent: *\nUnknown: thing\nDisallow: /a\n:\n\x00\x01",
        "User-agent: *\nDisallow: /\ud800\nDisallow: /a",
    ],
)
def test_odd_spellings_and_garbage_lines_do_not_hide_a_rule(text: str) -> None:
    assert not allows(text, "/a")
    assert allows(text, "/b")


def test_an_empty_file_and_a_page_that_is_no_robots_file_allow_everything() -> None:
    assert allows("", "/a")
    assert allows("<!doctype html><html><body>Not found</body></html>", "/a")


def test_what_lies_beyond_the_size_limit_is_ignored_and_no_rule_is_cut_in_two() -> None:
    head = "User-agent: *\nDisallow: /first\n"
    filler = "#" + "x" * (MAX_BYTES - len(head) - len("#\nDisallow: /")) + "\n"
    robots = Robots(head + filler + "Disallow: /private\nDisallow: /late\n")
    assert not robots.allowed(AGENT, SITE + "/first")
    assert robots.allowed(AGENT, SITE + "/private")
    assert robots.allowed(AGENT, SITE + "/other")


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 10", 10.0),
        ("User-agent: *\nCrawl-delay: 0.5\nDisallow: /x", 0.5),
        ("User-agent: headwater\nCrawl-delay: 3\n\nUser-agent: *\nCrawl-delay: 10", 3.0),
        ("User-agent: headwater\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 10", None),
        ("User-agent: *\nCrawl-delay: soon", None),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: nan", None),
        ("User-agent: *\nCrawl-delay: inf", None),
        ("", None),
    ],
)
def test_the_crawl_delay_is_that_of_the_agents_group(text: str, delay: float | None) -> None:
    assert Robots(text).crawl_delay(AGENT) == delay


def test_sitemaps_are_listed_wherever_they_stand() -> None:
    text = "Sitemap: https://example.org/a.xml\nUser-agent: *\nDisallow: /\nsitemap: https://example.org/b.xml"
    assert Robots(text).sitemaps == ("https://example.org/a.xml", "https://example.org/b.xml")


def test_the_verdict_for_the_sandbox_says_both_things() -> None:
    text = "User-agent: *\nDisallow: /a\nCrawl-delay: 2"
    assert check_robots(text, AGENT, SITE + "/a") == RobotsVerdict(allowed=False, crawl_delay=2.0)
    assert check_robots(text, AGENT, SITE + "/b") == RobotsVerdict(allowed=True, crawl_delay=2.0)


def test_an_address_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidURL):
        Robots("User-agent: *\nDisallow: /a").allowed(AGENT, "https://[broken/ä")


@given(text=st.text(), path=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_no_text_breaks_it(text: str, path: str) -> None:
    robots = Robots(f"User-agent: *\nDisallow: /{text}\n{text}")
    assert isinstance(robots.allowed(AGENT, f"{SITE}/{path}"), bool)
    assert robots.allowed(AGENT, f"{SITE}/robots.txt")
