"""The settings that say what a query's state stores are: who keeps them, and in how many partitions.

Both are recorded in the offset log, and on a restart what is recorded wins over what the session says
(OffsetSeqMetadata.setSessionConf): a new version that asks for other stores gets them only when its state is rewritten
and its offset log says so. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from .plan import AppPlan, StagePlan
from .visitors import sessions

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"

_STATE = "org.apache.spark.sql.execution.streaming.state"
DEFAULT_STORE = f"{_STATE}.HDFSBackedStateStoreProvider"
ROCKSDB = f"{_STATE}.RocksDBStateStoreProvider"
NAMES = {DEFAULT_STORE: "the default store (HDFS-backed)", ROCKSDB: "RocksDB"}


def store_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """The two settings, as far as a configuration has them."""
    return {key: conf[key] for key in (PROVIDER, PARTITIONS) if key in conf}


def as_recorded(plan: AppPlan, recorded: Mapping[str, Mapping[str, str]]) -> AppPlan:
    """A saved plan with the settings its state was really written under: those of each query's offset log."""
    queries = (
        attrs.evolve(q, stores=store_settings(recorded[q.name])) if q.name in recorded else q for q in plan.queries
    )
    return attrs.evolve(plan, queries=tuple(queries))


def other_provider(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether another provider keeps the state from now on (nothing is known to change where one plan does not say)."""
    return bool(before and after) and before.get(PROVIDER) != after.get(PROVIDER)


def other_partitions(stage: StagePlan, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether the stage's rows belong to other partitions from now on."""
    return bool(before and after) and before.get(PARTITIONS) != after.get(PARTITIONS) and not single_partition(stage)


def single_partition(stage: StagePlan) -> bool:
    """Whether Spark gathers all rows in partition 0 (AllTuples): for a limit and for groups without a key. Files in
    other partitions would stay behind at their version, and a later snapshot would miss theirs (measured)."""
    return stage.kind == "limit" or all(map(sessions, stage.keys))


def column_families(stage: StagePlan) -> bool:
    """Whether the stage's store has virtual column families, which only RocksDB knows (state schema files of version 3
    name each family's key encoder)."""
    return any(isinstance(schema.key, dict) and "encoder" in schema.key for schema in stage.schemas)
