"""A file of this machine, read as if it had been fetched; nothing is stored, and no database is needed."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headwater.config import Settings
from headwater.errors import OperatorError, SandboxFailed
from headwater.model.reasons import Reason
from headwater.normalize.reading import Reading, read
from headwater.service.parts import make_sandbox

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What a file says, and how reading it ended."""

    file: str
    reading: Reading

    @property
    def status(self) -> str:
        """Return `ok`, or the code of why there is no text."""
        return str(self.reading.reason or "ok")

    @property
    def is_as_expected(self) -> bool:
        """Whether there is text, or rightly none."""
        return self.reading.reason in (None, Reason.SCANNED_NO_TEXT)

    @property
    def text(self) -> str:
        """Return what it says."""
        if self.reading.pdf:
            return self.reading.pdf.markdown
        return self.reading.page.text if self.reading.page else ""

    @property
    def markdown(self) -> str:
        """Return the same as Markdown, which the text of a PDF or an XML document is already."""
        page = self.reading.page
        return page.markdown if page and page.markdown else self.text

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a script."""
        content = self.reading.pdf or self.reading.page
        facts = {"file": self.file, "normalizer": self.reading.normalizer, "message": self.reading.message or None}
        return facts | (asdict(content) if content else {}) | {"status": self.status}


async def read_file(settings: Settings, file: Path, url: str | None) -> ReadFile:
    """Read a page, a PDF or an XML document in the sandbox, within the limits that fetched ones have."""
    body = _body_of(file, settings.max_body_mb)
    announced = "application/pdf" if file.suffix.lower() == ".pdf" else None
    async with make_sandbox(settings) as sandbox:
        try:
            reading = await sandbox.run(
                read, body, url or _address(file), announced, returns=Reading, seconds=settings.sandbox_seconds
            )
        except SandboxFailed as error:
            reading = Reading(reason=error.reason, message=f"{error.reason.sentence} ({error})")
    return ReadFile(str(file), reading)


def _body_of(file: Path, most: int) -> bytes:
    try:
        with file.open("rb") as opened:
            body = opened.read(most * _MIB + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise OperatorError(f"{file} cannot be read: {why}.", reason=Reason.BAD_REQUEST) from None
    if len(body) > most * _MIB:
        message = f"{file} has over {most} MB; the setting max_body_mb allows no more."
        raise OperatorError(message, reason=Reason.BODY_TOO_LARGE)
    return body


def _address(file: Path) -> str:
    return file.absolute().as_uri()
