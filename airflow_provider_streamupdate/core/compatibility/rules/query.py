"""The rules for an app, for its queries, and for what applies to a query as a whole: watermarks."""

from __future__ import annotations

import attrs

from ...names import confused
from ...plan.expressions import Column
from ...plan.plan import AppPlan, QueryPlan, Watermark
from ..verdict import CARRIED, EMPTY, IGNORED, LOSS, REFUSED
from .rule import Facts, Rule, differ
from .sources.source_options import reads_the_same
from .stages.lone_stage import not_understood


@attrs.frozen(kw_only=True)
class AppChange:
    old: AppPlan
    new: AppPlan


@attrs.frozen(kw_only=True)
class QueryChange:
    """A query that both plans have."""

    old: QueryPlan
    new: QueryPlan

    @property
    def stateful(self) -> bool:
        return bool(self.old.stages and self.new.stages)


@attrs.frozen(kw_only=True)
class GoneQuery:
    """A query that only the old plan has. added: those that only the new plan has."""

    query: QueryPlan
    added: tuple[QueryPlan, ...] = ()


# Pairs of minor versions of Spark: the second can read what the first has written.
LATER = (("4.2", "4.3"),)


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _engines(c: AppChange, readable: bool) -> Facts | None:
    pair = (minor(c.old.spark_version), minor(c.new.spark_version))
    if pair[0] == pair[1] or (pair in LATER) != readable:
        return None
    return {"old": c.old.spark_version, "new": c.new.spark_version}


APP_RULES: tuple[Rule[AppChange], ...] = (
    Rule[AppChange](
        id="app.other",
        verdict=REFUSED,
        change="the saved state of another app",
        reason="the saved state belongs to app {old}; submit it as a new app instead",
        source="everything is identified by its name",
        applies=lambda c: differ(c.old.app, c.new.app),
    ),
    Rule[AppChange](
        id="app.texts",
        verdict=LOSS,
        change="a plan that another version of this package wrote, whose expressions tell less, or something else",
        reason="the saved plan's expressions have format version {old}, the new plan's {new}: equal expressions may "
        "mean different things. Restart the app with this version of the package (streamupdate restart), which plans "
        "it anew, and take a snapshot; or agree if only the package has changed",
        source="core/plan/plan.py: TEXTS",
        applies=lambda c: differ(c.old.version, c.new.version),
    ),
    Rule[AppChange](
        id="app.engine-later",
        verdict=CARRIED,
        change="a later minor version of Spark: 4.3 after 4.2 (a patch version is no change)",
        reason="the state was written by Spark {old}, which the new version's {new} can read",
        source="measured: every kind of stage continues, on every store and in both formats "
        "(tests/spark/test_golden.py)",
        tests=(
            "spark/test_golden.py::test_a_checkpoint_goes_on",
            "core/test_compatibility.py::test_which_spark_reads_the_state_of_which",
        ),
        applies=lambda c: _engines(c, True),
    ),
    Rule[AppChange](
        id="app.engine",
        verdict=REFUSED,
        change="an earlier minor version of Spark, or a later one that was not measured",
        reason="the state was written by Spark {old}, and the new version's Spark {new} is not known to read it; run "
        "it on the same minor version",
        source="no Spark version promises to read what a later one wrote: logs and state schemas have their own "
        "versions (MetadataVersionUtil.validateVersion), and recorded settings may exist in the later one only",
        tests=("core/test_compatibility.py::test_which_spark_reads_the_state_of_which",),
        applies=lambda c: _engines(c, False),
    ),
)


def _stages_not_understood(query: QueryPlan) -> Facts | None:
    found = {s.name: why for s in query.stages if (why := not_understood(s, query))}
    return {"stages": "; ".join(f"stage {name}: {why}" for name, why in found.items())} if found else None


NEW_QUERY_RULES: tuple[Rule[QueryPlan], ...] = (
    Rule[QueryPlan](
        id="query.new",
        verdict=EMPTY,
        change="a new query",
        reason="new query: starts from its source",
        source="each query has a checkpoint of its own",
        tests=("core/test_compatibility.py::test_sources_are_matched_by_name_and_a_query_starts_from_its_own",),
        applies=lambda c: {},
    ),
    Rule[QueryPlan](
        id="query.new-not-understood",
        verdict=REFUSED,
        change="a new query with a stage whose keys, aggregates or conditions are not understood",
        reason="no later update could carry its stages: {stages}",
        source="the rules for stages, applied to each stage as both the old and the new one",
        tests=("core/test_self_update.py::test_an_update_cannot_bring_what_no_update_could_carry",),
        applies=_stages_not_understood,
    ),
)


