"""The rules for a stage that both plans have under the same name: those for every kind of stage, and the whole
table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from ....plan.expressions import Call, Expression
from ....plan.plan import RESTORABLE_KINDS, Path, StagePlan, in_order, parts
from ....plan.visitors import has_opaque_code, is_comparable, is_unknown
from ...verdict import CARRIED, LOSS, REFUSED
from ..rule import Facts, Rule, differences
from .change import StageChange, changed, means_the_same, of, watermarks_of_both
from .column_type import COLUMN_TYPE_RULES
from .function import FUNCTION_RULES
from .grouping import GROUPING_RULES
from .join import JOIN_RULES
from .layout import LAYOUT_RULES


def _same(c: StageChange) -> Facts | None:
    """Always applies: the only finding when no other rule does."""
    moved = "" if c.old.operator_id == c.new.operator_id else f", moved from {c.old.operator_id} to {c.new.operator_id}"
    return {"kind": c.new.kind, "where": f"operator {c.new.operator_id}{moved}"}


def _filters(c: StageChange) -> Facts | None:
    old, new = {*c.old.filters}, {*c.new.filters}
    return differences(("no longer", old - new), ("now", new - old))


def _uncomparable(expressions: Iterable[Expression]) -> set[Expression]:
    """Return expressions that can be equal without meaning the same."""
    return {each for each in expressions if not is_comparable(each)}


# Kinds whose state is never emitted again: it only says what has been seen.
_SILENT = ("deduplicate", "deduplicate-within-watermark")


def _hidden_filters(c: StageChange) -> Facts | None:
    gone = (({*c.old.filters} - {*c.new.filters}) | _uncomparable(c.old.filters)) & {*c.old.hidden}
    added = ({*c.new.hidden} - {*c.old.filters}) | _uncomparable(c.new.hidden)
    # An aggregation in update mode emits groups that get rows alone.
    update = c.new.kind == "aggregate" and c.after.output_mode == "update"
    if c.old.kind != c.new.kind or c.new.kind in _SILENT or update:
        added = set()
    return differences(("its state lacks the rows removed by", gone), ("its state has rows that are removed by", added))


def _unknown_kind(c: StageChange) -> Facts | None:
    strange = [s for s in (c.old, c.new) if s.kind not in RESTORABLE_KINDS]
    return {"kind": strange[0].kind, "operator": strange[0].operator} if strange else None


def _kind(c: StageChange) -> Facts | None:
    if (c.old.kind, c.old.operator) == (c.new.kind, c.new.operator):
        return None
    same = c.old.kind == c.new.kind
    return {"old": c.old.operator if same else c.old.kind, "new": c.new.operator if same else c.new.kind}


def _untraced(c: StageChange) -> Facts | None:
    for part, expressions in sorted(c.new.expressions.items()):
        if found := [each for each in expressions if is_unknown(each) or (part != "code" and has_opaque_code(each))]:
            return {"part": part, "text": found[0]}
    return None


def _ambiguous(c: StageChange) -> Facts | None:
    """Two unnamed stages that mean the same differ only in their position, which may have changed."""
    if c.new.named or c.old.below == c.new.below:
        return None
    twins = [
        s.name
        for query in (c.before, c.after)
        for s in query.stages
        if s.name != c.new.name and not s.named and (s.kind, s.definition) == (c.new.kind, c.new.definition)
    ]
    return {"others": ", ".join(dict.fromkeys(twins))} if twins else None


def _exchanged(c: StageChange) -> Facts | None:
    """Another stage means now what this one meant, and it did not before: the names may have changed places."""
    if means_the_same(c.old, c.new):
        return None
    others = [s for s in c.after.stages if s.name != c.new.name and means_the_same(c.old, s)]
    before = {s.name: s for s in c.before.stages}
    moved = [s.name for s in others if s.name not in before or not means_the_same(before[s.name], s)]
    return {"others": ", ".join(moved)} if moved else None


def _arrivals(c: StageChange) -> Facts | None:
    old, new = Counter(c.old.arrivals), Counter(c.new.arrivals)
    gone, added = _but_keys(c, old - new, new - old)
    if _other_watermarks(c):
        gone, added = (Counter({e: n for e, n in each.items() if not _event_time(e)}) for each in (gone, added))
    strange = _uncomparable(c.new.arrivals)
    return differences(
        ("no longer", gone.elements()), ("now", added.elements()), ("not known to be the same:", strange)
    )


_Counts = Counter[Expression]


def _but_keys(c: StageChange, gone: _Counts, added: _Counts) -> tuple[_Counts, _Counts]:
    """Return both without event times that are replaced keys: the rules for keys report those."""
    before, after = {*c.old.keys}, {*c.new.keys}
    replaced = [
        Counter({each: n for each, n in found.items() if _event_time(each) in own})
        for found, own in ((gone, before - after), (added, after - before))
    ]
    if replaced[0].total() != replaced[1].total():
        return gone, added
    return gone - replaced[0], added - replaced[1]


def _event_time(arrival: Expression) -> Expression | None:
    """Return the column whose event time a stage's state goes by (streaming/planning/lineage/arrivals.py)."""
    return arrival.arguments[0] if isinstance(arrival, Call) and arrival.function == "event time" else None


