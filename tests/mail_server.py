"""A real SMTP server: a test decides its answers, and it keeps each mail that it accepts."""

import asyncio
import email
import ssl
from collections import defaultdict
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from typing import Any, Self

from aiosmtpd.controller import UnthreadedController
from aiosmtpd.smtp import AuthResult, LoginPassword


@dataclass
class MailServer:
    """Accepts mails, or answers as `answers` says: one each time, and the last one again and again."""

    answers: list[str] = field(default_factory=lambda: ["250 OK"])
    login: tuple[str, str] | None = None
    tls: ssl.SSLContext | None = None  # offered by STARTTLS
    accepted: list[EmailMessage] = field(default_factory=list)
    was_encrypted: list[bool] = field(default_factory=list)
    held: str = ""  # a command that gets no answer until `released`
    arrived: asyncio.Event = field(default_factory=asyncio.Event)  # the held command
    released: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)  # by a client whose command was held
    port: int = 0

    async def __aenter__(self) -> Self:
        await self.come_back()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_away()

    async def come_back(self) -> None:
        """Listen, always on the same port."""
        options: dict[str, Any] = {}
        if self.tls:
            options |= {"tls_context": self.tls, "require_starttls": True}
        if self.login:
            options |= {"authenticator": self._authenticate, "auth_required": True, "auth_require_tls": False}
        self._controller = UnthreadedController(
            self, "127.0.0.1", self.port, loop=asyncio.get_running_loop(), **options
        )
        self._server = await asyncio.get_running_loop().create_server(
            self._controller._factory_invoker, "127.0.0.1", self.port
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def go_away(self) -> None:
        """Refuse new connections."""
        self._server.close()

    def mailboxes(self) -> dict[str, list[EmailMessage]]:
        """Return the mails of each recipient, as a mailbox that drops a repeated Message-ID keeps them."""
        found: defaultdict[str, dict[str, EmailMessage]] = defaultdict(dict)
        for mail in self.accepted:
            found[mail["To"]].setdefault(mail["Message-ID"], mail)
        return {to: list(mails.values()) for to, mails in found.items()}

    async def handle_RCPT(  # noqa: N802 - of the library
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        await self._hold("RCPT")
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - of the library
        await self._hold("DATA")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.startswith("2"):
            parsed = email.message_from_bytes(envelope.content, policy=default)
            assert isinstance(parsed, EmailMessage)
            self.accepted.append(parsed)
            self.was_encrypted.append(session.ssl is not None)
        return answer

    async def _hold(self, command: str) -> None:
        if command == self.held:
            self.arrived.set()
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.given_up.set()
                raise

    def _authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        given = (data.login.decode(), data.password.decode())
        return AuthResult(success=given == self.login, handled=given == self.login)


def read_parts(mail: EmailMessage) -> tuple[str, str]:
    """Return the plain text and the HTML of a mail."""
    plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain is not None
    assert html is not None
    return plain.get_content().replace("\r\n", "\n"), html.get_content()
