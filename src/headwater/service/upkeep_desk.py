"""What a door may ask for the corpus' sake: sweep what killed writers left."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headwater.corpus import Corpus, Swept
from headwater.errors import OperatorError, StorageFailed
from headwater.model.reasons import Reason
from headwater.service.parts import Records
from headwater.store import sources


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was swept of one source, or why not."""

    source: str
    swept: Swept
    error: str | None = None


class UpkeepDesk:
    """The upkeep's part of the desk."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._corpus = Corpus(records.settings.data_dir / "corpus")

    async def sweep(self, source: str, *, older_than: timedelta, dry_run: bool = False) -> Sweep:
        """Remove the old drafts of a source, or only count them."""
        await self._source_id(source)
        return Sweep(source, await self._sweep(source, older_than, dry_run))

    async def sweep_all(self, *, older_than: timedelta, dry_run: bool = False) -> tuple[list[Sweep], list[str]]:
        """Do the same for every source; also name the folders that belong to none, which are left alone."""
        async with self._records.database.connection() as connection:
            names = [source.name for source in await sources.all_sources(connection)]
        sweeps = []
        for name in names:
            try:
                sweeps.append(Sweep(name, await self._sweep(name, older_than, dry_run)))
            except StorageFailed as error:
                sweeps.append(Sweep(name, Swept(), str(error)))
        folders = await asyncio.to_thread(self._corpus.folders)
        return sweeps, [folder for folder in folders if folder not in names]

    async def _sweep(self, source: str, older_than: timedelta, dry_run: bool) -> Swept:
        lease = self._records.settings.lease_seconds
        if older_than.total_seconds() < lease:
            raise OperatorError(
                f"A draft may be at work as long as a claim lasts; sweep none that is younger than {lease:g} s."
            )
        # The clock of this machine, not of the database: it is the one that files are dated by.
        before = datetime.now(UTC) - older_than
        return await asyncio.to_thread(self._corpus.sweep, source, before, dry_run=dry_run)

    async def _source_id(self, name: str) -> int:
        async with self._records.database.connection() as connection:
            source = await sources.get_source(connection, name)
        if source is None:
            raise OperatorError(f"There is no source named {name}.", reason=Reason.UNKNOWN_SOURCE)
        return source.id
