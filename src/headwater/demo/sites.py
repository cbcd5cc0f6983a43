"""The hosts of the demo web. To add a host, add a site here or in `faulty_sites.py`, and add it to its tuple.

The headlines do not depend on the seed or the day, so the addresses do not either. Two pieces with the same headline,
topic and language have the same text on every host.
"""

from dataclasses import replace

from headwater.core.reasons import Reason
from headwater.core.source import Method
from headwater.demo.answers import HTML, always, conditional, redirect, status, walled
from headwater.demo.faulty_sites import FAULTY
from headwater.demo.federal_sites import FEDERAL
from headwater.demo.feeds import atom, est, iso_offset, iso_z, json_feed, plus_one, rss
from headwater.demo.govuk_site import GOVUK
from headwater.demo.pages import amp_page, challenge_page, cookie_wall, login_wall, print_page, soft_404
from headwater.demo.pdf import pdf
from headwater.demo.plan import Ends, FeedPlan, Piece, make_site

_RSS = "application/rss+xml; charset=utf-8"
_ATOM = "application/atom+xml; charset=utf-8"
_JSON = "application/feed+json; charset=utf-8"
_PDF = "application/pdf"

_DISALLOW_PRIVATE = "User-agent: *\nDisallow: /private/\n"

_STORM = "Storm front leaves Hollin Hill without power for a night"
_ROADS = "Council finds two million for road repairs"
_ROADS_PATH = "/news/road-repairs"
_WEIR = "Weir gates at Millrace reopen after a year of repairs"
_WEIR_PATH = "/stories/weir-gates"
_CIRCLE = "Readers are sent round in a circle"
_MAPS = "Lost parish maps turn up in a library cellar"
_MAPS_PATH = "/copies/parish-maps"
_MINUTES = "Minutes of a closed meeting"
_MINUTES_PATH = "/private/minutes"
_TO_THE_MIRROR = redirect(302, f"http://mirror.demo.test{_MAPS_PATH}")
_TRACKING = "?utm_source=wire&utm_medium=rss&utm_campaign=desk"
_MARKET = Piece(
    "Covered market keeps its Saturday stalls", "councils", 4, path="/news/covered-market", ends=Ends.STORED_OR_LINKED
)
_BUDGET = Piece(
    "Budget book, part one (all figures)",
    "budgets",
    2,
    path="/papers/budget-1.pdf",
    stamp=iso_z,
    form=pdf,
    content_type=_PDF,
)
# A title that attacks a terminal: markup, escape codes, a change of writing direction, and a very long word.
HOSTILE_TITLE = f"[bold red]Sale[/bold red] \x1b[31mto\u202eday\x1b[0m :bomb: [/] \\[link] {'only' * 40}"

GAZETTE = make_site(
    "gazette",
    "The Wendham Gazette",
    Piece("Flood barrier on the Wend passes its first full test", "rivers", 0),
    Piece("Late-night bus returns to the hill estates", "transport", 0, stamp=est),
    Piece("Central library opens on Sundays from spring", "libraries", 1, stamp=plus_one),
    Piece(_ROADS, "budgets", 1, path=_ROADS_PATH),
    Piece(_STORM, "weather", 2, stamp=est, ends=Ends.STORED_OR_LINKED),
    Piece("Councillors agree to publish every decision within days", "councils", 3, stamp=plus_one),
    Piece("La bibliothèque du quai rouvre ses portes aux lecteurs", "libraries", 5, language="fr", stamp=plus_one),
    Piece("Ferry and tram tickets become one from next month", "transport", 9),
    _MARKET,
    replace(_MARKET, path="/amp/covered-market", form=amp_page, canonical=_MARKET.path),
    replace(_MARKET, path="/print/covered-market", form=print_page, canonical=_MARKET.path),
    look="gazette",
    feed=FeedPlan("/feed.xml", rss, _RSS),
    robots="User-agent: *\nAllow: /\nSitemap: http://gazette.demo.test/sitemap_index.xml\n",
    sitemaps=True,
)

