"""The sources' routes: what is read, how it is doing, and what an operator changes about it."""

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query, Response

from headwater.api import source_shapes as shapes
from headwater.api.common import TOKEN
from headwater.app.operations import Operations
from headwater.core.errors import HeadwaterError
from headwater.core.poll import PollResult
from headwater.core.reasons import Reason
from headwater.discovery.source_operations import LiveSourceOperations

_TAG = "sources"

Name = Annotated[str, Path(description="A source's name.")]


def add_sources(app: FastAPI, operations: Operations) -> None:
    """Add the routes; those that read a file or look around come before those with a source's name in them."""
    _add_files(app, operations.sources)
    _add_looking(app, operations.sources)
    _add_rows(app, operations.sources)
    _add_deeds(app, operations.sources)


def _add_files(app: FastAPI, sources: LiveSourceOperations) -> None:
    @app.post("/sources/import", tags=[_TAG], dependencies=TOKEN)
    async def import_sources(given: shapes.SourceFile) -> shapes.ImportedSources:
        """Add the sources of an OPML or YAML file; what cannot be used is told, and the rest goes in."""
        imported = await sources.import_list(given.text.encode(errors="replace"), dry_run=given.dry_run)
        return shapes.ImportedSources(
            added=imported.added,
            known=imported.known,
            refused=[shapes.RefusedSource(**asdict(one)) for one in imported.refused],
            dry_run=given.dry_run,
        )

    @app.get("/sources/export", tags=[_TAG], response_class=Response)
    async def export_sources(
        form: Annotated[
            Literal["yaml", "opml"], Query(alias="format", description="opml has only the feeds.")
        ] = "yaml",
    ) -> Response:
        """Return all sources as a file that can be imported."""
        if form == "yaml":
            return Response(await sources.export_yaml(), media_type="application/yaml")
        return Response((await sources.export_opml())[0], media_type="text/x-opml")


def _add_looking(app: FastAPI, sources: LiveSourceOperations) -> None:
    @app.post("/sources/discover", tags=[_TAG], dependencies=TOKEN)
    async def discover(place: shapes.Place) -> shapes.Surroundings:
        """Look which feeds and sitemaps a site has; nothing is saved."""
        return shapes.Surroundings(**asdict(await sources.look_around(place.url)))

    @app.post("/sources/test", tags=[_TAG], dependencies=TOKEN)
    async def test(given: shapes.Target) -> shapes.TrialAnswer:
        """Walk each stage from an address or a source to a read article and tell what was found; nothing is saved."""
        stages: list[shapes.TrialStage] = []
        works = await sources.test(given.target, lambda stage: stages.append(shapes.TrialStage(**asdict(stage))))
        return shapes.TrialAnswer(works=works, stages=stages)


def _add_rows(app: FastAPI, sources: LiveSourceOperations) -> None:
    @app.get("/sources", tags=[_TAG])
    async def listed(health: shapes.HealthWord | None = None, category: str | None = None) -> shapes.Sources:
        """List the sources, the worst first, with how each is doing and why."""
        rows = await sources.listed(health=health, category=category)
        return shapes.Sources(sources=[shapes.SourceLine(**row) for row in rows])

    @app.post("/sources", tags=[_TAG], status_code=201, dependencies=TOKEN)
    async def add(new: shapes.NewSource) -> shapes.AddedSource:
        """Add a source. What has a url is read at once, and not added if that fails; others are read when due."""
        if new.url is None:
            if new.name is None:
                raise HeadwaterError("name: a source without a url needs one.", reason=Reason.BAD_REQUEST)
            source = await sources.create(new.name, new.kind, new.settings)
            return shapes.AddedSource(**shapes.told(PollResult(source, Reason.POLLED)), others=[])
        if new.kind != "site":
            raise HeadwaterError(f"url: a source of kind {new.kind} has none.", reason=Reason.BAD_REQUEST)
        added = await sources.add(new.url, new.name, new.settings, mode=new.mode)
        others = [shapes.FoundFeed(url=feed.url, title=feed.title) for feed in added.others]
        return shapes.AddedSource(**shapes.told(added.polled), others=others)

    @app.get("/sources/{name}", tags=[_TAG])
    async def show(name: Name) -> shapes.WholeSource:
        """Return all that is known of a source."""
        return shapes.WholeSource(**await sources.show(name))

    @app.patch("/sources/{name}", tags=[_TAG], dependencies=TOKEN)
    async def edit(name: Name, changes: shapes.SourceChanges) -> shapes.WholeSource:
        """Change settings of a source; what cannot work is refused, and nothing is changed then."""
        return shapes.WholeSource(**await sources.edit(name, changes.settings, changes.unset))

    @app.delete("/sources/{name}", tags=[_TAG], dependencies=TOKEN)
    async def remove(name: Name) -> shapes.RemovedSource:
        """Remove a source. What it has brought is kept; what waits to be fetched ends, not what is being fetched."""
        removed = await sources.remove(name)
        return shapes.RemovedSource(name=removed.name, kept=removed.kept, ended_urls=removed.ended)


def _add_deeds(app: FastAPI, sources: LiveSourceOperations) -> None:
    @app.post("/sources/{name}/enable", tags=[_TAG], dependencies=TOKEN)
    async def enable(name: Name) -> shapes.WholeSource:
        """Let a source be read again."""
        return shapes.WholeSource(**await sources.switch(name, enabled=True))

    @app.post("/sources/{name}/disable", tags=[_TAG], dependencies=TOKEN)
    async def disable(name: Name) -> shapes.WholeSource:
        """Read a source no more until it is enabled."""
        return shapes.WholeSource(**await sources.switch(name, enabled=False))

    @app.post("/sources/{name}/backfill", tags=[_TAG], status_code=202, dependencies=TOKEN)
    async def backfill(name: Name, wanted: shapes.BackfillRequest) -> shapes.WholeSource:
        """Let the running program read a source's sitemaps back to a day."""
        return shapes.WholeSource(**await sources.request_backfill(name, wanted.since))
