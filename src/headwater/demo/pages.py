"""The HTML around a story. A look is a folder in `looks/` with `page.html`, `head.html` and `article.html`.

A `Form` writes the page of one story: in the look of its site (`article_page`), as a variant of it, or as PDF.
"""

import json
import re
import unicodedata
from calendar import month_name
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from zlib import crc32

from headwater.demo.content import DemoStory, read_file, template

_NOT_SLUG = re.compile(r"[^a-z0-9]+")

# The tags in the head of a look with the publication date and the date of the last change.
_DATE_META = {
    "gazette": (
        '<meta property="article:published_time" content="{}">',
        '<meta property="article:modified_time" content="{}">',
    ),
    "council": ('<meta name="DC.date.issued" content="{}">', '<meta name="DC.date.modified" content="{}">'),
    "wire": ('<meta name="pubdate" content="{}">', '<meta name="lastmod" content="{}">'),
}


@dataclass(frozen=True, slots=True)
class Teaser:
    """A link to another story of the site."""

    url: str
    story: DemoStory


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts that all pages of a site share."""

    host: str
    title: str
    look: str
    feed_url: str | None
    topics: tuple[str, ...]
    teasers: tuple[Teaser, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """The values from which the page of one story is written. `url` is the canonical address."""

    frame: Frame
    url: str
    story: DemoStory
    published: datetime | None
    updated: datetime | None


Form = Callable[[Sheet], bytes]


def slug(text: str) -> str:
    """Return the text in ASCII, lower case and hyphens for an address. If no character is left, return a number."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _NOT_SLUG.sub("-", plain.lower()).strip("-") or str(crc32(text.encode()))


def article_page(sheet: Sheet) -> bytes:
    """Write the page of one story in the look of its site."""
    frame, story = sheet.frame, sheet.story
    values = article_values(sheet)
    head = template(frame.look, "head.html").substitute(values)
    main = template(frame.look, "article.html").substitute(values)
    return _page(frame, sheet.url, story.headline, head, main, kind="article", language=story.language).encode()


def article_values(sheet: Sheet) -> dict[str, str]:
    """Return the values that the templates of articles use."""
    frame, story = sheet.frame, sheet.story
    image = f"http://{frame.host}/media/{slug(story.headline)}"
    return {
        "site": escape(frame.title),
        "url": escape(sheet.url),
        "headline": escape(story.headline),
        "summary": escape(story.summary),
        "byline": escape(story.byline),
        "byline_slug": slug(story.byline),
        "topic": story.topic,
        "language": story.language,
        "direction": _direction(story.language),
        "image": f"{image}-1200.jpg",
        "image_small": f"{image}-600.jpg",
        "dates": _date_meta(frame.look, sheet.published, sheet.updated),
        "dateline": _dateline(sheet.published, sheet.updated),
        "json_ld": _json_ld(sheet, image),
        "body": _body(story),
    }


def list_page(frame: Frame, url: str, title: str, teasers: Sequence[Teaser]) -> bytes:
    """Write a page of links: the front page or a section."""
    main = f"<h1>{escape(title)}</h1>\n" + "\n".join(map(_teaser, teasers))
    return _page(frame, url, title, "", main, kind="list").encode()


def error_page(frame: Frame, url: str) -> bytes:
    """Write the page for an unknown address."""
    main = '<h1 class="error-404">Page not found</h1>\n<p>There is nothing at this address.</p>'
    return _page(frame, url, "Page not found", "", main, kind="error").encode()


def _variant(name: str) -> Form:
    return lambda sheet: template("variants", name).substitute(article_values(sheet)).encode()


amp_page = _variant("amp.html")
print_page = _variant("print.html")
login_wall = _variant("login.html")
cookie_wall = _variant("cookies.html")
challenge_page = _variant("challenge.html")


def soft_404(sheet: Sheet) -> bytes:
    """Write the page for an unknown address, for an answer with status 200."""
    return error_page(sheet.frame, sheet.url)


