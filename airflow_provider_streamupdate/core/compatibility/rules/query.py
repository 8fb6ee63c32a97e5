"""The rules for an app, for its queries, and for what applies to a query as a whole: watermarks."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ...clock import duration
from ...names import confused
from ...plan.expressions import Expression, Union
from ...plan.plan import AppPlan, QueryPlan, Watermark
from ...plan.rendering import words
from ...plan.visitors import references
from ..verdict import CARRIED, EMPTY, IGNORED, LOSS, REFUSED
from .rule import Facts, Rule, differ
from .sources.source_options import reads_the_same
from .stages.change import watermarks_of_both
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


# The later minor versions of Spark that can read what one has written.
LATER = {"4.0": ("4.1", "4.2", "4.3"), "4.1": ("4.2", "4.3"), "4.2": ("4.3",)}


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _engines(c: AppChange, readable: bool) -> Facts | None:
    old, new = minor(c.old.spark_version), minor(c.new.spark_version)
    if old == new or (new in LATER.get(old, ())) != readable:
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
        reason="equal expressions of the saved plan (format version {old}) and of the new one ({new}) may mean other "
        "things. Restart the app with this version of the package (streamupdate restart), which plans it anew, and "
        "take a snapshot; or agree if only the package has changed",
        source="core/plan/plan.py: TEXTS",
        applies=lambda c: differ(c.old.version, c.new.version),
    ),
    Rule[AppChange](
        id="app.engine-later",
        verdict=CARRIED,
        change="a later minor version of Spark (a patch version is no change): "
        + "; ".join(f"{', '.join(later)} after {old}" for old, later in LATER.items()),
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
        f'(@app.query("{c.query.name}"), or queryName). As {" and ".join(same)} it reads everything again from its '
        "starting offsets, without state: what it writes to the same place as before is there twice"
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


def _checkpoint(c: QueryChange) -> Facts | None:
    return differ(c.old.checkpoint, c.new.checkpoint) if c.old.checkpoint and c.new.checkpoint else None


NAME_RULES: tuple[Rule[QueryChange], ...] = (
    Rule[QueryChange](
        id="query.checkpoint",
        verdict=CARRIED,
        change="another checkpointLocation in a script",
        reason="checkpointLocation changed from {old} to {new}, which is not used here: the query continues. To begin "
        "anew, give it another queryName",
        source="each deployment has checkpoints of its own (docs/scripts.md)",
        applies=_checkpoint,
    ),
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


def _watermarks(c: QueryChange) -> tuple[list[Watermark], list[Watermark]] | None:
    """Return the watermarks that both versions may have, before and after; None where the query has no state."""
    return watermarks_of_both(c.old, c.new) if c.stateful else None


def _watermark_added(c: QueryChange) -> Facts | None:
    old, new = _watermarks(c) or ([], [])
    return {"new": _places(new)} if new and not old else None


def _watermark_removed(c: QueryChange) -> Facts | None:
    old, new = _watermarks(c) or ([], [])
    return {"old": _places(old)} if old and not new else None


def _watermark_column(c: QueryChange) -> Facts | None:
    old, new = _watermarks(c) or ([], [])
    same = [w.place for w in old] == [w.place for w in new]
    if same or not old or not new:
        return None
    return differ(_places(old), _places(new)) or differ(_places(old, str), _places(new, str))


_WITHIN = "deduplicate-within-watermark"


def _shorter_delay(c: QueryChange) -> Facts | None:
    return _delays(c, False)


def _longer_delay(c: QueryChange) -> Facts | None:
    return _delays(c, True)


def _delays(c: QueryChange, longer: bool) -> Facts | None:
    """Return what changed where one of the delays became longer, or is part of what is kept, or where none did."""
    old, new = _watermarks(c) or ([], [])
    if [w.place for w in old] != [w.place for w in new]:
        return None
    pairs = [(o, n) for o, n in zip(old, new, strict=True) if o.delay_ms != n.delay_ms]
    stored = any(stage.kind == _WITHIN for stage in c.new.stages)  # its keys hold the time when they expire
    if not pairs or longer != (stored or any(n.delay_ms > o.delay_ms for o, n in pairs)):
        return None
    changes = [f"{o.describe(words)}: {_delay(o)} -> {_delay(n)}" for o, n in pairs]
    return {"changes": ", ".join(changes), "old": _places([o for o, _ in pairs]), "new": _places([n for _, n in pairs])}


def _places(watermarks: list[Watermark], write: Callable[[Expression], str] = words) -> list[str]:
    return [f"{w.describe(write)} {_delay(w)}" for w in watermarks]


def _delay(watermark: Watermark) -> str:
    return duration(watermark.delay_ms * 1000)


def _watermark_of_a_new_source(c: QueryChange) -> Facts | None:
    """Return the new sources that share a watermark with those of before."""
    before = {s.name for s in c.old.sources}
    columns = [w.column for w in c.new.watermarks if isinstance(w.column, Union)]
    read = [references(column) for column in columns if references(column) & before]
    names = sorted({s.name for s in c.new.sources if s.name not in before and any(s.name in each for each in read)})
    return {"sources": ", ".join(names)} if names and c.stateful else None


WATERMARK_RULES: tuple[Rule[QueryChange], ...] = (
    Rule[QueryChange](
        id="watermark.added",
        verdict=LOSS,
        change="a watermark on a source that had none",
        reason="it has a watermark from now on: {new}. Rows behind it are dropped, and state behind it is removed (in "
        "mode append: emitted first), that of before as well",
        source="OffsetSeqMetadata: without a watermark the log carries 0 forward; measured",
        tests=("spark/test_watermark_changes.py::test_what_each_change_of_a_watermark_loses",),
        applies=_watermark_added,
    ),
    Rule[QueryChange](
        id="watermark.removed",
        verdict=LOSS,
        change="a watermark removed",
        reason="it no longer has the watermark {old}: state is kept for ever, late rows count again, and groups that "
        "were removed begin anew",
        source="WatermarkSupport: without an event time nothing is evicted; measured",
        tests=("spark/test_watermark_changes.py::test_what_each_change_of_a_watermark_loses",),
        applies=_watermark_removed,
    ),
    Rule[QueryChange](
        id="watermark.column",
        verdict=LOSS,
        change="a watermark on another column, one more or less beside others, or one moved across a stage",
        reason="watermark changed from {old} to {new}: the time that the old one reached continues. Rows whose new "
        "event time is behind it are dropped until the new column has passed it",
        source="EventTimeWatermarkExec; WatermarkTracker never goes back: the offset log carries one watermark "
        "forward; measured",
        tests=("spark/test_watermark_changes.py::test_what_each_change_of_a_watermark_loses",),
        applies=_watermark_column,
    ),
    Rule[QueryChange](
        id="watermark.new-source",
        verdict=CARRIED,
        change="another source in a union below a watermark",
        reason="the watermark continues for the new source {sources}, too: its rows behind it are late",
        source="EventTimeWatermarkExec takes the latest event time of all rows that reach it; measured",
        tests=("spark/test_watermark_changes.py::test_another_source_below_a_watermark",),
        applies=_watermark_of_a_new_source,
    ),
    Rule[QueryChange](
        id="watermark.shorter-delay",
        verdict=CARRIED,
        change="a shorter delay of a watermark: rows are late, and state is finished, by the new one from now on",
        reason="watermark delay changed ({changes}): rows are late, and state is finished, by the shorter one from now "
        "on; what the longer one has let in stays",
        source="EventTimeWatermarkExec: latest event time less the delay; StreamingDeduplicateWithinWatermarkExec "
        "stores the time of expiry; measured",
        tests=("spark/test_traps.py::test_a_shorter_delay_of_a_watermark",),
        applies=_shorter_delay,
    ),
    Rule[QueryChange](
        id="watermark.delay",
        verdict=LOSS,
        change="a longer delay of a watermark, or delays exchanged between branches; the delay by which a "
        "deduplication within a watermark expires is that of a union's first branch",
        reason="watermark delay changed ({changes}): the new one applies from now on. Rows that the old one dropped as "
        "late stay dropped, and state that it removed or kept stays removed or kept (open windows, waiting rows of "
        "joins, keys of deduplications)",
        source="WatermarkTracker continues the logged watermark, which never goes back; "
        "StreamingDeduplicateWithinWatermarkExec stores the time of expiry; measured",
        tests=("spark/test_traps.py::test_a_watermark_delay",),
        applies=_longer_delay,
    ),
)
