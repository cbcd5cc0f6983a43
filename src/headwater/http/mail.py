"""Sends mails to the server of the settings, which may be on a private network: an operator chose it."""

import asyncio
import smtplib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from headwater.core.errors import ExchangeFailed
from headwater.core.reasons import Reason

_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
_FINAL = 500  # from here on, the refusals of a mail server are final
_LOGIN_REFUSED = (530, 534, 535, 538)  # final for the server, but an operator can fix the password


@dataclass(frozen=True, slots=True)
class MailClient:
    """Sends mails. `url` is the setting smtp_url."""

    url: str
    seconds: float

    async def send(self, message: EmailMessage) -> None:
        """Send a mail to its recipient. Raises ExchangeFailed."""
        if not self.url:
            raise ExchangeFailed("Set smtp_url to send mails.", reason=Reason.MAIL_DEFERRED)
        try:
            async with asyncio.timeout(self.seconds):
                await asyncio.to_thread(self._send, message)
        except TimeoutError:
            raise ExchangeFailed("The mail server took too long.", reason=Reason.TIMEOUT) from None

    def _send(self, message: EmailMessage) -> None:
        try:
            with self._connect(str(message["From"]).rpartition("@")[2]) as server:
                self._log_in(server)
                server.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            ((code, answer),) = error.recipients.values()
            raise _refusal(code, answer) from None
        except smtplib.SMTPResponseException as error:
            raise _refusal(error.smtp_code, error.smtp_error) from None
        except (smtplib.SMTPException, OSError) as error:
            what = "The connection to the mail server failed"
            raise ExchangeFailed(f"{what}: {type(error).__name__}.", reason=Reason.NETWORK) from None

    def _connect(self, own_name: str) -> smtplib.SMTP:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        if parts.scheme == "smtps":
            context = ssl.create_default_context()
            return _QuietServerTLS(host, port, own_name, timeout=self.seconds, context=context)
        server = _QuietServer(host, port, own_name, timeout=self.seconds)
        if parts.scheme == "smtp":
            server.starttls(context=ssl.create_default_context())
        return server

    def _log_in(self, server: smtplib.SMTP) -> None:
        parts = urlsplit(self.url)
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))


class _QuietServer(smtplib.SMTP):
    """A connection whose end is no error: the server has accepted the message before it."""

    def __exit__(self, *_: object) -> None:
        _quit(super().quit, self.close)


class _QuietServerTLS(smtplib.SMTP_SSL):
    def __exit__(self, *_: object) -> None:
        _quit(super().quit, self.close)


def _quit(say_goodbye: Callable[[], object], close: Callable[[], object]) -> None:
    try:
        say_goodbye()
    except (smtplib.SMTPException, OSError):
        close()


def _refusal(code: int, answer: bytes | str) -> ExchangeFailed:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    is_final = code >= _FINAL and code not in _LOGIN_REFUSED
    reason = Reason.MAIL_REFUSED if is_final else Reason.MAIL_DEFERRED
    return ExchangeFailed(f"The mail server answered {code}: {' '.join(text.split())[:200]}", reason=reason)
