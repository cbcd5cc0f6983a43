"""Spec 4.1 and 8.6: robots.txt by RFC 9309."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from headwater.core.errors import InvalidURL
from headwater.politeness.robots import MAX_BYTES, Robots, RobotsRule, RobotsVerdict, check_robots
from headwater.sandbox.pool import Sandbox

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
        # of equal length: allow
        (["Disallow: /page", "Allow: /page"], "/page", True),
        (["Allow: /page", "Disallow: /page"], "/page", True),
        # no match, no rules, an empty rule: allowed
        (["Disallow: /a"], "/b", True),
        ([], "/b", True),
        (["Disallow:"], "/b", True),
        (["Disallow: /", "Allow:"], "/b", False),
        (["Disallow: /"], "/", False),
        (["Disallow: /"], "", False),
        (["Disallow: b"], "/b", True),
        # matches are from the start of the path, by octet and with regard to case
        (["Disallow: /fish"], "/fish.html", False),
        (["Disallow: /fish"], "/fishheads/yummy.html", False),
        (["Disallow: /fish"], "/Fish", True),
        (["Disallow: /fish"], "/catfish", True),
        (["Disallow: /fish/"], "/fish", True),
        (["Disallow: /fish/"], "/fish/a", False),
        (["Disallow: /a?b="], "/a?b=1", False),
        (["Disallow: /a?b="], "/a?c=1", True),
        (["Disallow: /?b"], "?b#c", False),
        (["Disallow: /a?$"], "/a?", False),
        (["Disallow: /a?$"], "/a", True),
        (["Disallow: /a%23"], "/a#b", True),
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
        (["Disallow: /a*b$"], "/ab/b", False),
        (["Disallow: /ab*b$"], "/ab", True),
        (["Disallow: /*ab*b"], "/ab", True),
        (["Disallow: /a$b"], "/a$b", False),
        (["Disallow: $"], "/", True),
        # * and $ count as octets, and an octet is one however it is written
        (["Disallow: /*/", "Allow: /ab"], "/ab/", True),
        (["Disallow: /**/", "Allow: /ab"], "/ab/", False),
        (["Allow: /$", "Disallow: /"], "/", True),
        (["Disallow: /*?*", "Allow: /news"], "/news?page=2", True),
        (["Disallow: /a%62c", "Allow: /abc"], "/abc", True),
        (["Disallow: /%E3%83%84", "Allow: /*abcdef"], "/ツabcdef", True),
        # percent-encoding: both spellings are one
        (["Disallow: /foo/bar/ツ"], "/foo/bar/%E3%83%84", False),
        (["Disallow: /foo/bar/%E3%83%84"], "/foo/bar/ツ", False),
        (["Disallow: /foo/bar/%62%61%7A"], "/foo/bar/baz", False),
        (["Disallow: /foo/bar/baz"], "/foo/bar/%62%61%7a", False),
        (["Disallow: /a%2Fb"], "/a/b", True),
        (["Disallow: /a/b"], "/a%2fb", True),
        (["Disallow: /a%2Fb"], "/a%2fb", False),
        (["Disallow: /a%3Fb"], "/a?b", False),
        (["Disallow: /a%20b"], "/a b", False),
        (["Disallow: /a b"], "/a%20b", False),
        (["Disallow: /100%"], "/100%25", False),
        (["Disallow: /%zz"], "/%zz", False),
        (["Disallow: /*3F"], "/a?b", True),
        (["Disallow: /e\u0301"], "/e%CC%81", False),
        (["Disallow: /e\u0301"], "/%C3%A9", True),
        (["Disallow: /path/file-with-a-%2A.html"], "/path/file-with-a-*.html", False),
        (["Disallow: /path/file-with-a-%2A.html"], "/path/file-with-a-star.html", True),
        # 2.2.2: robots.txt itself is always allowed
        (["Disallow: /"], "/robots.txt", True),
        (["Disallow: /"], "/a/robots.txt", False),
        (["Disallow: /"], "/robots.txt?a", False),
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
        # a group without an agent is the group of all agents
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
        ("User-agent: headwater\nCrawl-delay: 5\nUser-agent: other\nDisallow: /", False),
        ("User-agent: headwater\nUnknown: thing\n\nUser-agent: other\nDisallow: /", False),
        ("User-agent: Mozilla/5.0 (compatible; Headwater/1.0)\nDisallow: /", False),
        # a rule ends them, also an empty rule, and so does a group without an agent
        ("User-agent: headwater\nDisallow:\nUser-agent: other\nDisallow: /", True),
        ("User-agent: *\nDisallow: /\nUser-agent: headwater", True),
        ("User-agent: headwater\nDisallow: /x\nUser-agent:\nDisallow: /", True),
        # rules before any group belong to no agent
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
        "useragent: *\ndisalow: /a",
        "User agent *\nDisallow /a",
        "User-agent:\u00a0*\nDisallow:\u3000/a\u00a0",
        "User-agent: *\nDis\0allow: /\0a\x1b",
        "User-agent: *\nAllow: /b\u2028Disallow: /b\nDisallow: /a",
        "  User-agent: *  \n\t Disallow: /a # not this one\n",
        "User-agent: *\n\n# a comment\n\nDisallow: /a",
        "<html>nonsense\n%%%\nUser-agent: *\nUnknown: thing\nDisallow: /a\n:\n\x00\x01",
        "User-agent: *\nDisallow: /\ud800\nDisallow: /a",
    ],
)
def test_odd_spellings_and_garbage_lines_do_not_hide_a_rule(text: str) -> None:
    assert not allows(text, "/a")
    assert allows(text, "/b")
    assert allows(text, "/?b")


def test_an_agent_without_a_name_has_no_group_of_its_own() -> None:
    assert allows("User-agent:\nDisallow: /\nUser-agent: *\nDisallow: /x", "/a", "")


def test_an_empty_file_and_a_page_that_is_no_robots_file_allow_everything() -> None:
    assert allows("", "/a")
    assert allows("<!doctype html><html><body>Not found</body></html>", "/a")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_text_beyond_the_size_limit_is_ignored_and_no_rule_is_cut_in_two(line_end: str) -> None:
    head = f"User-agent: *{line_end}Disallow: /first{line_end}"
    filler = "#" + "x" * (MAX_BYTES - len(head) - len(f"#{line_end}Disallow: /")) + line_end
    robots = Robots(head + filler + f"Disallow: /private{line_end}Disallow: /late{line_end}")
    assert not robots.allowed(AGENT, SITE + "/first")
    assert robots.allowed(AGENT, SITE + "/private")
    assert robots.allowed(AGENT, SITE + "/other")
    assert Robots("Disallow: /" + "x" * MAX_BYTES).allowed(AGENT, SITE)


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 10", 10.0),
        ("User-agent: *\nCrawl-delay: 0.5\nDisallow: /x", 0.5),
        ("User-agent: headwater\nCrawl-delay: 3\n\nUser-agent: *\nCrawl-delay: 10", 3.0),
        ("User-agent: headwater\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 10", None),
        # for the agents before it in the run
        ("User-agent: headwater\nCrawl-delay: 3\nUser-agent: other\nCrawl-delay: 10\nDisallow: /", 3.0),
        ("User-agent: other\nCrawl-delay: 10\nUser-agent: headwater\nDisallow: /", None),
        # asked for twice: the longer
        ("User-agent: *\nCrawl-delay: 3\nDisallow: /\nUser-agent: *\nCrawl-delay: 10", 10.0),
        ("User-agent: *\nCrawl-delay: 10\nDisallow: /\nUser-agent: *\nCrawl-delay: 3", 10.0),
        ("User-agent: *\nCrawl-delay: 0", 0.0),
        ("User-agent: *\nCrawl-delay: 1 # second", 1.0),
        ("Crawl-delay: 10\nUser-agent: *", None),
        ("User-agent: *\nCrawl-delay:", None),
        ("User-agent: *\nCrawl-delay: 1e999", None),
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


@pytest.mark.parametrize(
    ("agent", "path", "rule"),
    [
        ("headwater", "/a/b", RobotsRule(6, "Allow: /a/b # but this", allow=True, agent="headwater")),
        ("Headwater/1.0", "/a/c", RobotsRule(5, "disallow : /a", allow=False, agent="headwater")),
        ("headwater", "/x", None),
        ("other", "/x", RobotsRule(9, "Disallow: /", allow=False, agent="*")),
        ("other", "/robots.txt", None),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_the_deciding_line_is_returned_as_it_is_in_the_file(
    agent: str, path: str, rule: RobotsRule | None, line_end: str
) -> None:
    """Spec 8.3."""
    lines = [
        *["\ufeff# ours", "", "User-agent: Other-bot", "User-agent: HeadWater", " disallow : /a "],
        *["Allow: /a/b # but this", "Allow: /a/b", "User-agent: *", "Disallow: /", "Disallow: /"],
    ]
    assert Robots(line_end.join(lines)).rule(agent, SITE + path) == rule


def test_the_deciding_line_has_no_control_characters_and_a_limited_length() -> None:
    """Spec 8.3."""
    rule = Robots("User-agent: *\nDisallow:\t/\x1b[31m\0" + "ä*" * 300).rule(AGENT, f"{SITE}/[31m" + "ä" * 300)
    assert rule is not None
    assert rule.text == ("Disallow: /[31m" + "ä*" * 300)[:200]


async def test_the_sandbox_returns_the_whole_verdict() -> None:
    text = "User-agent: *\nDisallow: /a\nCrawl-delay: 2"
    rule = RobotsRule(2, "Disallow: /a", allow=False, agent="*")
    async with Sandbox(packages=["headwater"], workers=1) as sandbox:
        for path, verdict in {"/a": RobotsVerdict(False, 2.0, rule), "/b": RobotsVerdict(True, 2.0)}.items():
            assert await sandbox.run(check_robots, text, AGENT, SITE + path, returns=RobotsVerdict) == verdict


@pytest.mark.parametrize("url", ["https://[broken/ä", "https://example.org/\ud800"])
@pytest.mark.parametrize("text", ["", "User-agent: *\nDisallow: /a"])
def test_an_address_that_cannot_be_read_is_refused(url: str, text: str) -> None:
    with pytest.raises(InvalidURL):
        Robots(text).allowed(AGENT, url)


# RFC 9309, 2.2.1: merged groups and the group of all agents; 5.1 and 5.2: the examples at its end.
MERGED = """user-agent: ExampleBot
disallow: /foo
disallow: /bar

