"""The manifest of a backup. It is written last, so that a folder with a manifest is a whole backup."""

import hashlib
from datetime import datetime
from pathlib import Path

import msgspec

from headwater.core.errors import BadRequest, OperatorError
from headwater.core.record import record
from headwater.db.dump import Table
from headwater.storage.corpus_copy import Extent

MANIFEST, UNFINISHED, DATABASE, CORPUS = "manifest.json", "UNFINISHED", "database", "corpus"
FORMAT = 1


@record
class Manifest:
    """The contents of a backup. `missing` documents had no raw file, and `differing` ones another than their row's."""

    headwater: str
    schema: int
    postgres: int
    taken_at: datetime
    missing: int
    differing: int
    raw: Extent
    tables: list[Table]
    sequences: dict[str, int]
    format: int = FORMAT

    @property
    def documents(self) -> int:
        """The number of documents."""
        return next(table.rows for table in self.tables if table.name == "documents")


class _Head(msgspec.Struct):
    format: int


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a backup."""
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a backup. A backup that is not whole is refused."""
    if (folder / UNFINISHED).exists():
        raise _refused(f"The backup in {folder} was interrupted or is still running: it is not whole.")
    try:
        text = (folder / MANIFEST).read_bytes()
        if msgspec.json.decode(text, type=_Head).format > FORMAT:
            raise _refused(f"The backup in {folder} was made by a newer Headwater: use that one, or a newer one.")
        return msgspec.json.decode(text, type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise _refused(f"There is no backup in {folder}: it has no {MANIFEST}.") from None
    except msgspec.MsgspecError as error:
        raise _refused(f"The backup in {folder} is damaged: {MANIFEST} cannot be read ({error}).") from None


def refuse_damaged(folder: Path, table: Table) -> None:
    """Refuse a table's file that is not the one that was written. Blocks on the disk."""
    path = folder / DATABASE / table.file_name
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        digest = ""
    if digest != table.sha256:
        fault = "is not the file that was written" if digest else "is missing"
        raise _refused(f"The backup in {folder} is damaged: {DATABASE}/{table.file_name} {fault}.")


def _refused(why: str) -> OperatorError:
    return BadRequest(f"{why} Nothing was restored.")