COUNCIL = make_site(
    "council",
    "Wendham Town Council",
    Piece("Draft budget goes out for comment", "budgets", 0, stamp=iso_z),
    Piece("By-election called for the vacant seat in Fennbridge", "councils", 0, stamp=iso_offset),
    Piece("Footbridge at Oxley Quay closes for new bearings", "transport", 4, updated_days_ago=0, stamp=iso_z),
    Piece("Winter gritting routes are published", "weather", 6, stamp=iso_offset),
    Piece("Partnerstadt baut den Uferweg am Fluss aus", "rivers", 8, language="de", stamp=iso_offset),
    Piece("Riverside embankment to be raised before autumn", "rivers", 12, updated_days_ago=7, stamp=iso_z),
    _BUDGET,
    # The bytes decide that this is a PDF, not the content type.
    replace(_BUDGET, headline="Budget book, part two", path="/papers/budget-2", content_type=HTML),
    look="council",
    folder="/releases",
    utc_offset_hours=1,
    feed=FeedPlan("/news.atom", atom, _ATOM, answer=conditional),
)

WIRE = make_site(
    "wire",
    "Valley Wire",
    Piece("Rail freight to the mill doubles in a year", "transport", 0, stamp=est),
    Piece("Reservoir stands below its usual mark after dry spring", "weather", 0, stamp=plus_one),
    Piece("Readers borrow more books than before the floods", "libraries", None),
    Piece("Hochwassermauer an der Alten Werft ist fertig", "rivers", 2, language="de"),
    Piece(_STORM, "weather", 2, ends=Ends.STORED_OR_LINKED),
    Piece(_ROADS, "budgets", 1, link=f"http://gazette.demo.test{_ROADS_PATH}{_TRACKING}"),
    Piece(_WEIR, "rivers", 3, path="/r/1182", answer=redirect(301, _WEIR_PATH)),
    Piece(_WEIR, "rivers", 3, path=_WEIR_PATH, listed=False, ends=Ends.SAME_PAGE),
    Piece(_MAPS, "libraries", 4, path="/out/4471", answer=_TO_THE_MIRROR, ends=Ends.REDIRECTED),
    Piece(_CIRCLE, "councils", 5, path="/r/there", answer=redirect(302, "/r/back"), ends=Ends.REDIRECT_LIMIT),
    Piece(_CIRCLE, "councils", 5, path="/r/back", answer=redirect(302, "/r/there"), listed=False, ends=Ends.NONE),
    Piece("Story withdrawn by the desk", "councils", 5, answer=None, ends=Ends.NOT_FOUND),
    Piece("Story withdrawn by a court", "councils", 5, answer=always(status(410)), ends=Ends.GONE),
    Piece("Story for member papers", "councils", 6, answer=always(status(403)), ends=Ends.REFUSED),
    Piece(_MINUTES, "councils", 6, link=f"http://mirror.demo.test{_MINUTES_PATH}"),
    folder="/stories",
    utc_offset_hours=-5,
    feed=FeedPlan("/rss", rss, _RSS),
)

MIRROR = make_site(
    "mirror",
    "The Wendham Mirror",
    Piece(_MAPS, "libraries", 4, path=_MAPS_PATH, listed=False),
    Piece(_MINUTES, "councils", 6, path=_MINUTES_PATH, listed=False, ends=Ends.BLOCKED),
    folder="/copies",
    robots=_DISALLOW_PRIVATE,
)

KAWABE = make_site(
    "kawabe",
    "川辺新報",
    Piece("川沿いの遊歩道が十年ぶりに全線開通", "rivers", 0, language="ja", stamp=iso_offset),
    Piece("中央図書館の夜間開館が始まる", "libraries", 0, language="ja", stamp=iso_offset, path="/%E6%9C%AC/%E5%A4%9C"),
    Piece("水門の点検を冬の前に終える", "rivers", 3, updated_days_ago=0, language="ja", stamp=iso_z),
    Piece("まだ出せない下書き", "rivers", 3, language="ja", stamp=iso_z, path="/drafts/1", ends=Ends.BLOCKED),
    look="gazette",
    utc_offset_hours=9,
    feed=FeedPlan("/feed.json", json_feed, _JSON),
    robots="\ufeffuser-agent: *\r\n<<< garbage >>>\r\nDisallow /without-a-colon\r\n: : :\r\nDISALLOW: /drafts/\r\n",
)

HEAN = make_site(
    "hean",
    "河岸日报",
    Piece("河边步道时隔十年全线开通", "rivers", 0, language="zh", stamp=iso_offset),
    Piece("市图书馆开始夜间开放", "libraries", 1, language="zh", stamp=iso_offset),
    utc_offset_hours=8,
    feed=FeedPlan("/feed.atom", atom, _ATOM),
)

