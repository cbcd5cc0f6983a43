"""What a kind may yield: checked before anything of it is saved, in runs, in trials and in golden pairs alike."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import PurePosixPath

from headwater.core.errors import HeadwaterError, StorageFailed
from headwater.core.reasons import Reason
from headwater.core.source import Item
from headwater.sources.kind import Kind
from headwater.storage.folder import raw_path


def check_item(source: str, kind: Kind, item: Item) -> str | None:
    """Return where the raw bytes of an item's page go, in the one spelling of that place.

    Raises, naming the field, for what cannot be saved.
    """
    for name, value in (("published_at", item.published_at), ("updated_at", item.updated_at)):
        if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
            raise _refused(source, f"{name}: must be a datetime with a time zone, not {value!r}.", item.url)
    subpath = kind.partition(item)
    if subpath is not None and not isinstance(subpath, str):
        raise _refused(source, f"partition: must return text or None, not {subpath!r}.", item.url)
    if subpath is None:
        return None
    try:
        raw_path(source, subpath)
    except StorageFailed as error:
        raise _refused(source, f"partition: {error}", item.url) from None
    return str(PurePosixPath(subpath))


def refuse_shared_places(source: str, places: Iterable[tuple[Item, str | None]]) -> None:
    """Refuse two pages with one place for their raw bytes: the second would take the first's away.

    A place below another page's is refused too: what is a file for one cannot be a folder for the other.
    """
    placed = [(item.url, subpath) for item, subpath in places if subpath is not None]
    owners: dict[str, str] = {}
    for url, subpath in placed:
        if owners.setdefault(subpath, url) != url:
            raise _refused(source, f"partition: {subpath!r} is given to {owners[subpath]} and to {url}.", url)
    for url, subpath in placed:
        for folder in map(str, PurePosixPath(subpath).parents):
            if owners.get(folder, url) != url:
                what = f"{folder!r} is given to {owners[folder]}, and {subpath!r} to {url}"
                raise _refused(source, f"partition: {what}, which would need it as a folder.", url)


def _refused(source: str, what: str, url: str) -> HeadwaterError:
    return HeadwaterError(f"Source {source}: {what}", reason=Reason.BAD_SOURCE, url=url)