def _gone_query(c: GoneQuery) -> Facts:
    """Return the hint at new queries that read what it reads: one may be it, under another name."""
    same = [query.name for query in c.added if _read_the_same(c.query, query)]
    if not same:
        return {"hint": ""}
    return {
        "hint": f". The new query {' and '.join(same)} reads the same: if it is this one, keep the name "
        f'(@app.query("{c.query.name}")). As {" and ".join(same)} it reads everything again from its starting offsets, '
        "without state: what it writes to the same place as before is there twice"
    }


def _read_the_same(old: QueryPlan, new: QueryPlan) -> bool:
    return len(old.sources) == len(new.sources) and all(
        any(reads_the_same(before, source) for source in new.sources) for before in old.sources
    )


GONE_QUERY_RULES: tuple[Rule[GoneQuery], ...] = (
    Rule[GoneQuery](
        id="query.gone",
        verdict=IGNORED,
        change="a query that was removed or renamed",
        reason="the new version has no query with this name: its progress and state are left behind{hint}",
        source="queries are matched by name alone",
        tests=(
            "core/test_compatibility.py::test_a_loss_needs_agreement_by_its_name",
            "core/test_new_names.py::test_a_query_with_another_name",
        ),
        applies=_gone_query,
    ),
)


def _names(c: QueryChange) -> Facts | None:
    plans = (c.old, c.new)
    found = confused((s.name for q in plans for s in q.sources), (s.name for q in plans for s in q.stages))
    problems = list(found)
    return {"problems": "; ".join(problems)} if problems else None


NAME_RULES: tuple[Rule[QueryChange], ...] = (
    Rule[QueryChange](
        id="query.names",
        verdict=REFUSED,
        change="a name of a source or stage that can be mistaken for another one in either plan: a source with the "
        "name that a stage had, `orders.eu` beside `orders`",
        reason="{problems}: descriptions of state refer to sources and stages by name; choose another name",
        source="lineage.py writes a column's origin as name.column",
        tests=("core/test_names.py::test_names_that_are_read_as_another_one_are_refused",),
        applies=_names,
    ),
)


def _watermarks(c: QueryChange) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the watermarks before and after as (place, delay in ms): those on columns of sources that both plans have,
    with the stages below them that both plans have."""
    known = {s.name for s in c.old.sources} & {s.name for s in c.new.sources}
    stages = {s.name for s in c.old.stages} & {s.name for s in c.new.stages}

    def shared(query: QueryPlan) -> list[tuple[str, int]]:
        own = {s.name for s in query.sources} - known
        found = [attrs.evolve(w, above=tuple(s for s in w.above if s in stages)) for w in query.watermarks]
        return sorted((w.place, w.delay_ms) for w in found if not _of_one_version(w, own))

    return shared(c.old), shared(c.new)


def _of_one_version(watermark: Watermark, own: set[str]) -> bool:
    """Return whether it is on a source, or of a stage, that only one version has."""
    if watermark.column is None:
        return not watermark.above
    return isinstance(watermark.column, Column) and watermark.column.source in own


def _watermark_column(c: QueryChange) -> Facts | None:
    old, new = _watermarks(c)
    same = [column for column, _ in old] == [column for column, _ in new]
    return None if same or not c.stateful else differ(*([str(w) for w in q.watermarks] for q in (c.old, c.new)))


def _watermark_delay(c: QueryChange) -> Facts | None:
    old, new = _watermarks(c)
    if not c.stateful or old == new or [column for column, _ in old] != [column for column, _ in new]:
        return None
    pairs = [(o, n) for o, n in zip(old, new, strict=True) if o != n]
    return {
        "old": [f"{column} {delay / 1000:g} s" for (column, delay), _ in pairs],
        "new": [f"{column} {delay / 1000:g} s" for _, (column, delay) in pairs],
    }


WATERMARK_RULES: tuple[Rule[QueryChange], ...] = (
    Rule[QueryChange](
        id="watermark.column",
        verdict=REFUSED,
        change="a watermark on another column, one added or removed on the same source, or one moved across a stage",
        reason="watermark changed from {old} to {new}: state expires by event time, and the watermark that continues "
        "is the old column's",
        source="EventTimeWatermarkExec; the offset log carries one watermark forward",
        applies=_watermark_column,
    ),
    Rule[QueryChange](
        id="watermark.delay",
        verdict=LOSS,
        change="a longer or shorter delay of a watermark, or delays exchanged between branches; the delay by which a "
        "deduplication within a watermark expires is that of a union's first branch",
        reason="watermark delay changed from {old} to {new}: the new delay applies from now on. Rows that the old "
        "delay dropped as late stay dropped, and state that it removed or kept stays removed or kept (open windows, "
        "waiting rows of joins, keys of deduplications)",
        source="WatermarkTracker continues the logged watermark, which never goes back; "
        "StreamingDeduplicateWithinWatermarkExec stores the time of expiry; measured",
        tests=("spark/test_traps.py::test_a_watermark_delay",),
        applies=_watermark_delay,
    ),
)
