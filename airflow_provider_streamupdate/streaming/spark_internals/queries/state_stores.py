"""Writing state stores with Spark's own operators, on the executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from ....core.errors import RefusedError
from ..jvm import module
from ..settings import with_file_manager_for
from ..version import STATEFUL, STREAMING, adapter, families_problem

# Rows of a store as StateRewriter sees them: partition_key (a struct), key_bytes, value_bytes, column_family_name.
# What is returned has the same columns and as many partitions as the store.
Transform = Callable[[DataFrame], DataFrame]


def write_empty_store(
    spark: SparkSession,
    checkpoint: str,
    conf: dict[str, str],
    families: bool,
) -> None:
    """Commit a state store without rows at version 1 of operator 0, partition 0 under `checkpoint`/state.

    The store's provider does it, so that the files are its own (``1.zip``, or ``1.delta``). They hold no schema, so any
    will do (schemas lie in files beside the store); `families`: whether the operator uses virtual column families.
    Changelog checkpointing is off here, because a changelog alone cannot stand for another version.
    """
    jvm = spark._jvm
    state = f"{STREAMING}.state"
    session = store_session(spark, conf)
    with_file_manager_for(checkpoint, session)
    hadoop = session.sessionState().newHadoopConf()
    run_id = jvm.java.util.UUID.randomUUID()
    hadoop.set("sql.streaming.runId", run_id.toString())
    row = module(spark, "org.apache.spark.sql.types.StructType").fromDDL("anything bigint")
    store_id = getattr(jvm, f"{state}.StateStoreId")(f"{checkpoint}/state", 0, 0, "default")
    provider = module(spark, f"{state}.StateStoreProvider").createAndInit(
        getattr(jvm, f"{state}.StateStoreProviderId")(store_id, run_id),
        row,
        row,
        getattr(jvm, f"{state}.NoPrefixKeyStateEncoderSpec")(row),
        families,
        getattr(jvm, f"{state}.StateStoreConf")(
            session.sessionState().conf(), module(spark, "scala.collection.immutable.Map").empty()
        ),
        hadoop,
        False,
        jvm.scala.Option.apply(None),
    )
    try:
        provider.getStore(0, jvm.scala.Option.apply(None), *adapter().store_arguments).commit()
    finally:
        provider.close()


def save_aggregation(rows: DataFrame, keys: int, folder: str, conf: dict[str, str], window: int | None = None) -> None:
    """Commit rows as the state of an aggregation without a past: version 1 of operator 0 under `folder`/state (a URI).

    rows: the first `keys` columns are the grouping keys, the others the aggregates' buffers; one partition for each of
        the store's, in their order
    window: the place of the session window among the keys, where there is one; rows are then sorted by the keys
    conf: configuration as an offset log records it; it decides which store is written, and how

    Spark's own operator does it on the executors, one task a partition: StateStoreSaveExec in update mode puts each row
    it is given (keys and values projected as in a running query, so their bytes are the ones it will look for) and
    commits. Spark 4.3's StateRewriter would read and write RocksDB only: it needs a store that can be opened empty,
    which HDFSBackedStateStoreProvider refuses (measured).
    """
    spark = rows.sparkSession
    jvm = spark._jvm
    run_id = jvm.java.util.UUID.randomUUID()
    session = store_session(spark, {**conf, "sql.streaming.runId": run_id.toString()})
    none = jvm.scala.Option.apply(None)
    dataset = module(spark, "org.apache.spark.sql.classic.Dataset")
    child = dataset.ofRows(session, rows._jdf.queryExecution().analyzed()).queryExecution().executedPlan()
    info = getattr(jvm, f"{STATEFUL}.StatefulOperatorStateInfo")(
        f"{folder}/state", run_id, 0, 0, child.execute().getNumPartitions(), none, none
    )
    active = jvm.org.apache.spark.sql.classic.SparkSession
    active.setActiveSession(session)  # a physical operator takes the session that is active when it is made
    try:
        columns, some, modes = child.output(), jvm.scala.Option.apply, jvm.org.apache.spark.sql.streaming.OutputMode
        if window is None:
            save = getattr(jvm, f"{STATEFUL}.StateStoreSaveExec")(
                columns.take(keys), some(info), some(modes.Update()), none, none, 2, child
            )
        else:  # update mode is not for sessions; their rows are stored whole, keys and all
            save = getattr(jvm, f"{STATEFUL}.SessionWindowStateStoreSaveExec")(
                columns.take(window).concat(columns.slice(window + 1, keys)),
                columns.apply(window),
                some(info),
                some(modes.Complete()),
                none,
                none,
                1,
                child,
            )
        save.execute().count()
    finally:
        active.setActiveSession(spark._jsparkSession)
        session.streams().stateStoreCoordinator().deactivateInstances(run_id)  # executors may let go of the stores


class _Transform:
    """A scala.Function1 of Spark's own DataFrames."""

    class Java:
        implements = ("scala.Function1",)

    def __init__(self, spark: SparkSession, transform: Transform) -> None:
        self._spark = spark
        self._transform = transform

    def apply(self, rows: Any) -> Any:
        return self._transform(DataFrame(rows, self._spark))._jdf


def rewrite_stores(
    spark: SparkSession,
    source: str,
    target: str,
    batch: int,
    conf: dict[str, str],
    transform: Transform | None,
    state_format: int,
) -> None:
    """Write every store of every operator of checkpoint `source`, as of `batch`, as version 1 under `target` (URIs).

    target: holds the same operators' metadata and an offset entry 0 that records the configuration of the new stores
    state_format: the checkpoint format of `source`; StateRewriter writes in the same, with ids of its own in v2
    conf: that configuration; transform: what becomes of the rows, None when they stay what and where they are

    Spark's StateRewriter reads and writes on the executors, by each column family's own encoder; its reader knows each
    row's partition key (StatePartitionKeyExtractorFactory). RocksDB only: StateDataSource refuses to read the column
    families of another provider, and HDFSBackedStateStoreProvider.getStore to open a store empty. RefusedError for a
    Spark without it.
    """
    if problem := families_problem():
        raise RefusedError(problem)
    jvm = spark._jvm
    some = jvm.scala.Option.apply
    session = store_session(spark, conf)
    session.conf().set("spark.sql.streaming.stateStore.checkpointFormatVersion", str(state_format))
    function = None
    if transform is not None:
        ensure_callback_server_started(spark.sparkContext._gateway)
        function = _Transform(spark, transform)
    getattr(jvm, f"{STREAMING}.state.StateRewriter")(
        session, batch, 0, target, session.sessionState().newHadoopConf(), some(source), some(function), some(None)
    ).run()


def store_session(spark: SparkSession, conf: dict[str, str]) -> Any:
    """A session of its own with the state store's part of a recorded configuration. Changelog checkpointing is off,
    because a changelog alone cannot stand for another version; files get names without ids (format v1), since who
    brings them where they belong gives them their names. A state without rows has its partitions, too: plans are not
    cut down to an empty relation, neither before they run nor while they do (AQEPropagateEmptyRelation)."""
    session = spark._jsparkSession.cloneSession()
    own = {
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    }
    session.conf().set("spark.sql.adaptive.enabled", "false")
    session.conf().set(
        "spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"
    )
    for key, value in {**conf, **own}.items():
        if key.startswith(("spark.sql.streaming.stateStore.", "sql.streaming.")):
            session.conf().set(key, value)
    return session
