"""The rewriter: moves a stage's unchanged rows into stores of another provider or another number of partitions.

Spark reads and writes them on the executors. Which of its parts writes depends on the store:
- one of column families is rewritten by StateRewriter, which knows their encoders and each row's partition key;
- one of session windows by the operator of session windows, whose store looks keys up by their beginning;
- any other is nothing but key and value rows. They are put by the operator of aggregations, whatever stage they belong
  to: their bytes are made by Spark's own projections, and equal rows have equal bytes.
"""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ...core.checkpoint.join_state import ROWS_BY_TIME, SIDES, by_time
from ...core.checkpoint.named_files import schema_file
from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.errors import CorruptError
from ...core.plan.plan import StagePlan
from ...core.plan.rendering import words
from ...core.plan.state_stores import column_families, store_settings
from ...core.plan.visitors import sessions
from ...core.snapshots.restore import record_stores
from ...core.storage import Folder
from .. import spark_internals


def rewrite_stage(
    spark: SparkSession,
    stage: StagePlan,
    snapshot: QuerySnapshot,
    scratch: Folder,
    conf: dict[str, str],
    partitions: int | None,
) -> dict[str, Folder]:
    """Write version 1 of the stage's stores; return, for each store (by name), the folder with its partitions.

    stage: as the old plan has it
    scratch: holds a checkpoint of the stage alone under ``old``, with its state as of the snapshot's batch
    conf: the configuration of the new stores; partitions: their number, None when rows stay in the partitions they are
        in
    """
    old, new, batch = scratch.sub("old"), scratch.sub("new"), snapshot.batch
    if column_families(stage):
        describe_target(old, stage, stage.operator_id, old, new, batch, conf)
        move = None if partitions is None else lambda rows: rows.repartition(partitions, *belonging(rows, stage))
        spark_internals.rewrite_stores(spark, old.uri, new.uri, batch, conf, move, snapshot.state_format)
        return {"default": new.sub(f"state/{stage.operator_id}")}
    return {
        store: save_rows(stage, read_store(spark, stage, batch, old, store), new.sub(store), conf, partitions, store)
        for store in stage.stores
    }


def read_store(
    spark: SparkSession, stage: StagePlan, batch: int, checkpoint: Folder, store: str = "default"
) -> DataFrame:
    """Key and value of each row of a store without column families, both structs."""
    reader = spark.read.format("statestore").option("operatorId", stage.operator_id).option("batchId", batch)
    return reader.option("storeName", store).load(checkpoint.uri)


def save_rows(
    stage: StagePlan,
    rows: DataFrame,
    target: Folder,
    conf: dict[str, str],
    partitions: int | None,
    store: str = "default",
) -> Folder:
    """Write rows of key and value, both structs, as version 1 of a store without column families; return the folder
    with its partitions. `partitions`: as for `rewrite_stage`."""
    if stage.kind == "session-window":
        _save_sessions(stage, rows, target, conf, partitions)
    else:
        _save(rows, target, conf, partitions, store)
    return target.sub("state/0")


def _save(rows: DataFrame, target: Folder, conf: dict[str, str], partitions: int | None, store: str) -> None:
    keys, values = _columns(rows, "key"), _columns(rows, "value")
    flat = rows.select(*(c.alias(f"c{i}") for i, c in enumerate((*keys, *values))))
    if partitions is not None:
        # StatefulOpClusteredDistribution asks for HashPartitioning by the keys in their order; without keys: AllTuples.
        # The index of a join's row has no part in where it belongs (SymmetricHashJoinStateManager, formats 1 and 2).
        placing = len(keys) - (1 if store.endswith("-keyWithIndexToValue") else 0)
        flat = flat.repartition(partitions, *flat.columns[:placing])
    spark_internals.save_aggregation(flat, len(keys), target.uri, conf)


def _save_sessions(
    stage: StagePlan, rows: DataFrame, target: Folder, conf: dict[str, str], partitions: int | None
) -> None:
    """Sessions lie whole in the values: grouping keys in their order, the window among them, and the buffers
    (StreamingSessionWindowStateManagerImplV1); a row's key holds the others and the window's start."""
    others, session = session_keys(stage)
    flat = rows.select(*(c.alias(f"c{i}") for i, c in enumerate(_columns(rows, "value"))))
    placing = [f"c{i}" for i in others]
    start = flat[f"c{session}"]["start"]
    expected = [f.dataType for f in rows.schema["key"].dataType]
    if [f.dataType for f in flat.select(*placing, start).schema] != expected:
        raise CorruptError(
            f"the state of stage {stage.name} has keys of types {expected}, which do not fit its values; give the "
            "stage another name to start it empty"
        )
    if partitions is not None:
        flat = flat.repartition(partitions, *placing)
    flat = flat.sortWithinPartitions(*placing, start)
    spark_internals.save_aggregation(flat, len(placing) + 1, target.uri, conf, session)


