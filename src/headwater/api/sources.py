"""Routes about sources."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query, Response

from headwater.api.common import ADMIN, IsoDay
from headwater.app.operations import Operations
from headwater.core.errors import BadRequest
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.core.record import record
from headwater.core.source import Method
from headwater.discovery.operations import RunRecord
from headwater.discovery.source_operations import AddedSource, DiscoveredSources, LiveSourceOperations, describe_added
from headwater.discovery.trial import TrialResult
from headwater.documents.upkeep import PurgeBegun, UpkeepOperations
from headwater.sources.health import SourceDetails, SourceHealth
from headwater.sources.kinds.site import IngestionMode
from headwater.sources.operations import EditedSource, ImportedSources, SourceFilter, SourcePage

_TAG = "sources"

Name = Annotated[str, Path(description="The name of a source.")]
Format = Annotated[Literal["yaml", "opml"], Query(alias="format", description="opml has only the feeds.")]


@record
class NewSource:
    """A source to add: a site by its address, any other kind by its name and settings."""

    kind: str = "site"
    """One of the installed kinds."""
    url: str | None = None
    """The address of a feed, or of a page of a site that has one. It is polled at once."""
    name: str | None = None
    """By default the host of the url."""
    mode: IngestionMode = "feed"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings that override the defaults of the kind."""


@record
class SourceChanges:
    """Changes to the settings of a source."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings with their new values."""
    unset: list[str] = field(default_factory=list)
    """Settings that return to their defaults."""


@record
class BackfillRequest:
    """The first day of a backfill."""

    since: IsoDay


@record
class SourceFile:
    """A list of sources as a file."""

    text: str
    """OPML or YAML."""
    dry_run: bool = False


@record
class SiteAddress:
    """The address of a site."""

    url: str


@record
class TrialTarget:
    """The subject of a trial."""

    target: str
    """A URL or the name of a source."""


def add_sources(app: FastAPI, operations: Operations) -> None:
    """Add the routes. A fixed path must precede a path with a name."""
    _add_fixed(app, operations.sources)
    _add_named(app, operations.sources, operations.upkeep)
    app.get("/sources/{name}/history", tags=[_TAG])(operations.history.sources.show)

    @app.post("/sources/{name}/sync", tags=[_TAG], status_code=202)
    async def sync(name: Name, method: Method | None = None) -> RunRecord:
        """Start to poll a source now, and return the run. `/ops/runs/ID` shows how it ends."""
        return await operations.begin_sync(name, method)


def _add_fixed(app: FastAPI, sources: LiveSourceOperations) -> None:
    @app.post("/sources/import", tags=[_TAG])
    async def import_sources(file: SourceFile) -> ImportedSources:
        """Add the sources of an OPML or YAML file. Entries that cannot be used are refused, the others are added."""
        return await sources.import_list(file.text.encode(errors="replace"), dry_run=file.dry_run)

    @app.get("/sources/export", tags=[_TAG], response_class=Response)
    async def export_sources(form: Format = "yaml") -> Response:
        """Return all sources as a file that can be imported."""
        if form == "yaml":
            return Response(await sources.export_yaml(), media_type="application/yaml")
        return Response((await sources.export_opml())[0], media_type="text/x-opml")

    @app.post("/sources/discover", tags=[_TAG])
    async def discover(address: SiteAddress) -> DiscoveredSources:
        """Return the feeds and sitemaps of a site. It saves nothing."""
        return await sources.discover(address.url)

    @app.post("/sources/test", tags=[_TAG])
    async def test(target: TrialTarget) -> TrialResult:
        """Test each stage from an address or a source to an extracted article. It saves nothing."""
        return await sources.test(target.target)

    @app.get("/sources", tags=[_TAG])
    async def list_sources(
        health: SourceHealth | None = None,
        category: str | None = None,
        name: Annotated[str | None, Query(description="A part of the name.")] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 500,
        after: Annotated[str | None, Query(max_length=100, description="The `next` of the page before.")] = None,
    ) -> SourcePage:
        """List the sources with their health, the worst first."""
        return await sources.list_page(SourceFilter(category, health, name), limit=limit, after=after)

    @app.post("/sources", tags=[_TAG], status_code=201)
    async def add(new: NewSource) -> AddedSource:
        """Add a source. A source with a url is polled at once, and is not added if that fails."""
        if new.url is None:
            if new.name is None:
                raise BadRequest("name: a source without a url needs one.")
            source = await sources.create(new.name, new.kind, new.settings)
            return describe_added(PollResult(source, Reason.POLLED), [])
        if new.kind != "site":
            raise BadRequest(f"url: a source of kind {new.kind} has none.")
        return await sources.add(new.url, new.name, new.settings, mode=new.mode)


def _add_named(app: FastAPI, sources: LiveSourceOperations, upkeep: UpkeepOperations) -> None:
    app.get("/sources/{name}", tags=[_TAG])(sources.show)
    app.delete("/sources/{name}", tags=[_TAG])(sources.remove)

    @app.post("/sources/{name}/purge", tags=[_TAG], status_code=202, dependencies=ADMIN)
    async def purge(name: Name) -> PurgeBegun:
        """Remove a source, and make the running program delete its items, URLs, documents and raw files."""
        return await upkeep.begin_purge(name)

    @app.patch("/sources/{name}", tags=[_TAG])
    async def edit(name: Name, changes: SourceChanges) -> EditedSource:
        """Change settings of a source, and return those that differ. If one cannot work, nothing is changed."""
        return await sources.edit(name, changes.settings, changes.unset)

    @app.post("/sources/{name}/enable", tags=[_TAG])
    async def enable(name: Name) -> SourceDetails:
        """Enable the polls of a source."""
        return await sources.set_enabled(name, enabled=True)

    @app.post("/sources/{name}/disable", tags=[_TAG])
    async def disable(name: Name) -> SourceDetails:
        """Disable the polls of a source until it is enabled."""
        return await sources.set_enabled(name, enabled=False)

    @app.post("/sources/{name}/backfill", tags=[_TAG], status_code=202)
    async def backfill(name: Name, backfill: BackfillRequest) -> SourceDetails:
        """Make the running program read the sitemaps of a source back to a day."""
        return await sources.request_backfill(name, backfill.since)