def _page(frame: Frame, url: str, title: str, head: str, main: str, *, kind: str, language: str = "en") -> str:
    others = tuple(teaser for teaser in frame.teasers if teaser.url != url)
    return template(frame.look, "page.html").substitute(
        site=escape(frame.title),
        host=frame.host,
        url=escape(url),
        title=escape(title),
        kind=kind,
        language=language,
        direction=_direction(language),
        head=head,
        main=main,
        feed_link=_feed_link(frame),
        navigation="".join(f'<li><a href="/section/{topic}">{topic.capitalize()}</a></li>' for topic in frame.topics),
        teasers="\n".join(map(_teaser, others)),
        state=_state(frame, others),
        utilities=read_file("looks", "utilities.css"),
        script=read_file("looks", "consent.js"),
    )


def _direction(language: str) -> str:
    return "rtl" if language == "ar" else "ltr"


def _feed_link(frame: Frame) -> str:
    if frame.feed_url is None:
        return ""
    kind = {".atom": "atom+xml", ".json": "feed+json"}.get(frame.feed_url[-5:], "rss+xml")
    return f'<link rel="alternate" type="application/{kind}" title="{escape(frame.title)}" href="{frame.feed_url}">'


def _teaser(teaser: Teaser) -> str:
    story = teaser.story
    image = f'<img loading="lazy" src="/media/{slug(story.headline)}-160.jpg" width="160" height="160" alt="">'
    link = f'<a href="{escape(teaser.url)}">{escape(story.headline)}</a>'
    return f'<div class="teaser">{image}<div><h3>{link}</h3><p>{escape(story.summary)}</p></div></div>'


def _body(story: DemoStory) -> str:
    headed = [(f"<h2>{escape(part.heading)}</h2>" if part.heading else "", part.paragraphs) for part in story.parts]
    lines = [line for heading, texts in headed for line in (heading, *(f"<p>{escape(text)}</p>" for text in texts))]
    return "\n".join(filter(None, lines))


def _date_meta(look: str, *moments: datetime | None) -> str:
    metas = zip(_DATE_META[look], moments, strict=True)
    return "\n".join(meta.format(moment.isoformat()) for meta, moment in metas if moment is not None)


def _dateline(published: datetime | None, updated: datetime | None) -> str:
    line = "" if published is None else f'<span class="published">{_time(published)}</span>'
    return line if updated is None else f'{line}<span class="updated">Updated {_time(updated)}</span>'


def _time(moment: datetime) -> str:
    words = f"{moment.day} {month_name[moment.month]} {moment.year}, {moment:%H:%M}"
    return f'<time datetime="{moment.isoformat()}">{words}</time>'


def _json_ld(sheet: Sheet, image: str) -> str:
    frame, story = sheet.frame, sheet.story
    record = {
        "@context": "https://schema.org",
        "@type": "NewsArticle",
        "mainEntityOfPage": sheet.url,
        "headline": story.headline,
        "description": story.summary,
        "articleSection": story.topic,
        "inLanguage": story.language,
        "image": [f"{image}-1200.jpg", f"{image}-600.jpg"],
        "author": {"@type": "Person", "name": story.byline},
        "publisher": {"@type": "NewsMediaOrganization", "name": frame.title, "url": f"http://{frame.host}/"},
    }
    if sheet.published is not None:
        record["datePublished"] = sheet.published.isoformat()
    if sheet.updated is not None:
        record["dateModified"] = sheet.updated.isoformat()
    return _script_json(record)


def _state(frame: Frame, teasers: Sequence[Teaser]) -> str:
    return _script_json(
        {
            "site": {"host": frame.host, "title": frame.title, "sections": frame.topics},
            "recommended": [
                {"url": t.url, "headline": t.story.headline, "summary": t.story.summary, "by": t.story.byline}
                for t in teasers
            ],
            "experiments": {f"layout-{number}": number % 3 == 0 for number in range(24)},
        }
    )


def _script_json(record: object) -> str:
    return json.dumps(record, ensure_ascii=False).replace("</", "<\\/")
