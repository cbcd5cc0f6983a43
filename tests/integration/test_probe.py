"""Looks at this machine's own network, as the doctor has them (issue 3)."""

import json

from headwater.http.network_checks import ask_this_machine
from tests.server import Answer, Site


async def test_what_answers_on_this_machine_is_read_unless_it_is_too_long(site: Site) -> None:
    """However long the machine has been up."""
    _, _, port = site.connect_to[0].rpartition(":")
    told, url = {"status": "ok"}, f"http://localhost:{port}/health"
    for answer, found in ((json.dumps(told), told), (json.dumps(told) + " " * 65_536, {}), ("[]", {}), ("no JSON", {})):
        site.answers[url] = Answer(answer)
        assert await ask_this_machine("127.0.0.1", int(port), "/health", user_agent="x", seconds=5) == found
