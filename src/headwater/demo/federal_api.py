"""Stand-ins for the Federal Register's search and for api.congress.gov, with the habits that the real ones have.

Both are an `Answer`, and take faults as the stand-in for GOV.UK does.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from aiohttp import web

from headwater.demo.answers import Answer, Body, Maker, whole
from headwater.demo.govuk import read_parameters
from headwater.demo.govuk_faults import JSON, ApiRequest, Faults

_KEPT_REQUESTS = 20_000  # a web that is left running must not grow
Record = Mapping[str, Any]


class _Api(ABC):
    """Answers with JSON, or with the fault that is planned for a request."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.requests: deque[ApiRequest] = deque(maxlen=_KEPT_REQUESTS)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        path, _, raw_query = request.raw_path.partition("?")
        asked = ApiRequest(path, read_parameters(raw_query))
        self.requests.append(asked)
        status, payload = self.reply(asked, request.headers)
        body = Body(msgspec.json.encode(payload), JSON, datetime.now(UTC))
        fault = self.faults.due(asked)
        response = await (whole(body, status) if fault is None else fault(body))(request)
        response.headers.update(self.headers())
        return response

    @abstractmethod
    def reply(self, asked: ApiRequest, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of the right answer."""

    def headers(self) -> dict[str, str]:
        """Return the headers that every answer has."""
        return {}


class RegisterApi(_Api):
    """`/api/v1/documents.json`: it counts no further than `cap_at`, says nothing of it, and refuses later pages.

    `per_page` is as much as it gives in one answer, whatever is asked for.
    """

    def __init__(self, documents: Iterable[Record], *, cap_at: int = 10_000, per_page: int = 1_000) -> None:
        super().__init__()
        self.documents = list(documents)
        self.cap_at = cap_at
        self.per_page = per_page

    def reply(self, asked: ApiRequest, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Return a page of what was published in a window of days."""
        del headers
        if asked.path != "/api/v1/documents.json":
            return 404, {"status": 404, "message": "Record Not Found"}
        found = self._found(asked)[: self.cap_at]
        if not found:
            return 200, {"count": 0, "description": "No documents"}
        size = min(int(asked.first("per_page") or 20), self.per_page)
        start = (int(asked.first("page") or 1) - 1) * size
        if start >= self.cap_at:
            return 400, {"status": 400, "message": "Pages end where the count does"}
        fields = asked.query.get("fields[]", ())
        results = [{name: document.get(name) for name in fields} for document in found[start : start + size]]
        pages = -(-len(found) // size)
        return 200, {"count": len(found), "total_pages": pages, "results": results}

    def _found(self, asked: ApiRequest) -> list[Record]:
        first = asked.first("conditions[publication_date][gte]") or date.min.isoformat()
        last = asked.first("conditions[publication_date][lte]") or date.max.isoformat()
        found = [document for document in self.documents if first <= document["publication_date"] <= last]
        return sorted(found, key=lambda document: document["publication_date"])


class CongressStandIn(_Api):
    """`/api/v3/`: lists by pages of 250 at most, single bills, and nothing without a key.

    It tells of its limit what api.data.gov does: how many in an hour, and how many are left, but not until when.
    """

    def __init__(
        self,
        *,
        bills: Iterable[Record] = (),
        laws: Iterable[Record] = (),
        reports: Iterable[Record] = (),
        limit: int = 1_000,
        per_page: int = 250,
    ) -> None:
        super().__init__()
        self.bills = {f"{one['congress']}/{str(one['type']).lower()}/{one['number']}": one for one in bills}
        self.laws = list(laws)
        self.reports = list(reports)
        self.limit = limit
        self.per_page = per_page
        self.keys: list[str] = []  # that came, one for each request
        self.refuses_keys = False

    def headers(self) -> dict[str, str]:
        """Return the limit and what is left of it."""
        left = max(0, self.limit - len(self.keys))
        return {"X-RateLimit-Limit": str(self.limit), "X-RateLimit-Remaining": str(left)}

    def reply(self, asked: ApiRequest, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Return a list or a record."""
        key = headers.get("X-Api-Key")
        if key is None:
            return 403, _error("API_KEY_MISSING", "No api_key was supplied.")
        self.keys.append(key)
        if self.refuses_keys:
            return 403, _error("API_KEY_INVALID", "An invalid api_key was supplied.")
        if len(self.keys) > self.limit:
            return 429, _error("OVER_RATE_LIMIT", "You have exceeded your rate limit. Try again later.")
        match asked.path.removeprefix("/api/v3/").split("/"):
            case ["law", congress, "pub"]:
                laws = [law for law in self.laws if str(law["congress"]) == congress]
                return 200, self._page(asked, "bills", laws)
            case ["crsreport"]:
                return 200, self._page(asked, "CRSReports", self.reports)
            case ["crsreport", number] if report := next((one for one in self.reports if one["id"] == number), None):
                return 200, {"CRSReport": report}
            case ["bill", *rest] if bill := self.bills.get("/".join(rest)):
                return 200, {"bill": bill}
        return 404, {"error": "Unknown resource"}

    def _page(self, asked: ApiRequest, name: str, records: Sequence[Record]) -> dict[str, Any]:
        offset = int(asked.first("offset") or 0)
        size = min(int(asked.first("limit") or 20), self.per_page)
        return {name: records[offset : offset + size], "pagination": {"count": len(records)}}


class ApiHost:
    """Several APIs at one host, which counts what was asked with the key for all of them together."""

    def __init__(self, apis: Mapping[str, _Api], *, limit: int) -> None:
        self.apis = dict(apis)  # by what their paths begin with
        self.limit = limit
        self.keys: list[str] = []  # that came, one for each request

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        key = request.headers.get("X-Api-Key")
        if key is not None:
            self.keys.append(key)
        response = await self._answer(request, key)
        left = max(0, self.limit - len(self.keys))
        response.headers.update({"X-RateLimit-Limit": str(self.limit), "X-RateLimit-Remaining": str(left)})
        return response

    async def _answer(self, request: web.BaseRequest, key: str | None) -> web.StreamResponse:
        if key is None:
            return web.json_response(_error("API_KEY_MISSING", "No api_key was supplied."), status=403)
        if len(self.keys) > self.limit:
            return web.json_response(_error("OVER_RATE_LIMIT", "You have exceeded your rate limit."), status=429)
        for beginning, api in self.apis.items():
            if request.raw_path.startswith(beginning):
                return await api(request)
        return web.json_response({"error": "Unknown resource"}, status=404)


def altered(alter: Callable[[dict[str, Any]], dict[str, Any]]) -> Maker:
    """Make a fault of what it does to the JSON of the right answer."""

    def make(body: Body) -> Answer:
        return whole(
            Body(msgspec.json.encode(alter(msgspec.json.decode(body.content))), body.content_type, body.modified)
        )

    return make


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}
