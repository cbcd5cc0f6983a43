"""Mails to slow and to odd servers (spec 11.11)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from headwater.core.reasons import Reason
from headwater.core.setting_values import smtp_url
from headwater.http.mail import MailClient
from headwater.notify.senders import write_mail
from headwater.notify.texts import write_test
from tests.mail_server import MailServer
from tests.refusals import refused

MAIL = write_mail("news@example.org", "reader@example.org", uuid4(), write_test("reader"), datetime.now(UTC))


@pytest.fixture
async def mail() -> AsyncIterator[MailServer]:
    async with MailServer() as serving:
        yield serving


def make_client(mail: MailServer, **limits: float) -> MailClient:
    return MailClient(f"smtp+plain://127.0.0.1:{mail.port}", **limits)


async def test_a_server_may_check_a_message_for_longer_than_a_step(mail: MailServer) -> None:
    mail.held = "DATA"
    sending = asyncio.create_task(make_client(mail, step_seconds=1).send(MAIL))
    await asyncio.wait_for(mail.arrived.wait(), 20)
    asyncio.get_running_loop().call_later(1.5, mail.released.set)
    await asyncio.wait_for(sending, 20)
    assert len(mail.accepted) == 1


async def test_a_timeout_ends_the_connection(mail: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the mail of a slow server arrives once for each attempt."""
    monkeypatch.setattr("headwater.http.mail._STEPS", 0.02)
    mail.held = "RCPT"
    with refused(Reason.TIMEOUT):
        await make_client(mail, answer_seconds=0).send(MAIL)
    await asyncio.wait_for(mail.given_up.wait(), 10)
    assert mail.accepted == []


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
async def test_a_login_that_cannot_be_sent_is_a_refused_login() -> None:
    """The setting refuses it too."""
    async with MailServer(login=("me", "x")) as server:
        with refused(Reason.MAIL_DEFERRED):
            await MailClient(f"smtp+plain://me:p%C3%A4ss@127.0.0.1:{server.port}").send(MAIL)
    for user in ("me:p%C3%A4ss", "me:pässwort", "m%FF:x"):
        with pytest.raises(ValueError, match="ASCII"):
            smtp_url(f"smtp://{user}@mail.example")
    assert smtp_url("smtp://me:p%40ss@mail.example")


async def test_a_stop_ends_the_connection(mail: MailServer) -> None:
    mail.held = "RCPT"
    sending = asyncio.create_task(make_client(mail).send(MAIL))
    await asyncio.wait_for(mail.arrived.wait(), 20)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(sending, 10)
    await asyncio.wait_for(mail.given_up.wait(), 10)
    assert mail.accepted == []
