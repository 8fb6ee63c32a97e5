"""The rules for an app, for its queries, and for what holds for a query as a whole: watermarks."""

from __future__ import annotations

import re

import attrs

from ...names import confused
from ...plan.plan import AppPlan, QueryPlan
from ..report import CARRIED, EMPTY, IGNORED, LOSS, REFUSED
from .rule import Facts, Rule, differ
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


# Minor versions of Spark: what the first has written the second can read.
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
        source="names are the identity of everything here",
        tests=("core/test_compatibility.py::test_another_app_is_refused",),
        applies=lambda c: differ(c.old.app, c.new.app),
    ),
    Rule[AppChange](
        id="app.texts",
        verdict=LOSS,
        change="a plan that another version of this package wrote, whose texts hold less, or are written otherwise",
        reason="the saved plan has descriptions of version {old}, and the new version's are of {new}: equal ones need "
        "not mean the same; start the app again with this version of the package (streamupdate restart), which "
        "describes it anew, and take a snapshot; or agree when nothing but the package has changed",
        source="core/plan/plan.py: TEXTS",
        tests=("core/test_compatibility.py::test_a_plan_of_another_version_of_this_package_is_agreed_to",),
        applies=lambda c: differ(c.old.version, c.new.version),
    ),
    Rule[AppChange](
        id="app.engine-later",
        verdict=CARRIED,
        change="a later minor version of Spark: 4.3 after 4.2 (a patch version is no change)",
        reason="the state was written by Spark {old}, which the new version's {new} can read",
        source="measured: every kind of stage goes on, on every store and in both formats (tests/spark/test_golden.py)",
        tests=(
            "spark/test_golden.py::test_a_checkpoint_goes_on",
            "core/test_compatibility.py::test_a_later_spark_that_is_known_to_read_the_state_goes_on_with_it",
        ),
        applies=lambda c: _engines(c, True),
    ),
    Rule[AppChange](
        id="app.engine",
        verdict=REFUSED,
        change="an earlier minor version of Spark, or one that was not measured",
        reason="the state was written by Spark {old} and the new version runs on {new}, which is no later Spark that "
        "is known to read it; run it on the same minor version",
        source="no Spark promises to read what a later one wrote: logs and state schemas have versions of their own "
        "(MetadataVersionUtil.validateVersion), and settings that are recorded are known to the later one only",
        tests=("core/test_compatibility.py::test_a_spark_that_is_not_known_to_read_the_state_is_refused",),
        applies=lambda c: _engines(c, False),
    ),
)


def _stages_not_understood(query: QueryPlan) -> Facts | None:
    found = {s.name: why for s in query.stages if (why := not_understood(s, query))}
    return {"stages": "; ".join(f"its stage {name}: {why}" for name, why in found.items())} if found else None


NEW_QUERY_RULES: tuple[Rule[QueryPlan], ...] = (
    Rule[QueryPlan](
        id="query.new",
        verdict=EMPTY,
        change="a new query",
        reason="new query: starts from its source",
        source="each query has a checkpoint of its own",
        tests=("core/test_compatibility.py::test_a_new_query_starts_from_its_source",),
        applies=lambda c: {},
    ),
    Rule[QueryPlan](
        id="query.new-not-understood",
        verdict=REFUSED,
        change="a new query with a stage whose keys, aggregates or conditions are not understood",
        reason="no later update could carry {stages}",
        source="the rules for stages, applied to each stage and itself",
        tests=("core/test_self_update.py::test_an_update_cannot_bring_what_no_update_could_carry",),
        applies=_stages_not_understood,
    ),
)

GONE_QUERY_RULES: tuple[Rule[QueryPlan], ...] = (
    Rule[QueryPlan](
        id="query.gone",
        verdict=IGNORED,
        change="a query that is gone or has another name",
        reason="the new version has no such query: its progress and state are left",
        source="queries are matched by name alone",
        tests=("core/test_compatibility.py::test_a_removed_query_needs_agreement",),
        applies=lambda c: {},
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
        change="a name of a source or stage that can be read as another one's, of the old plan or of the new one: a "
        "source where a stage had the name, `orders.eu` beside `orders`",
        reason="{problems}: the descriptions of state refer to sources and stages by their names; choose another name",
        source="lineage.py writes what a column comes from as name.column",
        tests=("core/test_names.py::test_names_that_are_read_as_another_one_are_refused",),
        applies=_names,
    ),
)

_DELAY = re.compile(r"(?P<column>.*) delayed by (?P<delay>\d+) ms")


def _watermarks(c: QueryChange) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """(column, delay in ms) before and after, for columns of sources that both plans have. A column is followed by the
    stages below the watermark, of those that both plans have."""
    known = {s.name for s in c.old.sources} & {s.name for s in c.new.sources}
    stages = {s.name for s in c.old.stages} & {s.name for s in c.new.stages}

    def shared(query: QueryPlan) -> list[tuple[str, int]]:
        found = [m for text in query.watermarks if (m := _DELAY.fullmatch(text))]
        pairs = [(_above(m["column"], stages), int(m["delay"])) for m in found]
        own = {s.name for s in query.sources} - known
        return [p for p in pairs if not any(p[0].startswith(f"{name}.") for name in own)]

    return shared(c.old), shared(c.new)


def _above(column: str, stages: set[str]) -> str:
    name, *above = column.split(", above ")
    return ", above ".join([name, *(stage for stage in above if stage in stages)])


def _watermark_column(c: QueryChange) -> Facts | None:
    old, new = _watermarks(c)
    same = [column for column, _ in old] == [column for column, _ in new]
    return None if same or not c.stateful else differ(c.old.watermarks, c.new.watermarks)


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
        change="another column with a watermark, a watermark more or fewer on the same source, or the same one moved "
        "across a stage",
        reason="watermark changed from {old} to {new}: the state is removed by its event times, and the watermark that "
        "continues was the old column's",
        source="EventTimeWatermarkExec; the offset log carries one watermark on",
        tests=("core/test_compatibility.py::test_another_watermark_column_is_refused",),
        applies=_watermark_column,
    ),
    Rule[QueryChange](
        id="watermark.delay",
        verdict=LOSS,
        change="another delay of a watermark, up or down",
        reason="watermark delay changed from {old} to {new}: rows that the old delay dropped as late, or state it "
        "removed or kept before the update, stay dropped, removed and kept (open windows, waiting rows of joins, keys "
        "of deduplications); the new delay holds for what comes after",
        source="WatermarkTracker continues the logged watermark, which never goes back; "
        "StreamingDeduplicateWithinWatermarkExec stores the time of expiry; measured",
        tests=("spark/test_traps.py::test_a_watermark_delay",),
        applies=_watermark_delay,
    ),
)
