"""Normalize a local file as if it had been fetched, without storing it and without a database."""

from pathlib import Path

from headwater.core.errors import BadRequest, InvalidURL, OperatorError, SandboxFailed
from headwater.core.reasons import BODY_REASONS, Reason
from headwater.core.record import extend, record
from headwater.core.settings import Settings
from headwater.core.urls import normalize_url
from headwater.extraction.article import Article, BodyStatus
from headwater.extraction.registry import FileReading, read_file
from headwater.sandbox.pool import make_sandbox

_MIB = 1024 * 1024
_STANDARD_INPUT = Path("-")
_STATUSES = dict.fromkeys(BODY_REASONS, BodyStatus.TOO_LARGE) | {Reason.SANDBOX_CRASHED: BodyStatus.BROKEN}


@record
class NormalizedFile(Article):
    """A local file, and the article that Headwater makes of it."""

    file: str = ""
    normalizer: str | None = None
    status: str = "ok"
    """`ok`, or why there is no text. docs/pdf.md lists the statuses of a PDF."""
    reason: Reason | None = None
    message: str | None = None
    page_count: int | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the file should have text and has none."""
        return self.reason not in (None, Reason.SCANNED_NO_TEXT) and not self.text


def read_body(settings: Settings, file: Path) -> bytes:
    """Return the bytes of a file, of a pipe, or of standard input if the file is `-`.

    The call waits until a pipe ends, so call it outside an event loop.
    """
    limit = settings.max_body_mb
    try:
        with open(0, "rb", closefd=False) if file == _STANDARD_INPUT else file.open("rb") as opened:
            body = opened.read(limit * _MIB + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadRequest(f"{_name(file)} cannot be read: {why}.") from None
    if len(body) > limit * _MIB:
        message = f"{_name(file)} has over {limit} MB; the setting max_body_mb allows no more."
        raise OperatorError(message, reason=Reason.BODY_TOO_LARGE)
    return body


async def normalize_file(settings: Settings, file: Path, body: bytes, url: str | None) -> NormalizedFile:
    """Normalize the body of a page, a PDF or an XML document in the sandbox, within the limits of fetched bodies."""
    address = _address(file, url)
    content_type = "application/pdf" if file.suffix.lower() == ".pdf" else None
    async with make_sandbox(settings) as sandbox:
        try:
            reading = await sandbox.run(
                read_file, body, address, content_type, returns=FileReading, seconds=settings.sandbox_timeout_seconds
            )
        except SandboxFailed as error:
            reading = FileReading(reason=error.reason, message=f"{error.reason.sentence} ({error})")
    status = "ok" if reading.reason is None else str(_STATUSES.get(reading.reason, reading.reason))
    body_status = BodyStatus(status) if status in list(BodyStatus) else BodyStatus.EMPTY_TEXT
    article = reading.page or Article("")
    return extend(
        article,
        NormalizedFile,
        markdown=article.markdown or article.text,
        body_status=body_status,
        file=_name(file),
        normalizer=reading.normalizer,
        status=status,
        reason=reading.reason,
        message=reading.message or None,
        page_count=reading.page_count,
    )


def _name(file: Path) -> str:
    return "standard input" if file == _STANDARD_INPUT else str(file)


def _address(file: Path, url: str | None) -> str:
    if url is None:
        return file.absolute().as_uri()
    try:
        return normalize_url(url, keep_trailing_slash=True)
    except InvalidURL as error:
        raise OperatorError(f"--url: {error}", reason=Reason.INVALID_URL) from None
