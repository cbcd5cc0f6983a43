# ruff: noqa: RUF001 (signs of other scripts)
"""Short genuine articles that speak of walls, or are named as if they were one."""

from collections.abc import Iterator

from tests.interstitial_pages import bare, with_long_footer, with_nav

_PLAIN = (
    "The archivist had counted the boxes twice before she rang the mayor on Monday morning.",
    "Nobody in the town remembers who carried them down to the cellar, or in which of the dry years that was.",
    "A small prize is promised to whoever brings the last of them back before the fair in May.",
)
# A headline and its paragraphs. Without paragraphs, the page has three that do not fit the headline.
_ARTICLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Endangered page of history not found in archive", ()),
    ("Just a moment: how the minister lost his temper, and then his post", ()),
    ("Just a moment of rest for the ferrymen of the Wend", ()),
    ("Route 404 closed after landslide", ()),
    ("404 people evacuated from hillside homes", ()),
    ("404: the bus that nobody wants to lose", ()),
    ("Flight 404 lands safely in fog", ()),
    ("Missing file on harbour deal found in a piano", ()),
    ("Document on the harbour deal no longer exists, says ministry", ()),
    ("Site of the old mill not found, diggers say", ()),
    ("Diary page missing since 1871 turns up in Lisbon", ()),
    ("Police: missing boy not found", ()),
    ("Not found guilty, yet not free", ()),
    ("Access denied: fans locked out of the cup final", ()),
    ("Access denied", ()),
    ("Attention required at level crossings, railway warns", ()),
    ("Security check at the airport takes three hours", ()),
    ("Security check", ()),
    ("Are you a robot? A clown asks his audience", ()),
    ("Robot or human?", ()),
    ("Please wait", ()),
    ("One moment, please", ()),
    ("Un momento", ()),
    ("Un instant", ()),
    ("Blocked", ()),
    ("Forbidden", ()),
    ("Page not found", ()),
    ("Lost page", ()),
    ("Error 404", ()),
    ("Request denied: no second bridge for the north bank", ()),
    ("Members only: the last gentlemen's club of the valley closes", ()),
    ("Sign in the window led police to the thief", ()),
    ("Log in the river blocks the ferry", ()),
    ("Before you continue: a walker's guide to the moor", ()),
    ("We value your privacy, says the parrot", ()),
    ("Cookie of the year is baked in Wendham", ()),
    ("Privacy hedge costs neighbour his garden", ()),
    ("Seite nicht gefunden: Wie ein Band der Stadtchronik verschwand", ()),
    ("Kein Roboter: Der neue Melker heißt Horst", ()),
    ("Existiert nicht mehr: das Kino am Markt", ()),
    ("Introuvable depuis trois ans, le cerf de bronze est revenu", ()),
    ("No existe otro río como este, dicen los barqueros", ()),
    ("Страница истории не найдена: архив ищет летопись", ()),
    ("الصفحة الأخيرة من المخطوط غير موجودة في المكتبة", ()),
    (
        "CAPTCHAs are harder for people than for programs, study finds",
        (
            "People needed fifteen seconds on average to pick the pictures with traffic lights, and one in five gave"
            " up.",
            "Programs needed less than one second, and they were right more often than the people who wrote them.",
        ),
    ),
    (
        "The end of the CAPTCHA",
        (
            "For twenty years websites have asked their visitors to verify that they are human by reading crooked"
            " letters.",
            "The team behind the test now says that browsers can vouch for a person without asking anything at all.",
        ),
    ),
    (
        "Are you a robot?",
        (
            "Half of all visits to the town's website come from programs, its security officer told the council.",
            "Most of them look for the timetable of the ferry, and only a handful try to break something on the way.",
        ),
    ),
    (
        "Bot protection blocks blind readers",
        (
            "A service that keeps bots from news sites also keeps out people who read with a screen reader, a court"
            " heard.",
            "Its maker promised to let them pass by the end of the year, and to pay for the time that they have lost.",
        ),
    ),
    (
        "Town hall's website asks who is human",
        (
            "Since Monday whoever opens the site is told: “Please verify you are human.” The mayor calls it a"
            " precaution.",
            "In the week before, a flood of automated requests had kept the library from lending books for two days.",
        ),
    ),
    (
        "Cookies need consent, court rules",
        (
            "Websites must ask before they set cookies for advertising, the court said on Tuesday in a long awaited"
            " ruling.",
            "Consent that is hidden behind a grey button is none, the judges wrote, and ordered the firm to change it.",
        ),
    ),
    (
        "Regulator fines publisher over cookie wall",
        (
            "The publisher had left readers no choice but to accept tracking cookies or to stay away, the regulator"
            " found.",
            "It has three months to add a button that says “Reject all”, as large as the one that says “Accept all”.",
        ),
    ),
    (
        "Privacy group sues advertisers",
        (
            "The group says that advertising partners of three large sites received personal data without any consent.",
            "The advertisers deny that, and point to the privacy notice that every visitor is shown on the first"
            " visit.",
        ),
    ),
    (
        "Browser will block third-party cookies",
        (
            "The next version of the browser blocks tracking by default, its maker announced on Wednesday in a short"
            " note.",
            "Advertising firms fear for their income, and privacy advocates say that it comes ten years too late.",
        ),
    ),
    (
        "Half of all users share one password",
        (
            "Every second user logs in everywhere with the same password, a survey of four thousand accounts shows.",
            "Members of the town's library fare better: the library makes them choose a new one every spring.",
        ),
    ),
    (
        "Login failure kept thousands out of their tax accounts",
        (
            "Nobody could sign in to the tax office's portal between eight and noon on the last day of the deadline.",
            "The ministry says that accounts and passwords are safe, and gives everybody another week to hand in.",
        ),
    ),
    (
        "Paper drops its paywall",
        (
            "From next month on every article of the paper can be read without a subscription, its owner said on"
            " Friday.",
            "Subscribers keep the printed edition, and will be asked to stay on as members who pay what they can.",
        ),
    ),
    (
        "Telecoms firm gains two million subscribers",
        (
            "The firm has more subscribers than ever, and for the first time most of them pay for a mobile contract.",
            "Its shares rose by four per cent in the morning and gave back half of that before the exchange closed.",
        ),
    ),
    (
        "Why old links die",
        (
            "A quarter of all pages that existed ten years ago can no longer be found, researchers of the web report.",
            "Most were lost when a site was renamed, and in half of all cases the text had been copied nowhere else.",
        ),
    ),
    (
        "“Page not found” becomes a work of art",
        (
            "Visitors of the gallery stand before a wall of four hundred screens which all show the same error.",
            "The artist has collected them since she was twelve, and says that no two are written in the same way.",
        ),
    ),
    (
        "Court file not found, trial adjourned",
        (
            "The judge searched for the file in front of the public, and then sent everybody home until the autumn.",
            "The prosecutor spoke of a mistake, the defence of a miracle, and the clerk did not speak at all.",
        ),
    ),
    (
        "Gericht: Einwilligung in Cookies muss freiwillig sein",
        (
            "Ein Verlag hatte Lesern nur die Wahl zwischen Cookies und einem Abonnement gelassen, und dagegen wurde"
            " geklagt.",
            "Das Gericht verlangt nun eine dritte Möglichkeit, die weder Geld noch die Zustimmung zum Tracking kostet.",
        ),
    ),
    (
        "Des cookies sans consentement",
        (
            "Le régulateur a condamné trois éditeurs qui déposaient des cookies publicitaires avant toute réponse du"
            " lecteur.",
            "Les éditeurs font appel, et rappellent que la publicité paie la plus grande partie de leurs journalistes.",
        ),
    ),
    (
        "页面消失之后：一个网站的十年",
        (
            "这个网站曾经有三万篇文章，如今大部分已经打不开，只有少数热心读者在自己的电脑里保存了一些旧文章的副本，并且互相交换。",
            "图书馆的工作人员从去年春天开始整理这些副本，他们希望在明年年底之前，把其中最重要的一部分重新放到网上供大家阅读。",
        ),
    ),
)


