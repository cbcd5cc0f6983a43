"""The doctor's checks of this machine's own network (spec 8.2)."""

import json

from headwater.http.network_checks import ask_this_machine
from tests.server import Answer, Site


async def test_a_json_object_of_a_local_program_is_read_unless_it_is_too_long(site: Site) -> None:
    _, _, port = site.connect_to[0].rpartition(":")
    health, url = {"status": "ok"}, f"http://localhost:{port}/health"
    for answer, found in (
        (json.dumps(health), health),
        (json.dumps(health) + " " * 65_536, {}),
        ("[]", {}),
        ("no JSON", {}),
    ):
        site.answers[url] = Answer(answer)
        assert await ask_this_machine("127.0.0.1", int(port), "/health", user_agent="x", seconds=5) == found
