"""Sends mails to the server of the settings, which may be on a private network: an operator chose it."""

import smtplib
import socket
import ssl
from dataclasses import dataclass
from datetime import timedelta
from email.message import EmailMessage
from typing import Any
from urllib.parse import unquote, urlsplit

from headwater.core.errors import ExchangeFailed
from headwater.core.reasons import Reason
from headwater.http.blocking import Connections, run_exchange

_PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
_FINAL = 500  # from here on, the refusals of a mail server are final
_STEPS = 4  # of the steps before the message, so many may take the longest time
_LOGIN_REFUSED = (530, 534, 535, 538)  # final for the server, but an operator can fix the password


@dataclass(frozen=True, slots=True)
class MailClient:
    """Sends mails. `url` is the setting smtp_url."""

    url: str
    step_seconds: float = 30.0
    answer_seconds: float = 600.0  # a server may check a message for so long before it accepts it (RFC 5321, 4.5.3.2.6)

    @property
    def longest(self) -> timedelta:
        """The longest time that one mail takes."""
        return timedelta(seconds=_STEPS * self.step_seconds + self.answer_seconds)

    async def send(self, message: EmailMessage) -> None:
        """Send a mail to its recipient. Raises ExchangeFailed."""
        if not self.url:
            raise ExchangeFailed("Set smtp_url to send mails.", reason=Reason.MAIL_DEFERRED)
        connections = Connections()
        try:
            await run_exchange(lambda: self._send(message, connections), connections, self.longest.total_seconds())
        except TimeoutError:
            raise ExchangeFailed("The mail server took too long.", reason=Reason.TIMEOUT) from None

    def _send(self, message: EmailMessage, connections: Connections) -> None:
        try:
            with self._connect(str(message["From"]).rpartition("@")[2], connections) as server:
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
        except ValueError:  # UnicodeError too; its text may have the password
            what = "The mail or the login has characters that the server cannot get."
            raise ExchangeFailed(what, reason=Reason.MAIL_DEFERRED) from None

    def _connect(self, own_name: str, connections: Connections) -> smtplib.SMTP:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        tls = ssl.create_default_context()
        own_tls = tls if parts.scheme == "smtps" else None
        server = _Server(host, port, own_name, self.step_seconds, self.answer_seconds, connections, own_tls)
        if parts.scheme == "smtp":
            server.starttls(context=tls)
        return server

    def _log_in(self, server: smtplib.SMTP) -> None:
        parts = urlsplit(self.url)
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))


class _Server(smtplib.SMTP):
    """A connection to a mail server."""

    def __init__(
        self,
        host: str,
        port: int,
        own_name: str,
        step_seconds: float,
        answer_seconds: float,
        connections: Connections,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._answer_seconds, self._connections, self._tls = answer_seconds, connections, tls
        super().__init__(host, port, own_name, timeout=step_seconds)

    def data(self, msg: Any) -> tuple[int, bytes]:
        """Send a message, and wait long for the answer."""
        assert self.sock
        self.sock.settimeout(self._answer_seconds)
        try:
            return super().data(msg)
        finally:
            if self.sock:
                self.sock.settimeout(self.timeout)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        opened = self._connections.open(host, port, timeout)
        return self._tls.wrap_socket(opened, server_hostname=host) if self._tls else opened

    def __exit__(self, *_: object) -> None:
        """Say goodbye. A failure is no error: the server has answered before."""
        try:
            self.quit()
        except (smtplib.SMTPException, OSError):
            self.close()


def _refusal(code: int, answer: bytes | str) -> ExchangeFailed:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    is_final = code >= _FINAL and code not in _LOGIN_REFUSED
    reason = Reason.MAIL_REFUSED if is_final else Reason.MAIL_DEFERRED
    return ExchangeFailed(f"The mail server answered {code}: {' '.join(text.split())[:200]}", reason=reason)
