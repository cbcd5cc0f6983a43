"""Faults of the demo web's APIs: errors in words, and pages or totals that are wrong."""

from collections.abc import Callable

import msgspec

from headwater.core.json_values import JsonObject
from headwater.demo.answers import Answer, Body, Maker, respond, whole

_JSON = "application/json; charset=utf-8"


def text_error(code: int) -> Answer:
    """Answer with an error as plain text under a JSON content type."""
    return respond(b"The search did not answer", code, Content_Type=_JSON)


text_under_200 = respond(b"The search is away for a moment. Please come back later.", Content_Type=_JSON)
error_under_200 = respond(b'{"error": "The search could not be reached"}', Content_Type=_JSON)


def altered(alter: Callable[[JsonObject], JsonObject]) -> Maker:
    """Return a fault that alters the JSON of the right answer."""

    def make(body: Body) -> Answer:
        content = msgspec.json.encode(alter(msgspec.json.decode(body.content)))
        return whole(Body(content, body.content_type, body.modified))

    return make


empty_page = altered(lambda page: page | {"results": []})
short_page = altered(lambda page: page | {"results": page["results"][:-1]})
moved_total = altered(lambda page: page | {"total": page["total"] + 1})


@altered
def shrunk_total(page: JsonObject) -> JsonObject:
    """Remove the last result from the total and the pages: they agree, and both are wrong."""
    total = max(0, page["total"] - 1)
    return page | {"total": total, "results": page["results"][: max(0, total - page["start"])]}