def _other_watermarks(c: StageChange) -> bool:
    """Return whether the rules for watermarks report another column of what is late (rules/query.py). Above which
    stages a watermark is decides which of them drop late rows, which they do not say."""
    old, new = watermarks_of_both(c.before, c.after)
    return [attrs.evolve(w, above=()).place for w in old] != [attrs.evolve(w, above=()).place for w in new]


def _late_rows(c: StageChange) -> Facts | None:
    if c.old.kind != c.new.kind or _other_watermarks(c):
        return None
    old, new = Counter(c.old.late_rows), Counter(c.new.late_rows)
    return differences(
        ("it no longer drops late rows", (old - new).elements()),
        ("it now drops late rows", (new - old).elements()),
        ("it is not known to drop the same late rows", _uncomparable(c.new.late_rows)),
    )


def _other_paths(c: StageChange) -> Facts | None:
    """The facts when something that both plans have is on another path of rows, or on the other side of a watermark.
    Sources and stages are compared (compatibility.py has left out those that only one plan has); a filter that only one
    plan has applies to rows from now on, and is not."""
    both, ordered = _on_them(c.old.paths) & _on_them(c.new.paths), not _other_watermarks(c)
    old, new = (Counter(_compared(path, both, ordered) for path in paths) for paths in (c.old.paths, c.new.paths))
    gone, added = in_order((old - new).elements()), in_order((new - old).elements())
    return {"old": gone, "new": added} if gone or added else None


def _on_them(paths: Iterable[Path]) -> set[Expression]:
    return {step.expression for path in paths for step in path.steps}


def _compared(path: Path, both: set[Expression], ordered: bool) -> Path:
    """Return the path with the steps that both plans have. ordered: on which side of a watermark they are counts"""
    steps = (step if ordered else attrs.evolve(step, late=False) for step in path.steps if step.expression in both)
    return attrs.evolve(path, steps=tuple(steps))


# The parts of a stage's definition that are in each of its columns: the stage above compares those itself.
_IN_COLUMNS = ("aggregates",)


def _other_rows(old: StagePlan, new: StagePlan) -> list[str]:
    """Return the changed parts of a definition that make it give other rows, or more or fewer. Keys in another order
    give the same."""
    before, after = parts(old.definition), parts(new.definition)
    changes = sorted(name for name in {*before, *after} - {*_IN_COLUMNS} if before.get(name) != after.get(name))
    return [name for name in changes if name != "keys" or in_order(old.keys) != in_order(new.keys)]


def _upstream(c: StageChange) -> Facts | None:
    changes = []
    for name in sorted({name for path in c.new.paths for name in path.stages}):
        old, new = c.before.stage(name), c.after.stage(name)
        if old is None or new is None:
            continue
        if found := ["kind"] if old.kind != new.kind else _other_rows(old, new):
            changes.append(f"{name} ({', '.join(found)})")
    return {"changes": "; ".join(changes)} if changes else None


_StageRule = Rule[StageChange]

