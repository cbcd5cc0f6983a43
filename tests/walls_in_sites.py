# ruff: noqa: RUF001 (signs of other scripts)
"""Walls between the links of a site, the cards of its other articles and what its footer says of it."""

from collections.abc import Iterator

from headwater.core.reasons import Reason
from tests.wall_pages import bare, with_nav

_CARDS = (
    "The ferry house is a hotel",
    "Four hundred oaks for the ring road",
    "A choir of bakers wins the regional contest",
)
_ABOUT = (
    "Valley Portal has the news that matters to people who live by the river. We have an office in each of the three"
    " towns, and a team that works every day to make it better for you."
)


def with_cards(title: str, body: str) -> str:
    links = "".join(f"<div class='n'><a href='/{name}'>{name}</a></div>" for name in ("Home", "News", "Sport", "Jobs"))
    cards = "".join(
        f"<div class='c'><a href='/{number}'><div>{text}</div></a><div class='t'>{text}. {_ABOUT[:90]}</div></div>"
        for number, text in enumerate(_CARDS)
    )
    return bare(
        title,
        f"<div class='x1'>{links}</div><div class='x2'><div>{body}</div></div><div class='x3'>{cards}</div>"
        f"<div class='x4'><div>{_ABOUT}</div><div>© Valley Portal 2024</div></div>",
    )


_PASSWORD = "<form><label>Password: <input type='password'></label><input type='submit' value='Enter'></form>"
_EMAIL = "<form><input type='email'><a href='/help'>Can't access your account?</a><button>Next</button></form>"

_WALLS: tuple[tuple[Reason, str, str], ...] = (
    (Reason.SOFT_404, "Lamp", "<h1>Sorry, this product is no longer available</h1><p>You may like one of these.</p>"),
    (
        Reason.SOFT_404,
        "Job expired",
        "<h1>This job is no longer available</h1><p>The position you are looking for has been filled.</p>",
    ),
    (Reason.SOFT_404, "Listing", "<h1>This listing has expired</h1><p>The item is no longer available.</p>"),
    (Reason.SOFT_404, "Events", "<h1>This event has passed or been removed</h1><p>Look at our calendar.</p>"),
    (
        Reason.SOFT_404,
        "Board Message",
        "<div><b>Invalid Thread specified.</b> If you followed a valid link, please notify the administrator</div>",
    ),
    (Reason.SOFT_404, "Wiki", "<h1>Reed boats</h1><p>There is currently no text in this page. You can search.</p>"),
    (Reason.SOFT_404, "Stories", "<h2>This story was deleted by its author</h2><a href='/'>Go to the front page</a>"),
    (Reason.SOFT_404, "Video", "<div>This video isn't available anymore</div><a href='/'>Home</a>"),
    (Reason.SOFT_404, "記事", "<h1>この記事は掲載期間が終了しました</h1>"),
    (Reason.SOFT_404, "公众号", "<h2>该内容已被发布者删除</h2>"),
    (Reason.SOFT_404, "Новости", "<p>Элемент не найден!</p>"),
    (Reason.SOFT_404, "Gazeta", "<div>Strona, której szukasz, nie istnieje lub została przeniesiona.</div>"),
    (Reason.SOFT_404, "신문", "<b>삭제되었거나 존재하지 않는 기사입니다.</b>"),
    (Reason.SOFT_404, "ข่าว", "<div>ขออภัย ไม่พบหน้าที่คุณต้องการ</div>"),
    (Reason.SOFT_404, "Грешка", "<h1>Страницата не е намерена</h1>"),
    (Reason.SOFT_404, "Greška", "<h1>Stranica nije pronađena</h1>"),
    (Reason.SOFT_404, "Klaida", "<h1>Puslapis nerastas</h1>"),
    (Reason.SOFT_404, "Viga", "<h1>Lehekülge ei leitud</h1>"),
    (Reason.SOFT_404, "Error", "<h1>No s'ha trobat la pàgina</h1>"),
    (Reason.SOFT_404, "ত্রুটি", "<h1>পৃষ্ঠাটি পাওয়া যায়নি</h1>"),
    (Reason.SOFT_404, "பிழை", "<h1>பக்கம் கிடைக்கவில்லை</h1>"),
    (Reason.SOFT_404, "Hitilafu", "<h1>Ukurasa haukupatikana</h1>"),
    (
        Reason.CHALLENGE,
        "Your access to this site has been limited by the site owner",
        "<p>Your access to this service has been limited.</p><p>The owner of this site uses Wordfence to guard it."
        " Wordfence is a plugin that millions of sites have, and it is known for its long explanations.</p>",
    ),
    (
        Reason.CHALLENGE,
        "Making sure you're not a bot!",
        "<p>You are seeing this because whoever runs this website has set up Anubis against scrapers.</p><p>It makes"
        " computers work a little, which costs one person nothing and a crowd of programs a great deal of money.</p>",
    ),
    (
        Reason.CHALLENGE,
        "Valley Portal - Are you a robot?",
        "<h1>We've detected unusual activity from your network</h1><p>To continue, please click the box below to let"
        " us know you're not a robot.</p>",
    ),
    (
        Reason.CHALLENGE,
        "Waiting room",
        "<h1>You are now in line</h1><p>You have been placed in a virtual waiting room. When it is your turn, you will"
        " be redirected. Please do not refresh this page.</p>",
    ),
    (
        Reason.CHALLENGE,
        "Loading",
        "<noscript><h1>JavaScript is required</h1><p>Please enable JavaScript in your browser to continue.</p>"
        "</noscript>",
    ),
    (Reason.CHALLENGE, "Too many requests", "<h1>Whoa!</h1><p>Your request has been blocked by a network policy.</p>"),
    (
        Reason.LOGIN_WALL,
        "Protected: Minutes",
        f"<h1>Protected: Minutes</h1><p>This content is password protected. To view it please enter"
        f" your password below:</p>{_PASSWORD}",
    ),
    (
        Reason.LOGIN_WALL,
        "Silt in slow rivers",
        "<h1>Silt in slow rivers</h1><div>You do not currently have access to this article. Buy it for $39.95.</div>",
    ),
    (Reason.LOGIN_WALL, "Sketches", "<h1>Sketches</h1><div>Unlock this post by becoming a member</div>"),
    (Reason.LOGIN_WALL, "Sign in to your account", f"<h1>Sign in</h1>{_EMAIL}"),
    (Reason.LOGIN_WALL, "兰花", "<h1>兰花</h1><div>登录后可查看全文，请先登录或注册账号</div>"),
)


def walls_in_sites() -> Iterator[tuple[str, Reason, str]]:
    """Yield what each is, how it must end, and the page."""
    for reason, title, body in _WALLS:
        for look in (bare, with_nav, with_cards):
            yield f"{look.__name__} {title}", reason, look(title, body)
