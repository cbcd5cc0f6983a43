"""What a backup says of itself: written last, so that a folder with it is a whole backup."""

import hashlib
from datetime import datetime
from pathlib import Path

import msgspec

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.db.dump import Table
from headwater.storage.corpus_copy import Extent

MANIFEST, UNFINISHED, DATABASE, CORPUS = "manifest.json", "UNFINISHED", "database", "corpus"
FORMAT = 1


class Manifest(msgspec.Struct, frozen=True):
    """One backup. `missing` documents had no raw file here, `unlike` ones another than their row tells of."""

    headwater: str
    schema: int
    postgres: int
    taken_at: datetime
    missing: int
    unlike: int
    raw: Extent
    tables: list[Table]
    sequences: dict[str, int]
    format: int = FORMAT

    @property
    def documents(self) -> int:
        """How many documents are in it."""
        return next(table.rows for table in self.tables if table.name == "documents")

    @property
    def database_size(self) -> int:
        """How many bytes the tables' files have."""
        return sum(table.size for table in self.tables)


class _Head(msgspec.Struct):
    format: int


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Say that a backup is whole, but for the mark that it is not."""
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def read_manifest(folder: Path) -> Manifest:
    """Read what a backup says of itself; what is not a whole one is refused."""
    if (folder / UNFINISHED).exists():
        raise _refused(f"The backup in {folder} was interrupted, or is still being made: it is not whole.")
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
        what = "is not the file that was written" if digest else "is missing"
        raise _refused(f"The backup in {folder} is damaged: {DATABASE}/{table.file_name} {what}.")


def _refused(why: str) -> OperatorError:
    return OperatorError(f"{why} Nothing was restored.", reason=Reason.BAD_REQUEST)
