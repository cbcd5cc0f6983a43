"""The first API token, with the scope admin: from the settings, or from a file that the first start makes."""

import contextlib
import os
import secrets

from headwater.core.access import check_token
from headwater.core.errors import FolderUnusable
from headwater.core.settings import Settings

FILE_NAME = "api-token"


def get_first_token(settings: Settings) -> str:
    """Return the first token. The first call makes it."""
    if settings.api_token:
        return settings.api_token
    path = settings.data_dir / FILE_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            # The whole file is linked into place: of two starts at once one wins, and no reader sees half a token.
            draft = path.with_name(f".{FILE_NAME}.{secrets.token_hex(4)}")
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)
            finally:
                draft.unlink()
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FolderUnusable(
            f"The API token cannot be stored in {path}: {error}. Make the folder writable or set HEADWATER_API_TOKEN."
        ) from None
    try:
        return check_token(token)
    except ValueError as error:
        raise FolderUnusable(
            f"The API token in {path} {error}. Delete the file: the next start makes a new token."
        ) from None
