"""Pages that stand in the way of the page that was asked for: they answer 200, and are no documents.

Only what is short can be one, and it must say so in its title, or in words together with the markup that such pages
have. No rule is about a single site.
"""

import re
from collections.abc import Sequence

from selectolax.lexbor import LexborHTMLParser

from headwater.model.reasons import Reason

_LONGEST_WALL = 1200
_LONGEST_HEADING = 80
_NOT_FOUND = re.compile(
    r"\b404\b|(?:page|site|article|file|document|content|url)\b.{0,20}\b(?:not found|not exist|missing|no longer)"
    r"|^\W*not found|(?:nicht gefunden|existiert nicht)|(?:introuvable|n'existe (?:pas|plus))|no (?:encontrad|existe)"
    r"|non (?:è stata )?trovat|não encontrad|niet gevonden|hittades inte|nie znaleziono|bulunamad"
    r"|не найден|页面不存在|見つかりません",
    re.IGNORECASE,
)
_CHALLENGE = re.compile(
    r"^\W*just a moment|attention required|checking (?:your browser|if the site connection)"
    r"|are you (?:a )?(?:human|robot)|security check|pardon our interruption|unusual traffic|captcha|ddos protection"
    r"|(?:verify|confirm|prove)(?:ing)? (?:that )?you(?:'re| are) (?:a |not a )?(?:human|robot|bot)"
    r"|(?:access|request) (?:to this page has been )?(?:denied|blocked)|bot (?:detection|protection)"
    r"|enable javascript and cookies to continue|(?:kein|ein) roboter|sicherheits(?:ü|ue)berpr(?:ü|ue)fung"
    r"|(?:no soy|eres) un robot|un instant\b|pas un robot",
    re.IGNORECASE,
)
_CHALLENGE_MARKS = (
    'script[src*="challenge"], script[src*="captcha"], [class*="captcha"], [id*="captcha"], [id*="challenge"], '
    '[class*="challenge"], iframe[src*="captcha"], form[action*="challenge"], meta[http-equiv="refresh"]'
)
_LOGIN = re.compile(
    r"(?:log|sign)[ -]?in\b|\blogin\b|anmelde(?:n|maske)|einloggen|connexion|se connecter|iniciar sesión|accedi\b"
    r"|inloggen|logga in|zaloguj|войти|登录|ログイン|members only|subscribers only",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"cookie|consent|privacy|tracking|einwilligung|zustimm|datenschutz|consentement|privacidad", re.IGNORECASE
)
_AGREE = re.compile(r"accept|agree|allow|akzeptier|zustimm|accepter|aceptar|accetta|accepteren|godkänn", re.IGNORECASE)


def find_wall(tree: LexborHTMLParser, title: str, text: str, lines: Sequence[str]) -> Reason | None:
    """Return what keeps the page from being read, where it is short and says so; `lines` are all that is seen of it."""
    if len(text) > _LONGEST_WALL:
        return None
    said = " ".join(lines)
    if len(said) > 4 * _LONGEST_WALL:
        return None
    begin = f"{title} {' '.join(lines[:3])}"[:_LONGEST_WALL]
    if _CHALLENGE.search(begin) and (len(said) < _LONGEST_WALL or tree.css_first(_CHALLENGE_MARKS) is not None):
        return Reason.CHALLENGE
    heading = " ".join(lines[:1]) if len(said) < _LONGEST_WALL else ""
    if _NOT_FOUND.search(title) or (len(heading) < _LONGEST_HEADING and _NOT_FOUND.search(heading)):
        return Reason.SOFT_404
    if tree.css_first('input[type="password"]') is not None and _LOGIN.search(begin):
        return Reason.LOGIN_WALL
    words = len(said.split()) or 1
    if len(_CONSENT.findall(said)) * 25 > words and _CONSENT.search(begin) and _AGREE.search(said):
        return Reason.COOKIE_WALL
    return None
