"""The public Python surface (spec 8.6)."""

import subprocess
import sys

import pytest

import headwater


def test_the_public_surface_matches_its_list() -> None:
    present = {name for name in vars(headwater) if not name.startswith("_")}
    modules = {name for name in present if type(vars(headwater)[name]).__name__ == "module"}
    helpers = {"version", "import_module", "Any", "TYPE_CHECKING"}
    late = {"Kind", "Robots", "Run", "extract_html", "extract_pdf", "parse_feed", "parse_sitemap"}
    assert present - modules - helpers | late == set(headwater.__all__) - {"__version__"}
    assert all(getattr(headwater, name) is not None for name in headwater.__all__)
    assert headwater.__all__ == sorted(headwater.__all__) == dir(headwater)


def test_the_public_surface_needs_no_configuration() -> None:
    assert headwater.normalize_url("HTTP://Example.org:80/a/../b?utm_source=x") == "http://example.org/b"
    assert headwater.Robots("User-agent: *\nDisallow: /x").allowed("headwater", "http://a.test/x") is False
    feed = b"<rss version='2.0'><channel><title>t</title><item><link>http://a.test/</link></item></channel></rss>"
    assert headwater.parse_feed(feed, url="http://a.test/f").entries[0].url == "http://a.test/"
    sitemap = b"<urlset><url><loc>http://a.test/b</loc></url></urlset>"
    assert [entry.url for entry in headwater.parse_sitemap(sitemap, url="http://a.test/s.xml")] == ["http://a.test/b"]
    page = "<html><title>t</title><body><article><p>" + "Rivers rise in hills. " * 20 + "</p></article></body></html>"
    assert headwater.extract_pdf(b"").status == "not_a_pdf"
    assert "Rivers rise" in headwater.extract_html(page, url="http://a.test/").text


@pytest.mark.parametrize(
    ("module", "late"),
    [
        ("headwater.cli", {"asyncpg", "lxml", "aiohttp", "fastapi", "trafilatura"}),
        ("headwater.app.operations", {"aiohttp", "fastapi", "trafilatura"}),
    ],
)
def test_a_command_does_not_import_unused_libraries(module: str, late: set[str]) -> None:
    """Spec 8.6: that would be half of the time it takes to start."""
    told = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout.split()
    assert module in loaded
    assert not late & {*loaded}
