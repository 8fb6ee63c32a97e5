"""The rules for the state stores of a stage that continues: another provider, another number of partitions."""

from __future__ import annotations

from ....checkpoint.join_state import UNKNOWN_SIDES, sides_known
from ....plan.state_stores import (
    NAMES,
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    column_families,
    other_partitions,
    other_provider,
)
from ....plan.visitors import calls
from ...verdict import LOSS, MIGRATED, REFUSED
from ..rule import Facts, Rule
from .change import StageChange

_LOG = (
    "OffsetSeqMetadata.relevantSQLConfs: the offset log's value wins over the session's, which Spark ignores silently"
)


def _providers(c: StageChange) -> Facts | None:
    old, new = c.before.stores, c.after.stores
    if not other_provider(old, new):
        return None
    return {"old": _name(old.get(PROVIDER)), "new": _name(new.get(PROVIDER))}


def _name(provider: str | None) -> str:
    return NAMES.get(provider or "", provider or "a provider that the offset log does not name")


def _provider_refused(c: StageChange) -> Facts | None:
    if (facts := _providers(c)) is None:
        return None
    if not {c.before.stores.get(PROVIDER), c.after.stores.get(PROVIDER)} <= set(NAMES):
        return {**facts, "why": "rows cannot be moved between these"}
    if (column_families(c.old) or column_families(c.new)) and c.after.stores.get(PROVIDER) != ROCKSDB:
        return {**facts, "why": "the stage keeps it in column families, which only RocksDB has"}
    return None


def _partitions(c: StageChange) -> Facts | None:
    old, new = c.before.stores, c.after.stores
    return {"old": old.get(PARTITIONS), "new": new.get(PARTITIONS)} if other_partitions(c.new, old, new) else None


# What depends on the number of partitions without naming it: functions, and how rows are shared out below them.
_LOOKS = ("sparkpartitionid", "monotonicallyincreasingid")
_SHARED_OUT = ("repartition", "rebalance")


def _depends_on_partitions(c: StageChange) -> Facts | None:
    """The facts when the partitions of rows change and the query depends on them."""
    every = (*(each for part in c.new.expressions.values() for each in part), *c.new.arrivals, *c.new.filters)
    functions = {call.function for expression in every for call in calls(expression)}
    looks = any(name in _LOOKS or name.startswith(_SHARED_OUT) for name in functions)
    return _partitions(c) if looks else None


def _partitions_refused(c: StageChange) -> Facts | None:
    if (facts := _partitions(c)) is None:
        return None
    if not all(str(n).isdigit() and int(n) > 0 for n in facts.values()):
        return {**facts, "why": "give a whole number above 0"}
    if c.new.kind == "join" and column_families(c.new) and not sides_known(c.new):
        return {**facts, "why": UNKNOWN_SIDES}
    return None


STORE_RULES: tuple[Rule[StageChange], ...] = (
    Rule[StageChange](
        id="store.provider",
        verdict=MIGRATED,
        change="another state store provider (`spark.sql.streaming.stateStore.providerClass`, where it is set): the "
        "default store or RocksDB",
        reason="state moves from {old} to {new}: every row is rewritten",
        source=_LOG,
        applies=lambda c: None if _provider_refused(c) else _providers(c),
        tests=(
            "spark/test_stores.py::test_every_kind_of_stage_moves_between_stores_and_partitions",
            "spark/test_stores.py::test_totals_go_on_in_the_default_store",
        ),
    ),
    Rule[StageChange](
        id="store.provider-refused",
        verdict=REFUSED,
        change="a state store provider other than these two; or a change to the default store, for a stage whose state "
        "is in column families (transformWithState; joins of state formats 3 and 4)",
        reason=f"state cannot move from {{old}} to {{new}}: {{why}}; leave {PROVIDER} as it was",
        source="this package has no description of other providers' files; HDFSBackedStateStoreProvider.init refuses "
        "column families",
        applies=_provider_refused,
        tests=(
            "core/test_stores.py::test_settings_that_are_not_understood_are_refused",
            "spark/test_stores.py::test_what_cannot_move_is_refused_by_the_check",
        ),
    ),
    Rule[StageChange](
        id="store.partitions",
        verdict=MIGRATED,
        change="another number of state partitions (`spark.sql.shuffle.partitions`, where it is set); a stage with "
        "all rows in one partition stays unchanged",
        reason="state moves from {old} partitions to {new}: every row is rewritten into its new partition",
        source=_LOG,
        applies=lambda c: None if _partitions_refused(c) else _partitions(c),
        tests=("spark/test_stores.py::test_every_kind_of_stage_moves_between_stores_and_partitions",),
    ),
    Rule[StageChange](
        id="store.partitions-seen",
        verdict=LOSS,
        change="another number of state partitions where the query depends on partitions (`spark_partition_id`, a "
        "function of whole partitions above a repartition)",
        reason="the query depends on partitions, and its state was computed with {old} of them, not {new}",
        source="SparkPartitionID, HashPartitioning; measured: keys of 4 partitions beside those of 2",
        applies=_depends_on_partitions,
        tests=("spark/test_pairs.py::test_another_number_of_partitions_that_are_looked_at_is_agreed_to",),
    ),
    Rule[StageChange](
        id="store.partitions-refused",
        verdict=REFUSED,
        change="a number of state partitions, before or after, that is not a whole number above 0; another number "
        "under a join whose state format is unknown",
        reason=f"state cannot move from {{old}} partitions to {{new}}: {{why}}, or leave {PARTITIONS} as it was",
        source="HashPartitioning; SymmetricHashJoinStateManager of Spark 4.2 and 4.3 has the formats 1 to 4",
        applies=_partitions_refused,
        tests=("core/test_stores.py::test_settings_that_are_not_understood_are_refused",),
    ),
)
