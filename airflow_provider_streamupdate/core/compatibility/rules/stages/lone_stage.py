"""The rules for a stage that only one of the plans has."""

from __future__ import annotations

import attrs

from ....plan.plan import QueryPlan, StagePlan
from ....plan.state_stores import NAMES, PROVIDER, ROCKSDB, column_families
from ...verdict import EMPTY, IGNORED, REFUSED, rename_way
from ..rule import Facts, Rule, judge
from .change import StageChange, means_the_same
from .stage import STAGE_RULES


@attrs.frozen(kw_only=True)
class LoneStage:
    """A stage that only one plan has.

    query: its query in the new plan
    added: of a stage that is gone, the stages that only the new plan has
    """

    stage: StagePlan
    query: QueryPlan
    added: tuple[StagePlan, ...] = ()


def _initial_state(c: LoneStage) -> Facts | None:
    return {} if getattr(c.stage.definition, "initial_state", False) else None


def _families_without_rocksdb(c: LoneStage) -> Facts | None:
    provider = c.query.stores.get(PROVIDER, ROCKSDB)
    return {"store": NAMES.get(provider, provider)} if column_families(c.stage) and provider != ROCKSDB else None


def not_understood(stage: StagePlan, query: QueryPlan) -> str | None:
    """Why an update without any change could not carry the stage; None when it could."""
    change = StageChange(old=stage, new=stage, before=query, after=query)
    return "; ".join(f.reason for f in judge(STAGE_RULES, change) if f.verdict == REFUSED) or None


def _not_understood(c: LoneStage) -> Facts | None:
    return {"why": why} if (why := not_understood(c.stage, c.query)) else None


def _hint_at_renames(c: LoneStage) -> Facts | None:
    hint = "" if c.stage.named else ": it had none; name it with stage() or .alias() so that it can be matched"
    alike = [s for s in c.added if s.named and s.kind == c.stage.kind]
    twins = [s for s in alike if means_the_same(c.stage, s)]
    evident = len(twins) == 1
    then = "carries its state: the new stage means the same" if evident else "compares the two, if it became this stage"
    old = f"{c.query.name}/{c.stage.name}"
    ways = [rename_way(old, stage.name, then, evident) for stage in (twins if evident else alike)]
    return {"hint": hint, "ways": tuple(ways)}


_LoneRule = Rule[LoneStage]

NEW_STAGE_RULES: tuple[Rule[LoneStage], ...] = (
    _LoneRule(
        id="stage.new",
        verdict=EMPTY,
        change="a new stage",
        reason="new stage: starts without state",
        source="measured: an empty store of the snapshot's version in every partition",
        tests=(
            "spark/test_restore_by_name.py::test_a_stage_added_above_a_running_one_starts_empty_and_the_other_keeps_its_state",
        ),
        applies=lambda c: {},
    ),
    _LoneRule(
        id="stage.new-not-understood",
        verdict=REFUSED,
        change="a new stage of a kind that is not understood, or whose keys, aggregates or conditions are not",
        reason="no later update could carry it, not even one without any change: {why}",
        source="the rules for stages, applied to the stage as both the old and the new one",
        tests=("core/test_self_update.py::test_an_update_cannot_bring_what_no_update_could_carry",),
        applies=_not_understood,
    ),
    _LoneRule(
        id="stage.new-initial-state",
        verdict=REFUSED,
        change="a new transformWithState with an initial state",
        reason="Spark reads an initial state in batch 0 only, and the query continues from a later batch, so the "
        "stage would start empty. Start the query without state, or let the first rows of a key set its state",
        source="IncrementalExecution: hasInitialState = currentBatchId == 0 && hasInitialState",
        applies=_initial_state,
    ),
    _LoneRule(
        id="stage.new-families",
        verdict=REFUSED,
        change="a new stage whose state needs column families (transformWithState; joins of state formats 3 and 4), "
        "in a query on the default store",
        reason="its state lies in column families, which only RocksDB has, and the query's is in {store}: set "
        f"{PROVIDER}={ROCKSDB}, which moves the state of its other stages, too",
        source="HDFSBackedStateStoreProvider.init refuses column families; found by the fuzz",
        tests=("core/test_stores.py::test_a_new_stage_that_needs_rocksdb_is_refused_without",),
        applies=_families_without_rocksdb,
    ),
)

GONE_STAGE_RULES: tuple[Rule[LoneStage], ...] = (
    _LoneRule(
        id="stage.gone",
        verdict=IGNORED,
        change="a stage that was removed, or renamed without --rename",
        reason="the new version has no stage with this name{hint}",
        source="state is matched by name alone",
        tests=("core/test_compatibility.py::test_a_loss_needs_agreement_by_its_name",),
        applies=_hint_at_renames,
    ),
)
