# ruff: noqa: RUF001 (letters of other scripts)
"""Recognize interstitials: pages that answer 200 in place of the requested page.

There are four sorts: bot walls, "page not found" pages, cookie-consent pages and login pages. A page is an interstitial
if a title, a heading or a whole sentence is one that only such pages have, and if the page has almost no other prose.
An article about such pages has other prose. When in doubt, a page is not an interstitial, so that no article is lost.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from selectolax.lexbor import LexborHTMLParser

from headwater.core.reasons import Reason
from headwater.extraction.article import Article
from headwater.extraction.html.blocks import HEADINGS, Block, text_size
from headwater.extraction.html.titles import SEPARATOR

_MAX_OTHER_PROSE = 100  # letters in sentences that interstitials do not have
_MAX_PROSE = 1_500  # letters of an interstitial that its markup confirms
_MAX_PLAIN_TEXT = 2_500  # letters outside of links; a longer list has almost no prose, but is no interstitial
_MAX_LETTERS_OF_SCRIPT_PAGE = 300  # of a page that only runs the script of a bot wall
_MAX_LETTERS_OF_CONSENT_PAGE = 2_000
_MAX_NAME, _MAX_LINE, _MAX_LINES, _MAX_BUTTONS, _MAX_BUTTON_PARTS = 120, 400, 60, 200, 12
_CARD_BLOCKS = 2
_NOT_PROSE = HEADINGS | {"li", "td", "th", "dd", "dt", "figcaption"}
_FRAME_NAMES = frozenset({"footer", "bottom", "copyright", "legal", "imprint", "nav", "menu", "navigation", "sidebar"})
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|[。！？\n]")
_EDGES = " .!?…:;,-–—¿¡“”\"'()"


def _pattern(*alternatives: str) -> re.Pattern[str]:
    """Compile the alternatives. They match whole texts in lower case, without the signs at both ends."""
    return re.compile("|".join(f"(?:{alternative})" for alternative in alternatives))


_HUMAN = r"you(?:'re| are) (?:a |an |not a )?(?:real )?(?:human|robot|bot|person)\b"
_CHALLENGE_NAMES = _pattern(
    r"(?:just )?(?:a|one) (?:moment|second)(?:,? please)?|please wait|attention required|one more step|waiting room",
    r"access(?: to this page)? (?:has been |is )?denied|(?:error )?403 ?-? ?forbidden|too many requests|robot or human",
    r"are you a (?:human|robot|bot)|human verification|(?:\w+ )?security (?:check|verification|checkpoint)",
    r"request (?:access|rejected|unsuccessful)|pardon our interruption|you have been blocked|(?:re ?)?captcha",
    r"(?:nur )?einen moment(?:, bitte)?|sicherheitsüberprüfung|un instant|veuillez patienter|acceso denegado",
)
_CHALLENGE_SENTENCES = _pattern(
    rf"(?:please |let's |.* ?we need to )?(?:verify|confirm|verifying|making sure|checking) (?:that )?{_HUMAN}.*",
    r"(?:please |you need to )?enable (?:js|javascript) (?:and (?:cookies|disable) .*|(?:in your browser )?to .*)",
    r"javascript is (?:required|disabled)|this requires javascript|checking (?:your browser|if the site connection) .*",
    rf"(?:press (?:&|and) hold|.* hold the button) to confirm (?:that )?{_HUMAN}.*|ray id: .*|reference #.*",
    r"(?:please )?(?:complete|solve|pass) the (?:captcha|security check|challenge|puzzle)\b.*",
    r"\S+ needs to review the security of your connection .*|this website is using a security service .*",
    r"incapsula incident id.*|request unsuccessful|the requested url was rejected|you are unable to access .*",
    r"(?:sorry, )?you have been blocked|your (?:ip|request) has been blocked.*|you don't have permission to access .*",
    r"we(?:'ve| have) detected unusual (?:traffic|activity) from your .*|you have been placed in a .*waiting room",
    r"due to aggressive automated scraping .*|if you are (?:a )?human user receiving this message.*"
    r"|this process will be necessary for each ip address .*",
    r"something about your browser made us think that you (?:might|may) be a bot|请完成安全验证.*",
    r"bitte bestätigen sie, dass sie (?:kein roboter|ein mensch) sind|nous devons vérifier que vous êtes humain\b.*",
    r"confirma que no eres un robot\b.*|подтвердите, что вы не робот",
)
_CHALLENGE_MARKS = (
    'script[src*="captcha-delivery"], script[src*="/orchestrate/"], script[src*="awswaf"], [src*="_Incapsula_"], '
    'script[src*="/anubis/"], [id="px-captcha"], [id="cf-error-details"], [id^="challenge-"]'
)
_CHALLENGE_SCRIPTS = ("_cf_chl_opt", "gokuProps", "_Incapsula_Resource", "captcha-delivery", "AwsWafIntegration")

_OOPS = r"(?:(?:oops|whoops|oh no|uh oh|hmm|sorry|apologies|error|404|but)[ ,.!:-]+)*"
_THING = (
    r"(?:the |this |that |your )?(?:requested )?(?:page|article|document|file|url|content|link|item|story|video|product"
    r"|job|listing|event|(?:roll call )?votes?(?: \d+)?)"
)
_IS_GONE = (
    r"(?:(?:is |was |were |be |has been |could |can |currently )*(?:not|no longer|isn't|wasn't|couldn't|can't) (?:be )?"
    r"(?:found|available|exist)|(?:doesn't|does not|no longer) exists?|is missing|has gone missing|(?:has|may have|was)"
    r"(?: \w+ or)?(?: been)? (?:moved|removed|deleted|expired)(?: or \w+)?)(?: on this server| anymore| yet| \(404)?"
)
_NOT_FOUND_NAMES = _pattern(r"(?:http )?(?:error )?(?:404|410)(?: error)?(?: ?-? ?(?:page )?not found)?|not found")
_NOT_FOUND_SENTENCES = _pattern(
    rf"{_OOPS}{_THING}(?: (?:you|for|with|at|that) .{{0,45}})? ?{_IS_GONE}|{_THING} was deleted by its author",
    rf"{_OOPS}(?:we )?(?:couldn't|could not|can't|cannot) (?:seem to )?find {_THING}(?: you.{{0,40}})?",
    rf"{_OOPS}(?:it looks like nothing was found at this location|no results were found)",
    r"there is currently no text in this page|leider existiert die angeforderte seite nicht",
    r"(?:diese |die (?:\w+ ){0,3})?seite (?:wurde |konnte |gibt es )?(?:leider )?nicht (?:mehr|gefunden(?: werden)?)",
    r"(?:oups[ !]*)?(?:la |cette )?page (?:\w+ ){0,3}(?:introuvable|non trouvée|n'existe (?:pas|plus).{0,25})",
    r"(?:lo sentimos, )?(?:la )?página (?:\w+ ){0,3}no (?:encontrada|existe|disponible|se encuentra).{0,25}",
    r"(?:a )?página (?:\w+ ){0,3}não (?:encontrada|existe).{0,20}",
    r"(?:la )?pagina (?:\w+ ){0,3}non (?:trovata|esiste).{0,25}",
    r"(?:de )?pagina (?:\w+ ){0,3}(?:niet gevonden|bestaat niet.{0,5})|siden blev ikke fundet|siden ble ikke funnet",
    "vi fant ikke siden|sidan hittades inte|sivua ei löytynyt|nie znaleziono strony|stránka nenalezena",
    "az oldal nem található|pagina nu a fost găsită|η σελίδα δεν βρέθηκε|sayfa bulunamadı|страница не найдена",
    "сторінку не знайдено|الصفحة غير موجودة|הדף לא נמצא|không tìm thấy trang|halaman tidak ditemukan",
    "(?:您访问的)?页面不存在|找不到(?:网页|網頁|页面|頁面)|페이지를 찾을 수 없습니다",
    "(?:お探しの)?ページ(?:[がは]見つかりません(?:でした)?|は存在しません)",
)
_NOT_FOUND_MARKS = (
    'body[class*="404"], html[class*="404"], [class*="error-404"], [class*="error404"], [class*="page-404"], '
    '[class*="not-found"], [class*="notfound"], [id*="not-found"], meta[name="robots"][content*="noindex"]'
)

_LOGIN_NAMES = _pattern(
    r"(?:please )?(?:log|sign)[ -]?in(?: to .{1,40})?|login|(?:member|customer|user) (?:login|area)|my account",
    r"protected: .*|(?:bitte )?(?:anmelden|einloggen)|anmeldung|mein konto|(?:se )?connexion|connectez-vous",
    r"iniciar sesión|accedi|entrar|inloggen|logga in|log ind|logg inn|zaloguj się|вход|войти|登录|登入|ログイン|로그인",
)
_LOGIN_SENTENCES = _pattern(
    r"(?:this|the full) (?:article|story|content|post) is (?:only )?(?:for|available to|reserved for) (?:our )?"
    r"(?:subscribers|members)(?: only)?|you(?:'ve| have) reached your limit of free articles.*",
    r"(?:please )?(?:log ?in|sign in|subscribe|register)(?: or \w+)? to (?:continue(?: reading)?|read (?:on|more"
    r"|this (?:article|story).{0,40}|the full (?:article|story)))|already a (?:subscriber|member)\? (?:log|sign) in",
    r"you (?:must|need to) (?:be logged in|log in|sign in) to .*|you do not (?:currently )?have access to this article",
    r"(?:this )?(?:content|post|page) is password protected|(?:dieser artikel ist )?nur für abonnenten",
    r"bereits abonnent|(?:article|contenu) réservé aux abonnés|déjà abonné|contenido exclusivo para suscriptores",
    r"contenuto riservato agli abbonati|conteúdo exclusivo para assinantes",
)

_CONSENT_SENTENCES = _pattern(
    r"we (?:and .{1,60} |would like to |also )?(?:use|set|store) .*\b(?:cookies|information on (?:a|your) device)\b.*",
    r"(?:by|if you|when you visit) .*\bcookies\b.*|(?:wir|mit cookies) .*(?:cookies|einwilligung).*",
    r"(?:nous|avec votre accord,) .*(?:cookies|traceurs).*|(?:nosotros|utilizamos|usamos) .*cookies.*",
    r"(?:noi|utilizziamo) .*cookie.*|wij gebruiken cookies.*|my i nasi partnerzy .*cookie.*|我们.*cookie.*同意.*",
)
_CONSENT_PROSE = _pattern(
    r".*(?:consent|privacy|cookie|tracking|your choices|partners|zustimm|einwilligung|akzeptier|consenso|zgod).*"
)
_POLICY = re.compile(r".*(?:policy|notice|statement|datenschutzerklärung|richtlinie|politique|política|informativa).*")
_AGREE = re.compile(
    r"(?:accept|agree|allow|reject|i understand|got it|akzeptier|alle? (?:cookies )?akzeptieren|zustimmen|einverstanden"
    r"|accepter|tout accepter|aceptar|accetta|aceitar|akkoord|zgadzam się|全部接受)\b.{0,30}"
)
_BUTTONS = "button, input[type=submit], input[type=button], [role=button]"


def find_interstitial(
    tree: LexborHTMLParser, article: Article, blocks: Sequence[Block], kept: Sequence[Block]
) -> Reason | None:
    """Return which interstitial a page is. `blocks` are all its blocks, `kept` are those of its main text."""
    page = _PageText(tree, article, blocks, kept or blocks)
    prose = sum(block.size for block in kept if block.is_prose)
    is_long = prose > _MAX_PROSE or sum(block.size - block.links for block in kept) > _MAX_PLAIN_TEXT
    if is_long and not page.is_named(_NOT_FOUND_NAMES, _NOT_FOUND_SENTENCES):
        return None
    return next((reason for reason, is_sort in _SORTS.items() if is_sort(page)), None)


@dataclass
class _PageText:
    """The texts of a page, in lower case. Most pages need only the names."""

    tree: LexborHTMLParser
    article: Article
    blocks: Sequence[Block]
    kept: Sequence[Block]

    @cached_property
    def names(self) -> list[str]:
        """The titles, their parts, and the first main headings."""
        node = self.tree.css_first("title")
        titles = {self.article.title or "", " ".join(node.text().split()) if node else ""}
        parts = [part for title in titles for part in (title, *SEPARATOR.split(title))]
        headings = islice((block.text for block in self.blocks if block.element.tag == "h1"), 2)
        return [_fold(name) for name in (*parts, *headings) if 0 < len(name) <= _MAX_NAME]

    @cached_property
    def letters(self) -> int:
        return sum(block.size for block in self.blocks)

    @cached_property
    def sentences(self) -> list[str]:
        """The names, and the sentences of short lines from the heading on."""
        first = next((number for number, block in enumerate(self.blocks) if block.element.tag == "h1"), 0)
        lines = (block.text for block in self.blocks[first : first + _MAX_LINES] if len(block.text) <= _MAX_LINE)
        return [*self.names, *(sentence for line in lines for sentence in _sentences(line))]

    @cached_property
    def prose(self) -> list[str]:
        return [sentence for text in _paragraphs(self.blocks, self.kept) for sentence in _sentences(text)]

    @cached_property
    def is_stated(self) -> bool:
        """Whether the page has prose, and its metadata describes an article."""
        provenance = self.article.provenance
        is_dated = provenance.get("published_at") in ("json-ld", "opengraph") or provenance.get("byline") == "json-ld"
        return bool(self.prose) and (is_dated or self.has_mark('meta[property="og:type"][content="article"]'))

    def is_named(self, *patterns: re.Pattern[str]) -> bool:
        return any(pattern.fullmatch(name) for name in self.names for pattern in patterns)

    def says(self, pattern: re.Pattern[str]) -> bool:
        return any(map(pattern.fullmatch, self.sentences))

    def has_other_prose(self, own: re.Pattern[str]) -> bool:
        """Return whether much of the prose is in sentences without the words of the interstitial."""
        other = (text for text in self.prose if len(text) > _MAX_LINE or not own.fullmatch(text))
        return sum(map(text_size, other)) >= _MAX_OTHER_PROSE

    def has_mark(self, selector: str, *scripts: str) -> bool:
        """Return whether an element matches, or a script contains one of the names."""
        return self.tree.css_first(selector) is not None or any(map(self.tree.scripts_contain, scripts))


def _is_challenge(page: _PageText) -> bool:
    if page.is_stated:
        return False
    is_named = page.is_named(_CHALLENGE_NAMES, _CHALLENGE_SENTENCES)
    if (is_named or page.says(_CHALLENGE_SENTENCES)) and not page.has_other_prose(_CHALLENGE_SENTENCES):
        return True
    is_short = page.letters <= (_MAX_PROSE if is_named else _MAX_LETTERS_OF_SCRIPT_PAGE)
    return is_short and page.has_mark(_CHALLENGE_MARKS, *_CHALLENGE_SCRIPTS)


def _is_not_found(page: _PageText) -> bool:
    if page.is_stated:
        return False
    is_named = page.is_named(_NOT_FOUND_NAMES, _NOT_FOUND_SENTENCES)
    if not is_named and not page.says(_NOT_FOUND_SENTENCES):
        return False
    return not page.has_other_prose(_NOT_FOUND_SENTENCES) or (is_named and page.has_mark(_NOT_FOUND_MARKS))


def _is_login(page: _PageText) -> bool:
    is_form = page.is_named(_LOGIN_NAMES) and page.has_mark('input[type="password"], input[type="email"]')
    return (is_form or page.says(_LOGIN_SENTENCES)) and not page.has_other_prose(_LOGIN_SENTENCES)


def _is_consent(page: _PageText) -> bool:
    if page.is_stated or page.letters > _MAX_LETTERS_OF_CONSENT_PAGE or page.is_named(_POLICY):
        return False
    if not page.says(_CONSENT_SENTENCES):
        return False
    return not page.has_other_prose(_CONSENT_PROSE) and any(map(_AGREE.fullmatch, _buttons(page)))


_SORTS = {
    Reason.CHALLENGE: _is_challenge,
    Reason.SOFT_404: _is_not_found,
    Reason.COOKIE_WALL: _is_consent,
    Reason.LOGIN_WALL: _is_login,
}


def _paragraphs(blocks: Sequence[Block], kept: Sequence[Block]) -> Iterator[str]:
    """Yield the paragraphs of the main text and below the heading, without the frame of the page and its cards.

    A card is a paragraph below a link. It presents another page.
    """
    kept_ids = set(map(id, kept))
    since_link = since_heading = len(blocks)
    for block in blocks:
        since_link, since_heading = since_link + 1, since_heading + 1
        if block.element.tag == "h1":
            since_link, since_heading = len(blocks), 0
        elif block.links * 2 > block.size:
            since_link = 0
        elif (
            (id(block) in kept_ids or since_heading <= _CARD_BLOCKS)
            and since_link > _CARD_BLOCKS
            and block.is_prose
            and block.element.tag not in _NOT_PROSE
            and all(_FRAME_NAMES.isdisjoint(element.names) for element in block.element.near())
        ):
            yield block.text


def _buttons(page: _PageText) -> Iterator[str]:
    yield from page.sentences  # a link may look like a button
    for node in islice(page.tree.css(_BUTTONS), _MAX_BUTTONS):
        texts = (
            part.text_content or ""
            for part in islice(node.traverse(include_text=True), _MAX_BUTTON_PARTS)
            if part.is_text_node
        )
        label = node.attributes.get("value") if node.tag == "input" else " ".join(texts)
        yield _fold((label or "")[:_MAX_LINE])


def _sentences(text: str) -> list[str]:
    return [folded for sentence in _SENTENCE_END.split(text) if (folded := _fold(sentence))]


def _fold(text: str) -> str:
    return " ".join(text.lower().replace("’", "'").split()).strip(_EDGES)