STAGE_RULES: tuple[Rule[StageChange], ...] = (
    _StageRule(
        id="stage.same",
        verdict=CARRIED,
        change="nothing that its state depends on: code around it, aliases of keys and aggregates, filters and "
        "projections that do not change their meaning, its position among the stages, other stages around it",
        reason="same {kind} ({where})",
        source="measured: no state byte is rewritten; its files are moved to the new operator id",
        tests=(
            "spark/test_restore_by_name.py::test_an_unchanged_stage_keeps_its_state",
            "spark/test_restore_by_name.py::test_a_rename_of_columns_is_no_change",
        ),
        applies=_same,
    ),
    _StageRule(
        id="stage.filters",
        verdict=CARRIED,
        change="a filter below it added, changed or removed: the new one applies to rows from now on",
        reason="rows from now on are filtered differently: {changes}; its state holds the rows that came before",
        source="Structured Streaming guide, Recovery semantics after changes in a streaming query: allowed",
        tests=("spark/test_restore_by_name.py::test_an_added_filter_is_no_change",),
        applies=_filters,
    ),
    _StageRule(
        id="stage.rows",
        verdict=LOSS,
        change="what turns each row below it into other rows, or into more or fewer: a join with a table (its kind, "
        "condition and rows), a semi join (`in`, `exists`), `explode`, a union of a source with itself, a join of "
        "streams, a function of whole batches; or whether its event time has a watermark",
        reason="it receives other rows: {changes}; its state holds the rows that came before",
        source="measured: Spark restarts, and the state has another number of rows than the new version would have "
        "made",
        tests=("spark/test_pairs.py::test_what_decides_a_result_is_not_carried_and_a_version_is_itself",),
        applies=_arrivals,
    ),
    _StageRule(
        id="stage.late-rows",
        verdict=LOSS,
        change="whether the stage drops rows that come behind the watermark, and by which column they are late: it "
        "goes by the column with an event time that reaches it, and the optimizer removes a column that nothing above "
        "the stage reads (a `select` without it above a deduplication by other columns)",
        reason="{changes}. The optimizer removes a column that nothing above the stage reads: read the column above "
        "the stage to have late rows dropped by it",
        source="WatermarkSupport.findEventTimeColumn, OneSideHashJoiner: the event time is looked for in the input's "
        "columns; measured: a late row that was dropped before is emitted (of the kind of SPARK-58979)",
        tests=(
            "spark/test_late_rows.py::test_whether_late_rows_are_dropped_is_agreed_to",
            "spark/test_late_rows.py::test_by_which_column_rows_are_late_is_agreed_to",
        ),
        applies=_late_rows,
    ),
    _StageRule(
        id="stage.ways",
        verdict=LOSS,
        change="the same filters, joins with tables or stages on another path of its rows: on another branch of a "
        "union of one source, in another order of stages that drop rows (deduplications, limits), or across a "
        "watermark (what is above it drops rows that have advanced it)",
        reason="rows reach it on other paths: no longer {old}; now {new}; its state, and the watermark that "
        "continues, come from the rows before",
        source="EventTimeWatermarkExec counts the rows that reach it; StreamingDeduplicateExec and "
        "StreamingGlobalLimitExec keep the rows that reached them; measured: rows dropped as late for good",
        tests=("spark/test_pairs.py::test_what_decides_a_result_is_not_carried_and_a_version_is_itself",),
        applies=_other_paths,
    ),
    _StageRule(
        id="stage.upstream",
        verdict=LOSS,
        change="another stage below it, whose rows it receives, has other keys, another window or condition, or other "
        "code, even if that stage is migrated or agreed to. Aggregates added, removed or reordered there do not count",
        reason="it receives other rows from stage {changes}, which changes; its state holds the rows that came before",
        source="measured: an aggregation that loses a key is migrated, and the count above it holds groups of the old "
        "keys",
        tests=("spark/test_upstream.py::test_a_stage_above_one_that_gives_other_rows_is_agreed_to",),
        applies=_upstream,
    ),
    _StageRule(
        id="stage.hidden-filter",
        verdict=LOSS,
        change="a filter added, changed or removed that is written above the stage, or follows from a join's "
        "condition, and that the optimizer moves below it (above an inner join, above the keys of an aggregation or a "
        "distinct). Not one added above a deduplication, or an aggregation in update mode, which never emits what it "
        "has kept",
        reason="{changes}. The optimizer moves filters that are written above the stage below it: results that need "
        "missing rows will be missing, and those with others are still emitted",
        source="PushPredicateThroughJoin, PushPredicateThroughNonJoin, InferFiltersFromConstraints; found by make fuzz",
        tests=(
            "spark/test_hidden_filters.py::test_what_a_filter_above_kept_out_of_the_state_is_a_loss",
            "spark/test_hidden_filters.py::test_what_a_filter_above_would_keep_out_is_in_the_state",
        ),
        applies=_hidden_filters,
    ),
    _StageRule(
        id="stage.unknown-kind",
        verdict=REFUSED,
        change="a kind of stage that is not understood (flatMapGroupsWithState ...)",
        reason="state of a {kind} stage ({operator}) is not understood yet",
        source="this package has no description of its state",
        tests=("core/test_compatibility.py::test_stages_are_matched_by_name",),
        applies=_unknown_kind,
    ),
    _StageRule(
        id="stage.kind",
        verdict=REFUSED,
        change="another kind of stage under the same name, e.g. a sliding window becomes a session window",
        reason="kind of stage changed from {old} to {new}",
        restart=True,
        source="the operators' stores hold different rows; Spark checks the operator's name (OperatorStateMetadata)",
        tests=("spark/test_pairs.py::test_what_decides_a_result_is_not_carried_and_a_version_is_itself",),
        applies=_kind,
    ),
    *GROUPING_RULES,
    *JOIN_RULES,
    _StageRule(
        id="stage.limit",
        verdict=LOSS,
        change="another number of rows of a limit",
        reason="limit changed from {old} to {new} rows: rows that came after the old limit was reached are lost, and "
        "rows emitted beyond a lower new limit stay",
        source="StreamingGlobalLimitExec: the state is the number of rows so far",
        applies=of("limit")(changed("rows")),
    ),
    *COLUMN_TYPE_RULES,
    *FUNCTION_RULES,
    _StageRule(
        id="stage.untraced",
        verdict=REFUSED,
        change="keys, aggregates or conditions that cannot be traced to source columns, that depend on the current "
        "time (`current_timestamp`), or on a Python or JVM function whose code cannot be compared (comparable Python "
        "code counts as part of the key: the same code is carried, other code is another key)",
        reason="{part} could not be traced to the source ({text}), or depend on a function whose code cannot be "
        "compared; use columns of the source and Spark's functions",
        source="equal texts do not compare what they omit; ComputeCurrentTime and CurrentBatchTimestamp: a running "
        "query's plan has other keys than a dry run's (measured)",
        tests=(
            "spark/test_lookups.py::test_a_table_of_an_rdd_is_refused_by_name",
            "spark/test_refused.py::test_a_key_that_asks_for_the_time_is_refused",
            "spark/test_pairs.py::test_what_decides_a_result_is_not_carried_and_a_version_is_itself",
        ),
        agreeable=True,
        applies=_untraced,
    ),
    _StageRule(
        id="stage.ambiguous",
        verdict=REFUSED,
        change="unnamed stages that mean the same and differ only in position, in a changed plan",
        reason="it has no name and means the same as {others}, and the plan below it changed: only their positions "
        "differ, and these may have changed; name them with stage() or .alias()",
        source="operator ids are given by position (IncrementalExecution)",
        tests=("core/test_compatibility.py::test_stages_are_matched_by_name",),
        applies=_ambiguous,
    ),
    _StageRule(
        id="stage.exchanged",
        verdict=LOSS,
        change="another stage now means what this one meant, so that their names may have been exchanged",
        reason="{others} now means what it meant: if their names changed places, each would go on with the other's "
        "state. Agree if the state under this name is to go on with other rows",
        source="state is found by name; measured: two stages with other filters gave each other's numbers",
        tests=("spark/test_exchanged_names.py::test_a_name_that_moves_to_the_other_of_two_stages",),
        applies=_exchanged,
    ),
    *LAYOUT_RULES,
)