def session_keys(stage: StagePlan) -> tuple[list[int], int]:
    """The positions of the keys in a session's value: those of the other keys, and of the session window."""
    session = next((i for i, key in enumerate(stage.keys) if sessions(key)), None)
    if session is None:
        raise CorruptError(
            f"stage {stage.name} has no session window among its keys {words(stage.keys)}, so that its state cannot be "
            "rewritten; give it another name to start it empty"
        )
    return [i for i in range(len(stage.keys)) if i != session], session


def _columns(rows: DataFrame, part: str) -> list[Column]:
    """The fields of keys or values, whose own names need not be unique."""
    kept = rows.schema[part].dataType
    names = [f"{part}{i}" for i in range(len(kept.fields))]
    renamed = StructType([StructField(n, f.dataType, True) for n, f in zip(names, kept.fields, strict=True)])
    return [F.col(part).cast(renamed)[name] for name in names]


def belonging(rows: DataFrame, stage: StagePlan) -> list[Column]:
    """The part of a row, as StateRewriter gives it, that decides to which partition of a store with column families it
    belongs.
    For joins of state format 4, StateRewriter treats the time as a part of the join keys (measured; Spark 4.3)."""
    names = rows.schema["partition_key"].dataType.names
    return [F.col("partition_key")[name] for name in (names[:-1] if by_time(stage) else names)]


def describe_target(
    described: Folder, stage: StagePlan, number: int, old: Folder, new: Folder, batch: int, conf: dict[str, str]
) -> None:
    """Write what StateRewriter expects beside the stores it writes: an operator's description, and offset entries of
    the batches it reads and writes, with the new stores' settings.

    described: the checkpoint that describes the operator `stage`; in `old` and `new` it has the id `number`
    """
    top, made = f"state/{stage.operator_id}", f"state/{number}"
    for path in described.files(top):
        if path.startswith("_metadata/v2/"):
            metadata = with_schema_files_here(described.read(f"{top}/{path}") or b"", new, number)
            new.write(f"{made}/{path}", _with_lists(metadata, stage))
        elif "_metadata/" in path or path.startswith("_stateSchema/"):
            new.copy_from(described, f"{top}/{path}", f"{made}/{path}")
    entry = (old.read(f"offsets/{batch}") or b"").decode()
    for entry_of in (0, batch):
        new.write(f"offsets/{entry_of}", record_stores(entry, store_settings(conf)).encode())


def _with_lists(metadata: bytes, stage: StagePlan) -> bytes:
    """StateRewriter keeps several values of one key in list variables of transformWithState only
    (getWriterColFamilyInfoMap), so a join of state format 4 is described to it as such a stage. It writes by this
    description and reads by the one beside the old stores; neither is brought anywhere."""
    if not by_time(stage):
        return metadata
    version, _, text = metadata.decode().partition("\n")
    described = json.loads(text)
    described["operatorInfo"]["operatorName"] = "transformWithStateExec"
    lists = (f"{side}-{ROWS_BY_TIME}" for side in SIDES)
    variables = [{"stateName": name, "stateVariableType": "ListState", "ttlEnabled": False} for name in lists]
    properties = {"timeMode": "NoTime", "outputMode": "Append", "stateVariables": variables}
    described["operatorPropertiesJson"] = json.dumps(properties)
    return f"{version}\n{json.dumps(described)}".encode()


def with_schema_files_here(metadata: bytes, checkpoint: Folder, number: int) -> bytes:
    """An operator's description (OperatorStateMetadataV2) with the id `number`, whose schema files are those in this
    checkpoint: it names them with absolute paths, of the checkpoint it was written in."""
    version, _, text = metadata.decode().partition("\n")
    described = json.loads(text)
    described["operatorInfo"]["operatorId"] = number
    for store in described["stateStoreInfo"]:
        where = f"the metadata of operator {number}"
        paths = (schema_file(path, where) for path in store.get("stateSchemaFilePaths") or ())
        store["stateSchemaFilePaths"] = [f"{checkpoint.uri}/state/{number}/_stateSchema/{path}" for path in paths]
    return f"{version}\n{json.dumps(described)}".encode()
