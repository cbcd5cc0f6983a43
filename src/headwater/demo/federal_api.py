"""The Federal Register's search API and api.congress.gov, with the habits of the real ones."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from typing import Any

from headwater.core.json_values import JsonObject
from headwater.demo.api import ApiRequest, DemoApi

Record = Mapping[str, Any]


@dataclass(eq=False)
class RegisterApi(DemoApi):
    """`/api/v1/documents.json`. It counts up to `cap_at`, does not report that it stopped, and refuses later pages.

    An answer has at most `per_page` documents.
    """

    documents: Sequence[Record]
    _: KW_ONLY
    cap_at: int = 10_000
    per_page: int = 1_000

    def reply(self, asked: ApiRequest) -> tuple[int, JsonObject]:
        """Return a page of the documents that were published in a window of days."""
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


@dataclass(eq=False, kw_only=True)
class CongressServer(DemoApi):
    """`/api/v3/`: lists in pages of at most `per_page` records, and single records. Each request needs a key.

    It reports the limit of an hour and the requests left, but not the end of the hour; api.data.gov does the same.
    With a `register`, that API is at the same host and its requests count too.
    """

    bills: Sequence[Record] = ()
    laws: Sequence[Record] = ()
    reports: Sequence[Record] = ()
    limit: int = 1_000
    per_page: int = 250
    register: RegisterApi | None = None
    keys: list[str] = field(default_factory=list)  # the key of each request
    refuses_keys: bool = False

    def headers(self) -> dict[str, str]:
        """Return the limit and the number of requests left."""
        left = max(0, self.limit - len(self.keys))
        return {"X-RateLimit-Limit": str(self.limit), "X-RateLimit-Remaining": str(left)}

    def reply(self, asked: ApiRequest) -> tuple[int, JsonObject]:
        """Return a list or a record."""
        key = asked.headers.get("X-Api-Key")
        if key is None:
            return 403, _error("API_KEY_MISSING", "No api_key was supplied.")
        self.keys.append(key)
        if self.refuses_keys:
            return 403, _error("API_KEY_INVALID", "An invalid api_key was supplied.")
        if len(self.keys) > self.limit:
            return 429, _error("OVER_RATE_LIMIT", "You have exceeded your rate limit. Try again later.")
        if self.register and asked.path.startswith("/api/v1/"):
            return self.register.reply(asked)
        match asked.path.removeprefix("/api/v3/").split("/"):
            case ["law", congress, "pub"]:
                return 200, self._page(asked, "bills", [law for law in self.laws if str(law["congress"]) == congress])
            case ["crsreport"]:
                return 200, self._page(asked, "CRSReports", self.reports)
            case ["crsreport", number] if report := next((one for one in self.reports if one["id"] == number), None):
                return 200, {"CRSReport": report}
            case ["bill", *rest] if bill := next((one for one in self.bills if _bill_path(one) == rest), None):
                return 200, {"bill": bill}
        return 404, {"error": "Unknown resource"}

    def _page(self, asked: ApiRequest, name: str, records: Sequence[Record]) -> JsonObject:
        offset = int(asked.first("offset") or 0)
        size = min(int(asked.first("limit") or 20), self.per_page)
        return {name: records[offset : offset + size], "pagination": {"count": len(records)}}


def _bill_path(bill: Record) -> list[str]:
    return [str(bill["congress"]), bill["type"].lower(), str(bill["number"])]


def _error(code: str, message: str) -> JsonObject:
    return {"error": {"code": code, "message": message}}