user-agent: ExampleBot
disallow: /baz
"""
OTHERS = """user-agent: *
disallow: /foo
disallow: /bar

user-agent: BazBot
disallow: /baz
"""
SIMPLE = """User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot

EOF
"""
LONGEST = """User-Agent: foobot
Allow: /example/page/
Disallow: /example/page/disallowed.gif
"""


@pytest.mark.parametrize(
    ("text", "agent", "path", "allowed"),
    [
        *[(MERGED, "ExampleBot", path, False) for path in ("/foo", "/bar", "/baz")],
        (MERGED, "OtherBot", "/foo", True),
        *[(OTHERS, "ExampleBot", path, path == "/baz") for path in ("/foo", "/bar", "/baz")],
        (OTHERS, "bazbot", "/foo", True),
        (SIMPLE, "anybot", "/publications/", True),
        (SIMPLE, "anybot", "/example/a", False),
        (SIMPLE, "anybot", "/a/b.gif", False),
        (SIMPLE, "anybot", "/a/b.gif?c", True),
        (SIMPLE, "foobot", "/example/page.html", True),
        (SIMPLE, "foobot", "/example/allowed.gif", True),
        (SIMPLE, "foobot", "/", False),
        *[(SIMPLE, agent, "/example/page.html", False) for agent in ("barbot", "bazbot")],
        *[(SIMPLE, agent, "/example/", True) for agent in ("barbot", "bazbot")],
        (SIMPLE, "quxbot", "/example/page.html", True),
        (LONGEST, "foobot", "/example/page/disallowed.gif", False),
        (LONGEST, "foobot", "/example/page/other.gif", True),
    ],
)
def test_the_examples_of_the_rfc_hold(text: str, agent: str, path: str, allowed: bool) -> None:
    assert allows(text, path, agent) is allowed


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        # 2.2.2, each spelling against the others of its row
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A"),
        # 2.2.3
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
        ("/this/path/exactly$", "/this/path/exactly"),
        ("/this/*/exactly", "/this/and/that/exactly"),
    ],
)
def test_the_tables_of_the_rfc_hold(pattern: str, path: str) -> None:
    assert not allows(f"User-agent: *\nDisallow: {pattern}", path)


@given(text=st.text(), path=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_no_text_breaks_it(text: str, path: str) -> None:
    robots = Robots(f"User-agent: *\nDisallow: /{text}\n{text}")
    assert isinstance(robots.allowed(AGENT, f"{SITE}/{path}"), bool)
    assert robots.allowed(AGENT, f"{SITE}/robots.txt")


@dataclass(frozen=True)
class Group:
    """Agents and what is asked of them: kind of rule and pattern."""

    agents: list[str]
    rules: list[tuple[str, str]]

    @property
    def lines(self) -> list[str]:
        return [f"User-agent: {agent}" for agent in self.agents] + [f"{kind}: {path}" for kind, path in self.rules]


def spelled(alphabet: str) -> st.SearchStrategy[str]:
    """Paths of these characters, each as it is or escaped, in capitals or not."""

    def spellings(character: str) -> list[str]:
        escaped = "".join(f"%{octet:02x}" for octet in character.encode())
        return [character, escaped, escaped.upper()]

    return st.lists(st.sampled_from(alphabet).flatmap(lambda c: st.sampled_from(spellings(c)))).map("".join)


AGENTS = ("headwater", "otherbot", "thirdbot", "*")
PATHS = st.text("/ab", max_size=8).map("/".__add__)
PATTERNS = st.builds(
    "{}{}{}".format, st.sampled_from(["", "/", "*"]), st.text("/ab*", max_size=6), st.sampled_from(["", "", "$"])
)
GROUPS = st.lists(
    st.builds(
        Group,
        st.lists(st.sampled_from(AGENTS), min_size=1, max_size=3),
        st.lists(st.tuples(st.sampled_from(["Allow", "Disallow"]), PATTERNS), min_size=1, max_size=4),
    ),
    max_size=5,
)
# Text between any two lines that changes nothing.
FILLERS = st.sampled_from(
    ["", "# User-agent: *", "Sitemap: https://example.org/s", "Host: a", "Allowed: /", "<p>", "*"]
)


def model_octets(path: str) -> list[int | str]:
    octets, rest = list[int | str](), path.encode()
    while rest:
        try:
            escape = bytes.fromhex(rest[1:3].decode()) if rest[:1] == b"%" else b""
        except ValueError:
            escape = b""
        octets.append("escaped slash" if escape == b"/" else (escape or rest)[0])
        rest = rest[3 if escape else 1 :]
    return octets


def model_matches(pattern: str, path: str) -> bool:
    """Follow every way at once."""
    octets = model_octets(path)
    reached = {0}
    for number, piece in enumerate(pattern.removesuffix("$").split("*")):
        if number:
            reached = {end for start in reached for end in range(start, len(octets) + 1)}
        for octet in model_octets(piece):
            reached = {place + 1 for place in reached if place < len(octets) and octets[place] == octet}
    return len(octets) in reached if pattern.endswith("$") else bool(pattern and reached)


def model_rule(groups: list[Group], agent: str, path: str) -> tuple[str, str] | None:
    mine = [group for group in groups if agent in group.agents] or [group for group in groups if "*" in group.agents]
    matching = [rule for group in mine for rule in group.rules if model_matches(rule[1], path)]
    return max(matching, key=lambda rule: (len(model_octets(rule[1])), rule[0] == "Allow"), default=None)


@given(spelled("ab*") | spelled("/abé*?$%"), spelled("ab") | spelled("/abé*?$%"))
def test_a_pattern_matches_as_one_that_tries_every_way_says(pattern: str, path: str) -> None:
    text = f"User-agent: *\nDisallow: /{pattern}"
    assert allows(text, f"/{path}") is not model_matches(f"/{pattern}", f"/{path}")


@given(GROUPS, st.sampled_from(AGENTS[:3]), PATHS, st.data())
def test_the_rule_that_decides_is_the_one_a_plain_search_finds(
    groups: list[Group], agent: str, path: str, data: st.DataObject
) -> None:
    lines = [line for group in groups for line in group.lines]
    filled = [text for line in lines for text in (*data.draw(st.lists(FILLERS, max_size=2)), line)]
    rule = Robots("\n".join(filled)).rule(agent, SITE + path)
    expected = model_rule(groups, agent, path)
    assert (rule and rule.text) == (expected and ": ".join(expected).strip())
    if rule:
        assert filled[rule.line - 1].strip() == rule.text
        assert rule.allow is rule.text.startswith("Allow")


@given(GROUPS, st.sampled_from(AGENTS[:3]), PATHS)
def test_protego_agrees_where_both_follow_the_rfc(groups: list[Group], agent: str, path: str) -> None:
    text = "\n".join(line for group in groups for line in group.lines)
    assert allows(text, path, agent) is Protego.parse(text).can_fetch(SITE + path, agent)


@given(spelled("/ab=:é&ツ~"), spelled("/ab=:é&ツ~"), st.sampled_from(["", "$"]))
def test_protego_agrees_on_escapes(pattern: str, path: str, end: str) -> None:
    for shared in ("", path):
        text = f"User-agent: *\nDisallow: /{shared}{pattern}{end}"
        assert allows(text, f"/{path}") is Protego.parse(text).can_fetch(f"{SITE}/{path}", AGENT)


@given(st.permutations(AGENTS), st.lists(st.sampled_from(["0", "1.5", "60", "-1", "nan", "inf", "x", ""]), min_size=4))
def test_protego_agrees_on_delays(agents: list[str], delays: list[str]) -> None:
    text = "".join(
        f"User-agent: {agent}\nDisallow: /a\nCrawl-delay: {delay}\n"
        for agent, delay in zip(agents, delays, strict=False)
    )
    for agent in AGENTS[:3]:
        assert Robots(text).crawl_delay(agent) == Protego.parse(text).crawl_delay(agent)


def times(unit: str) -> Callable[[int], str]:
    """The lines that fit into so many bytes, in the group of all agents."""
    return lambda size: "User-agent: *\n" + unit * (size // len(unit.encode()))


HOSTILE = {
    "rules": times("allow:/b\n"),
    "empty lines": times("\r"),
    "agents that share rules": lambda size: times("User-agent: *\n")(size // 2) + times("Allow: /b\n")(size // 2),
    "agents of their own that share rules": lambda size: (
        "".join(f"User-agent: a{number}\n" for number in range(size // 40)) + times("Allow: /b\n")(size // 2)
    ),
    "agents and delays": times("User-agent: *\nCrawl-delay: 1\n"),
    "agents, then delays": lambda size: times("User-agent: *\n")(size // 2) + "Crawl-delay: 1\n" * (size // 30),
    "agents in one group after another": times("User-agent: *\nAllow: /b\n"),
    "sitemaps": times("Sitemap: a\n"),
    "stars": lambda size: "User-agent: *\nAllow: /" + "*" * size + "b$",
    "stars and letters": lambda size: "User-agent: *\nAllow: /" + "*a" * (size // 2) + "b$",
    "rules of stars and letters": times("Allow: /" + "*a" * 200 + "*b$\n"),
    "rules that nearly match": times("Allow: *" + "a" * 60 + "b\n"),
    "blanks": lambda size: "Disallow" + " " * size + "x",
    "a name of blanks": lambda size: "User-agent: mozilla/" + "x" * (size // 2) + " " * (size // 2) + "x",
    "escapes": lambda size: "User-agent: *\nAllow: /" + "%41" * (size // 3),
    "accents upon accents": lambda size: "User-agent: *\nAllow: /" + "\u0301\u0316" * (size // 4),
    "digits": lambda size: "User-agent: *\nCrawl-delay: " + "1" * size,
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_time_it_takes_grows_no_faster_than_the_file(hostile: Callable[[int], str]) -> None:
    def seconds(size: int) -> float:
        text = hostile(size)
        assert size / 2 < len(text.encode()) < MAX_BYTES
        gc.disable()  # it walks whatever the tests before have left, and the more often the larger the file is
        try:
            started = time.process_time()
            Robots(text).allowed(AGENT, f"{SITE}/{'a' * 2000}")
            return time.process_time() - started
        finally:
            gc.enable()

    # sixteen times the size: were it the square of it that counts, this would be 256 times as long
    small, large = (min(seconds(size) for _ in range(5)) for size in (MAX_BYTES // 20, MAX_BYTES * 16 // 20))
    assert large < 64 * max(small, 0.0005)
