"""The token for everything that writes: configured, or made on first start and kept in the data folder."""

import os
import secrets

from headwater.core.errors import OperatorError
from headwater.core.reasons import Reason
from headwater.core.settings import Settings

FILE_NAME = "api-token"


def write_token(settings: Settings) -> str:
    """Return the token, making it on the first call."""
    if settings.api_token:
        return settings.api_token
    path = settings.data_dir / FILE_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Linked into place whole, so that of two starts at once one token wins and nobody reads half of it.
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
        except FileExistsError:
            pass
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(
            f"The API token cannot be kept in {path}: {error}. Make the folder writable or set HEADWATER_API_TOKEN.",
            reason=Reason.FOLDER_UNUSABLE,
        ) from None
    if not token:
        raise OperatorError(
            f"The API token in {path} is empty, which would let everybody write; delete the file to have one made.",
            reason=Reason.FOLDER_UNUSABLE,
        )
    return token
