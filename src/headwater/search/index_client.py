"""The requests to Elasticsearch or OpenSearch. Both have the same `_bulk`, `_search` and `_aliases`."""

import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from headwater import __version__
from headwater.core.errors import HeadwaterError
from headwater.core.http import Limits, Response
from headwater.core.reasons import Reason
from headwater.core.settings import Settings
from headwater.db.search import Ranked
from headwater.http.user_agents import HONEST, user_agent

if TYPE_CHECKING:
    from headwater.http.client import HttpClient

_LIMITS = Limits(read_seconds=30, total_seconds=30, body_bytes=32 * 1024 * 1024)
_TRY_LATER = (429, 502, 503, 504)
_LONGEST_DETAIL = 300
_Json = dict[str, Any]


class IndexLost(HeadwaterError):
    """The index cannot be reached or refuses a request as a whole."""

    default_reason = Reason.INDEX_LOST

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class BulkLine:
    """A document to index, or one to delete if it has no body."""

    document_id: int
    version: int
    body: _Json | None


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The answer to a line. `refusal`: sending it again changes nothing. `is_late`: try again later."""

    refusal: str | None = None
    is_late: bool = False


class IndexClient:
    """Sends requests to the server of the setting `search_url`."""

    def __init__(self, client: "HttpClient", url: str, user_agent: str) -> None:
        parts = urlsplit(url)
        self._client = client
        self._user_agent = user_agent
        host = parts.netloc.rpartition("@")[2]
        self._base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self.place = host
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        self._headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"} if user != ":" else {}

    async def get_version(self) -> str:
        """Return the name and the version of the server."""
        answer = await self._call("GET", "/")
        version = answer.get("version") or {}
        return f"{version.get('distribution', 'Elasticsearch')} {version.get('number', '?')}"

    async def put_template(self, name: str, template: _Json) -> None:
        """Make or replace an index template."""
        await self._call("PUT", f"/_index_template/{name}", template)

    async def create_index(self, name: str) -> None:
        """Make an index, unless it exists."""
        await self._call("PUT", f"/{name}", {}, accepted=(400,))
        await self._call("GET", f"/{name}/_settings")  # fails if the 400 had another cause

    async def delete_index(self, name: str) -> None:
        """Delete an index, if it exists."""
        await self._call("DELETE", f"/{name}", accepted=(404,))

    async def refresh(self, name: str) -> None:
        """Make all documents of an index visible to searches."""
        await self._call("POST", f"/{name}/_refresh")

    async def point_alias(self, alias: str, name: str, before: str | None) -> None:
        """Point an alias at an index, and no longer at the one before, in one step."""
        actions: list[_Json] = [{"add": {"index": name, "alias": alias, "is_write_index": True}}]
        if before is not None:
            actions.insert(0, {"remove": {"index": before, "alias": alias, "must_exist": False}})
        await self._call("POST", "/_aliases", {"actions": actions})

    async def bulk(self, index: str, lines: Sequence[BulkLine]) -> list[BulkResult]:
        """Send lines, and return the result of each. Older versions than the index has count as done."""
        body = b"".join(_write_line(index, line) for line in lines)
        answer = await self._call("POST", "/_bulk", body, content_type="application/x-ndjson")
        items = answer.get("items")
        if not isinstance(items, list) or len(items) != len(lines):
            raise IndexLost(f"{self.place} did not answer each line of a bulk request.")
        return [_read_item(item, line) for item, line in zip(items, lines, strict=True)]

    async def search_page(self, alias: str, body: _Json) -> tuple[int, list[Ranked]]:
        """Search. Return the number of matches, up to the most that the search counts, and a page of them."""
        answer = await self._call("POST", f"/{alias}/_search", body)
        try:
            hits = answer["hits"]
            ranked = [Ranked(int(hit["_id"]), True, float(hit["sort"][0])) for hit in hits["hits"]]
            return int(hits["total"]["value"]), ranked
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise IndexLost(f"{self.place} did not answer as a search index: {error!r}.") from None

    async def _call(
        self,
        method: str,
        path: str,
        body: _Json | bytes | None = None,
        *,
        content_type: str = "application/json",
        accepted: Sequence[int] = (),
    ) -> _Json:
        content = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        headers: Mapping[str, str] = self._headers | ({"Content-Type": content_type} if content is not None else {})
        try:
            answer = await self._client.request(
                method,
                self._base + path,
                user_agent=self._user_agent,
                headers=headers,
                body=content,
                limits=_LIMITS,
            )
        except HeadwaterError as error:
            raise IndexLost(f"{self.place}: {error}") from error
        if not 200 <= answer.status < 300 and answer.status not in accepted:
            raise IndexLost(f"{self.place} answered {answer.status}: {_read_error(answer)}", status=answer.status)
        try:
            read = msgspec.json.decode(answer.body or b"{}")
        except msgspec.DecodeError:
            raise IndexLost(f"{self.place} did not answer in JSON.", status=answer.status) from None
        return read if isinstance(read, dict) else {}


@contextlib.asynccontextmanager
async def open_index(settings: Settings, now: Callable[[], datetime]) -> AsyncIterator[IndexClient]:
    """Open a client of the configured server. Its address is the operator's choice, so no guard checks it."""
    from headwater.http.client import HttpClient  # the import takes long
    from headwater.http.guard import AddressGuard

    everywhere = AddressGuard([ip_network("0.0.0.0/0"), ip_network("::/0")])
    async with HttpClient(guard=everywhere, clock=now) as client:
        yield IndexClient(client, settings.search_url, user_agent(HONEST, __version__, settings.contact_url))


def _write_line(index: str, line: BulkLine) -> bytes:
    action = "delete" if line.body is None else "index"
    meta = {"_index": index, "_id": str(line.document_id), "version": line.version, "version_type": "external_gte"}
    body = b"" if line.body is None else msgspec.json.encode(line.body) + b"\n"
    return msgspec.json.encode({action: meta}) + b"\n" + body


def _read_item(item: Any, line: BulkLine) -> BulkResult:
    action = "delete" if line.body is None else "index"
    answer = item.get(action) if isinstance(item, dict) else None
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(status, int) or status in _TRY_LATER or status >= 500:
        return BulkResult(is_late=True)
    # 409: the index has a newer version. 404: the document to delete is not there.
    if status < 300 or status == 409 or (line.body is None and status == 404):
        return BulkResult()
    return BulkResult(refusal=f"{status}: {_describe(answer.get('error'))}")


def _read_error(answer: Response) -> str:
    try:
        read = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        return "no reason."
    return _describe(read.get("error") if isinstance(read, dict) else None)


def _describe(error: Any) -> str:
    """Return the type and the reason of an error, with those of its cause."""
    parts: list[str] = []
    while isinstance(error, dict) and len(parts) < 3:
        parts.append(f"{error.get('type')}: {error.get('reason')}")
        error = error.get("caused_by")
    return ("; ".join(parts) or str(error or "no reason"))[:_LONGEST_DETAIL]
