"""A file of this machine, read as if it had been fetched; nothing is stored, and no database is needed."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headwater.core.errors import InvalidURL, OperatorError, SandboxFailed
from headwater.core.reasons import BODY_REASONS, Reason
from headwater.core.settings import Settings
from headwater.core.urls import normalize_url
from headwater.extraction.article import Article
from headwater.extraction.pdf.document import BodyStatus
from headwater.extraction.read_file import Reading, read
from headwater.sandbox.pool import make_sandbox

_MIB = 1024 * 1024
_STANDARD_INPUT = Path("-")
# What a body is that its reader could not manage; the reason tells more.
_STATUSES = dict.fromkeys(BODY_REASONS, BodyStatus.TOO_LARGE) | {Reason.SANDBOX_CRASHED: BodyStatus.BROKEN}


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What a file says, and how reading it ended."""

    file: str
    reading: Reading

    @property
    def status(self) -> str:
        """Return `ok`, or what the body is that has no text: one of the statuses of docs/pdf.md where it is a PDF."""
        reason = self.reading.reason
        return "ok" if reason is None else str(_STATUSES.get(reason, reason))

    @property
    def is_as_expected(self) -> bool:
        """Whether there is text, or rightly none."""
        return self.reading.reason in (None, Reason.SCANNED_NO_TEXT)

    @property
    def article(self) -> Article:
        """Return what it says, which may be nothing."""
        return self.reading.page or Article("")

    @property
    def markdown(self) -> str:
        """Return the same as Markdown, which the text of a PDF or an XML document is already."""
        return self.article.markdown or self.article.text

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a script, with the same names whatever was read."""
        content = asdict(self.article)
        del content["body_status"]  # it is part of `status`
        content["markdown"] = self.markdown
        return {
            "file": self.file,
            "normalizer": self.reading.normalizer,
            "status": self.status,
            "reason": self.reading.reason,
            "message": self.reading.message or None,
            "page_count": self.reading.page_count,
            **content,
        }


def read_body(settings: Settings, file: Path) -> bytes:
    """Return the bytes of a file, of a pipe up to its end, or of standard input where it is called `-`.

    A pipe is waited for: not to be called where a loop runs.
    """
    most = settings.max_body_mb
    try:
        with open(0, "rb", closefd=False) if file == _STANDARD_INPUT else file.open("rb") as opened:
            body = opened.read(most * _MIB + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise OperatorError(f"{_name(file)} cannot be read: {why}.", reason=Reason.BAD_REQUEST) from None
    if len(body) > most * _MIB:
        message = f"{_name(file)} has over {most} MB; the setting max_body_mb allows no more."
        raise OperatorError(message, reason=Reason.BODY_TOO_LARGE)
    return body


async def read_file(settings: Settings, file: Path, body: bytes, url: str | None) -> ReadFile:
    """Read the body of a page, a PDF or an XML document in the sandbox, within the limits that fetched ones have."""
    address = _address(file, url)
    announced = "application/pdf" if file.suffix.lower() == ".pdf" else None
    async with make_sandbox(settings) as sandbox:
        try:
            reading = await sandbox.run(
                read, body, address, announced, returns=Reading, seconds=settings.sandbox_seconds
            )
        except SandboxFailed as error:
            reading = Reading(reason=error.reason, message=f"{error.reason.sentence} ({error})")
    return ReadFile(_name(file), reading)


def _name(file: Path) -> str:
    return "standard input" if file == _STANDARD_INPUT else str(file)


def _address(file: Path, url: str | None) -> str:
    if url is None:
        return file.absolute().as_uri()
    try:
        return normalize_url(url, keep_trailing_slash=True)
    except InvalidURL as error:
        raise OperatorError(f"--url: {error}", reason=Reason.INVALID_URL) from None