SAHIFA = make_site(
    "sahifa",
    "صحيفة الوادي",
    Piece("المدينة تتجاوز أقوى عاصفة منذ سنوات", "weather", 0, language="ar", stamp=iso_offset),
    Piece("المكتبة المركزية تفتح أبوابها مساء", "libraries", 2, language="ar", stamp=iso_offset),
    utc_offset_hours=2,
    feed=FeedPlan("/feed.atom", atom, _ATOM),
    robots="User-agent: *\nDisallow: /\n\nUser-agent: headwater\nAllow: /\n",
)

# A soft 404 and three kinds of interstitial pages answer 200: only their text shows what they are.
_COOKIE_WALL = {Reason.COOKIE_WALL}
_INTERSTITIALS = (
    ("Found in the reading room: a folder of letters", "libraries", 2, soft_404, "Page not found", {Reason.SOFT_404}),
    ("For members: garden plots to let", "councils", 3, login_wall, "Log in to read on", {Reason.LOGIN_WALL}),
    ("Wanted: a rower for the Sunday crew", "rivers", 3, cookie_wall, "Your privacy and our cookies", _COOKIE_WALL),
    ("To give away: a tram seat, hardly used", "transport", 4, challenge_page, "Just a moment...", Ends.GIVEN_UP),
)
BOARD = make_site(
    "board",
    "Wendham Pinboard",
    Piece(HOSTILE_TITLE, "budgets", 0, path="/notices/sale", stamp=iso_z),
    Piece("Lost near the weir: one grey bicycle", "rivers", 1, stamp=iso_z),
    *(
        Piece(headline, topic, days_ago, form=form, title=title, stamp=iso_z, ends=frozenset(ends))
        for headline, topic, days_ago, form, title, ends in _INTERSTITIALS
    ),
    look="council",
    folder="/notices",
    feed=FeedPlan("/notices.json", json_feed, _JSON),
    robots_answer=always(status(403)),  # a robots.txt that is refused forbids nothing
)

# Only its sitemaps lead to its pages. A page that they call old is not fetched.
LEDGER = make_site(
    "ledger",
    "The Wendham Ledger",
    Piece("Accounts of the harbour trust are open to all", "budgets", 0),
    Piece("Auditors praise the tidy books of the tram company", "budgets", 1),
    Piece("How to read a town budget in an hour", "budgets", None),
    Piece("Ledger of a hundred years ago is put on show", "libraries", 30, ends=Ends.NONE),
    look="gazette",
    folder="/entries",
    read_by=Method.SITEMAP,
    sitemaps=True,
    sitemap_of_lists=False,
)

# It has neither a feed nor a sitemap, so a spider reads it.
GUIDE = make_site(
    "guide",
    "The Valley Guide",
    Piece("Walks along the Wend for dry days", "rivers", 3),
    Piece("Reading rooms that stay open late", "libraries", 12),
    Piece("Where to wait for the hill tram in the rain", "transport", 40),
    Piece("A guide that no page leads to", "transport", 2, form=print_page, ends=Ends.NONE),
    folder="/guides",
    robots="User-agent: *\nDisallow: /members\n",
    read_by=Method.SPIDER,
)

# A client without a browser gets only a challenge.
VAULT = make_site(
    "vault",
    "The Wendham Vault",
    Piece("Old deeds of the town may be read by everybody", "libraries", 1, answer=walled),
    Piece("Key of the strong room turns up in a teapot", "libraries", 4, answer=walled),
    look="gazette",
    walled=True,
)

_WITHOUT_FEED = (MIRROR, *FAULTY)

# Its feed links to the pages of all hosts without a feed.
DIGEST = make_site(
    "digest",
    "The Valley Digest",
    *(replace(piece, link=site.url(piece)) for site in _WITHOUT_FEED for piece in site.listed),
    feed=FeedPlan("/all.xml", rss, _RSS),
    robots=_DISALLOW_PRIVATE,
)

SITES = (
    GAZETTE,
    COUNCIL,
    WIRE,
    KAWABE,
    HEAN,
    SAHIFA,
    BOARD,
    DIGEST,
    LEDGER,
    GUIDE,
    GOVUK,
    VAULT,
    *FEDERAL,
    *_WITHOUT_FEED,
)
