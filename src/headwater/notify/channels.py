"""The operation that adds a channel: an e-mail address or a service that gets digests of a saved search, or alarms."""

import asyncio
import secrets

from headwater.changes.operations import ChangeFeed, Webhook, WebhookOperations, check_receiver_name
from headwater.core.dates import check_timezone
from headwater.core.errors import BadRequest, InvalidURL, OperatorError
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.text import make_storable
from headwater.core.url_input import is_mail_address
from headwater.db import digests, saved_searches
from headwater.db.changes import Event, Receiver, ReceiverKind
from headwater.db.context import DatabaseContext
from headwater.db.digests import DeliveryTimes as DeliveryTimes
from headwater.notify.digests import next_hour
from headwater.notify.operations import unknown_saved_search

_SECRET_BYTES = 32


@record
class NewChannel:
    """A channel to add."""

    name: str
    address: str
    """An e-mail address, or the address of a service as Apprise writes it, such as ntfy://ntfy.sh/topic."""
    search: str | None = None
    """The saved search whose documents are in the digests."""
    times: DeliveryTimes = DeliveryTimes()
    since: str | None = None
    """The cursor, day or time of the first change to report; by default now."""
    alarms: bool = False
    """Whether it gets alarms, each once and once more when it is over. Such a channel has no search."""


class ChannelOperations:
    """Operations on channels. The operations of webhooks show, test, disable and remove channels too."""

    def __init__(self, context: DatabaseContext, webhooks: WebhookOperations) -> None:
        self._context = context
        self._feed = ChangeFeed(context.database)
        self._webhooks = webhooks

    async def add(self, new: NewChannel) -> Webhook:
        """Add a channel: an e-mail address, or a service that Apprise knows."""
        name, times = check_receiver_name(new.name), await self._check_times(new.times)
        kind, address = await self._check_address(new.address.strip())
        database, now = self._context.database, self._context.clock.now()
        search_id = await self._find_search(new)
        after = await self._feed.find_end() if new.since is None else await self._feed.find_start(new.since)
        hour, zone = times.daily_at, times.timezone or self._context.settings.timezone
        added = await database.run(
            digests.add_channel,
            Receiver(name, address, secrets.token_bytes(_SECRET_BYTES), kind),
            [Event.ALARM if new.alarms else Event.DOCUMENT_READY],
            times,
            search_id=search_id,
            after=after,
            due_at=None if hour is None else next_hour(now, hour, zone),
            now=now,
        )
        if not added:
            raise OperatorError(f"There is already a receiver named {name}.", reason=Reason.WEBHOOK_EXISTS)
        return await self._webhooks.get(name)

    async def _find_search(self, new: NewChannel) -> int | None:
        if new.alarms == (new.search is not None):
            raise BadRequest("search: give a saved search, or alarms without one.")
        if new.search is None:
            if new.times.daily_at is not None:
                raise BadRequest("daily_at: alarms are sent at once.")
            return None
        found = await self._context.database.run(saved_searches.find_saved_search_id, make_storable(new.search))
        if found is None:
            raise unknown_saved_search(new.search)
        return found

    async def _check_address(self, address: str) -> tuple[ReceiverKind, str]:
        """Return the kind of an address. No message repeats an address, which may have a password."""
        if make_storable(address) != address:
            raise BadRequest("address: remove the characters that cannot be stored.")
        if "://" not in address:
            if not is_mail_address(address):
                raise BadRequest("address: give an e-mail address, or the address of a service such as ntfy://.")
            if not self._context.settings.smtp_url:
                raise OperatorError("Set smtp_url to send mails.", reason=Reason.BAD_SETTING)
            return ReceiverKind.EMAIL, address
        from headwater.http.services import find_service  # the import takes long

        try:
            await asyncio.to_thread(find_service, address)
        except InvalidURL as error:
            raise BadRequest(f"address: {error}") from None
        return ReceiverKind.APPRISE, address

    async def _check_times(self, given: DeliveryTimes) -> DeliveryTimes:
        zone = given.timezone or self._context.settings.timezone
        try:
            check_timezone(zone)
        except ValueError as error:
            raise BadRequest(f"timezone: {error}") from None
        if not await self._context.database.run(digests.is_zone_known, zone):
            raise BadRequest("timezone: the database does not know it.")
        hours = {"daily_at": given.daily_at, "quiet_from": given.quiet_from, "quiet_to": given.quiet_to}
        for name, hour in hours.items():
            if hour is not None and not 0 <= hour < 24:
                raise BadRequest(f"{name}: must be an hour from 0 to 23.")
        if (given.quiet_from is None) != (given.quiet_to is None) or (
            given.quiet_from is not None and given.quiet_from == given.quiet_to
        ):
            raise BadRequest("quiet_from: give two different hours, quiet_from and quiet_to.")
        return DeliveryTimes(given.daily_at, zone, given.quiet_from, given.quiet_to)
