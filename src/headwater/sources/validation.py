"""Checks of the items that a kind yields. Runs, trials and golden pairs use them before anything is saved."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import PurePosixPath

from headwater.core.errors import HeadwaterError, StorageFailed
from headwater.core.reasons import Reason
from headwater.core.source import Item
from headwater.sources.kind import Kind
from headwater.storage.folder import raw_path


def check_item(source: str, kind: Kind, item: Item) -> str | None:
    """Return the normalized path of the raw bytes of an item's page, or None if the kind gives none.

    Raises HeadwaterError, with the field, if the item cannot be saved.
    """
    for name, value in (("published_at", item.published_at), ("updated_at", item.updated_at)):
        if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
            raise _bad_item(source, f"{name}: must be a datetime with a time zone, not {value!r}.", item.url)
    subpath = kind.partition(item)
    if subpath is None:
        return None
    if not isinstance(subpath, str):
        raise _bad_item(source, f"partition: must return text or None, not {subpath!r}.", item.url)
    try:
        raw_path(source, subpath)
    except StorageFailed as error:
        raise _bad_item(source, f"partition: {error}", item.url) from None
    return str(PurePosixPath(subpath))


def refuse_shared_paths(source: str, items: Iterable[tuple[Item, str | None]]) -> None:
    """Refuse two pages whose raw bytes have the same path, or one path below the other.

    The second file would replace the first, or would need it as a folder.
    """
    paths = [(item.url, subpath) for item, subpath in items if subpath is not None]
    owners: dict[str, str] = {}
    for url, subpath in paths:
        if owners.setdefault(subpath, url) != url:
            raise _bad_item(source, f"partition: {subpath!r} is given to {owners[subpath]} and to {url}.", url)
    for url, subpath in paths:
        for folder in map(str, PurePosixPath(subpath).parents):
            if owners.get(folder, url) != url:
                both = f"{folder!r} is given to {owners[folder]}, and {subpath!r} to {url}"
                raise _bad_item(source, f"partition: {both}, which would need it as a folder.", url)


def _bad_item(source: str, what: str, url: str) -> HeadwaterError:
    return HeadwaterError(f"Source {source}: {what}", reason=Reason.BAD_SOURCE, url=url)