def articles() -> Iterator[tuple[str, str]]:
    """Yield what each is called, and the page."""
    for number, (headline, paragraphs) in enumerate(_ARTICLES):
        prose = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs or _PLAIN)
        look = (bare, with_nav, with_long_footer)[number % 3]
        yield f"{look.__name__}: {headline}", look(headline, f"<article><h1>{headline}</h1>{prose}</article>")
    yield from _between_other_things()


_BANNER = (
    "<div class='cmp'><h2>We value your privacy</h2><p>We and our partners use cookies to store and access personal"
    " data on"
    " your device, for personalised advertising and content.</p><button>Accept all</button></div>"
)
_LOGIN_BOX = (
    "<div class='login'><form><p>Log in</p><input name='n'><input type='password'><button>Go</button></form></div>"
)
_OFFER = "<aside><p>Already a subscriber? <a href='/in'>Log in</a></p><p>Subscribe to continue reading.</p></aside>"
_CAPTCHA = "<form><textarea></textarea><p>Please complete the captcha.</p><div class='g-recaptcha'></div></form>"
_PLAYER = "<div class='player'>This content is not available in your region.</div>"
_DATED = (
    '<script type="application/ld+json">{"@type": "NewsArticle", "headline": "%s", "datePublished":'
    ' "2024-03-05T09:00Z"}'
    "</script>"
)


def _between_other_things() -> Iterator[tuple[str, str]]:
    story = "".join(f"<p>{paragraph}</p>" for paragraph in _PLAIN)
    for name, other in {
        "banner": _BANNER,
        "login box": _LOGIN_BOX,
        "offer": _OFFER,
        "captcha": _CAPTCHA,
        "player": _PLAYER,
    }.items():
        headline = "Seven boxes are missing from the archive"
        article = f"<article><h1>{headline}</h1>{story}</article>"
        yield f"{name} before", with_nav(headline, other + article)
        yield f"{name} behind", bare(headline, article + other)
    for headline in ("Page not found", "Access Denied", "Just a moment"):
        article = f"<article><h1>{headline}</h1><p>{_PLAIN[0]} {_PLAIN[1]}</p></article>"
        yield f"{headline}, stated", with_nav(headline, article, _DATED % headline)
    teaser = (
        f"<article><h1>The strong room</h1><p>{' '.join(_PLAIN)}</p><p>Subscribe to continue reading.</p></article>"
    )
    yield "a teaser of one paragraph", with_nav("The strong room", teaser)
