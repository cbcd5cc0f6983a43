"""The page /docs: the OpenAPI description as HTML, without scripts and without other hosts."""

import asyncio
import base64
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from itertools import groupby
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
details { border-top: 1px solid; padding: .4rem 0; }
summary { cursor: pointer; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; }
code { font-size: .95em; }
"""
_STYLE_HASH = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"
_SCHEMAS = "#/components/schemas/"


def add_docs(app: FastAPI) -> None:
    """Add the routes /openapi.json and /docs."""
    pages: list[str] = []

    async def show_openapi(_: Request) -> JSONResponse:
        return JSONResponse(await asyncio.to_thread(app.openapi))  # it is made once, which takes long

    async def show_docs(_: Request) -> HTMLResponse:
        if not pages:
            pages.append(await asyncio.to_thread(lambda: render_docs(app.openapi())))
        return HTMLResponse(pages[0], headers={"Content-Security-Policy": _POLICY})

    app.add_route("/openapi.json", show_openapi, include_in_schema=False)
    app.add_route("/docs", show_docs, include_in_schema=False)


def render_docs(described: dict[str, Any]) -> str:
    """Render an OpenAPI description as a page."""
    info = described["info"]
    return "".join(
        (
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style>",
            f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
            '<p>Programs can read this description as JSON: <a href="/openapi.json">/openapi.json</a>.</p>',
            *_render_operations(described["paths"]),
            "<h2>Records</h2>",
            *_render_schemas(described["components"]["schemas"]),
            "</html>",
        )
    )


def _render_operations(paths: dict[str, Any]) -> Iterator[str]:
    operations = [(path, method, call) for path, calls in paths.items() for method, call in calls.items()]
    tagged = sorted(operations, key=lambda found: (found[2].get("tags", [""])[0], found[0]))
    for tag, calls in groupby(tagged, key=lambda found: found[2].get("tags", [""])[0]):
        yield f"<h2>{escape(tag)}</h2>"
        for path, method, call in calls:
            yield from _render_operation(path, method, call)


def _render_operation(path: str, method: str, call: dict[str, Any]) -> Iterator[str]:
    scope = f"scope {call['x-scope']}" if call.get("x-scope") else "no token"
    yield f"<details><summary><code><b>{method.upper()}</b> {escape(path)}</code> ({escape(scope)})</summary>"
    yield f"<p>{escape(call.get('description') or call.get('summary', ''))}</p>"
    if parameters := call.get("parameters"):
        yield "<table><tr><th>parameter<th>in<th>type<th>meaning"
        for parameter in parameters:
            meaning = parameter.get("description") or parameter["schema"].get("description", "")
            yield f"<tr><td><code>{escape(parameter['name'])}</code>{' (required)' * parameter.get('required', False)}"
            yield f"<td>{escape(parameter['in'])}<td>{_name_type(parameter['schema'])}<td>{escape(meaning)}"
        yield "</table>"
    for body in call.get("requestBody", {}).get("content", {}).values():
        yield f"<p>Body: {_name_type(body['schema'])}</p>"
    for status, answer in call["responses"].items():
        types = [_name_type(content.get("schema", {})) for content in answer.get("content", {}).values()]
        yield f"<p>{escape(status)}: {', '.join(types) or escape(answer['description'])}</p>"
    yield "</details>"


def _render_schemas(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        yield f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{escape(schema.get("description", ""))}</p>'
        if values := schema.get("enum"):
            yield f"<p>One of {', '.join(f'<code>{escape(str(value))}</code>' for value in values)}.</p>"
        if properties := schema.get("properties"):
            yield "<table><tr><th>field<th>type<th>meaning"
            for field, described in properties.items():
                yield f"<tr><td><code>{escape(field)}</code><td>{_name_type(described)}"
                yield f"<td>{escape(described.get('description', ''))}"
            yield "</table>"


def _name_type(schema: dict[str, Any]) -> str:
    """Name the type of a value, with a link to its record."""
    if reference := schema.get("$ref"):
        name = escape(reference.removeprefix(_SCHEMAS))
        return f'<a href="#{name}">{name}</a>'
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(_name_type, choices))
    if "items" in schema:
        return f"list of {_name_type(schema['items'])}"
    return escape(" ".join(filter(None, (schema.get("type", "any"), schema.get("format", "")))))
