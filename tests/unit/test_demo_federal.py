"""The demo's federal APIs have the habits of the real ones (spec 9.2)."""

from collections.abc import AsyncIterator
from datetime import timedelta

import aiohttp
import msgspec
import pytest

from headwater.demo.federal_api import CongressServer, RegisterApi
from headwater.demo.federal_sites import API, KEY, register_document
from headwater.demo.plan import Site
from headwater.demo.web import DemoWeb
from tests.demo_client import TODAY, get, open_client

SEARCH = "http://register.demo.test/api/v1/documents.json?fields[]=document_number&fields[]=citation"
URL = "http://api.demo.test/api/v3"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    documents = [register_document(f"n{number}", "t", TODAY - timedelta(days=number % 3)) for number in range(60)]
    bills = [{"congress": 119, "type": "HR", "number": "1", "title": "One"}]
    laws = [{"congress": 119, "number": str(number)} for number in range(300)]
    sites: tuple[Site, ...] = (
        Site(host="register.demo.test", title="", api=lambda _today, _seed: RegisterApi(documents, cap_at=50)),
        Site(
            host=API.host,
            title="",
            api=lambda _today, _seed: CongressServer(bills=bills, laws=laws, limit=4),
        ),
    )
    async with DemoWeb(today=TODAY, sites=sites) as web, open_client(web) as session:
        yield session


async def test_the_register_stops_counting_without_a_sign(client: aiohttp.ClientSession) -> None:
    _, body = await get(client, f"{SEARCH}&per_page=1000")
    answer_body = msgspec.json.decode(body)
    assert (answer_body["count"], answer_body["total_pages"], len(answer_body["results"])) == (50, 1, 50)
    refused, _ = await get(client, f"{SEARCH}&per_page=10&page=6")
    assert refused.status == 400
    assert answer_body["results"][0] == {"document_number": "n2", "citation": None}  # the oldest come first


async def test_the_register_serves_pages_and_omits_empty_fields(client: aiohttp.ClientSession) -> None:
    window = f"conditions[publication_date][gte]={TODAY}&conditions[publication_date][lte]={TODAY}"
    _, body = await get(client, f"{SEARCH}&{window}&per_page=8&page=3")
    answer_body = msgspec.json.decode(body)
    assert (answer_body["count"], answer_body["total_pages"], len(answer_body["results"])) == (20, 3, 4)
    _, body = await get(client, f"{SEARCH}&conditions[publication_date][gte]=2030-01-01")
    assert msgspec.json.decode(body) == {"count": 0, "description": "No documents"}
    assert (await get(client, "http://register.demo.test/api/v1/agencies"))[0].status == 404


async def test_congress_needs_a_key_serves_250_records_and_reports_the_budget(client: aiohttp.ClientSession) -> None:
    refused, body = await get(client, f"{URL}/law/119/pub")
    assert (refused.status, msgspec.json.decode(body)["error"]["code"]) == (403, "API_KEY_MISSING")
    answer, body = await get(client, f"{URL}/law/119/pub?limit=1000&offset=100", X_Api_Key=KEY)
    answer_body = msgspec.json.decode(body)
    assert (len(answer_body["bills"]), answer_body["pagination"]) == (200, {"count": 300})
    assert (answer.headers["X-RateLimit-Limit"], answer.headers["X-RateLimit-Remaining"]) == ("4", "3")
    assert (await get(client, f"{URL}/bill/119/hr/2", X_Api_Key=KEY))[0].status == 404
    assert msgspec.json.decode((await get(client, f"{URL}/bill/119/hr/1", X_Api_Key=KEY))[1])["bill"]["title"] == "One"
    await get(client, f"{URL}/crsreport", X_Api_Key=KEY)
    spent, body = await get(client, f"{URL}/crsreport", X_Api_Key=KEY)
    assert (spent.status, msgspec.json.decode(body)["error"]["code"]) == (429, "OVER_RATE_LIMIT")
    assert "Retry-After" not in spent.headers
