"""The migrator: rewrites a stage's state rows for a new plan, on the executors.

The old rows are read by Spark's own state reader (format ``statestore``), which gives key and value as structs; they
are rewritten by DataFrame operations, and written by Spark's own operators (rewriter.py), so that new keys are the very
bytes the running query will look for. No row passes through Python, unless an app's own function wants it. What is done
was decided by `state.migration`; an app's own migration function is called in its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ..state.errors import ApplicationError, CorruptError
from ..state.migration import Migration, describe, first_column
from ..state.plan import StagePlan
from ..state.restore import MigratedStage, RestorePlan
from ..state.snapshot import QuerySnapshot
from ..state.spark_types import fields, row_ddl, same
from ..state.storage import Folder
from ..state.stores import single_partition
from .rewriter import rewrite_stage, save_rows, session_keys, with_schema_files_here

# (state with columns key and value, both structs) -> the same of the new plan
MigrationFunction = Callable[[DataFrame], DataFrame]
# by stage (``stage`` or ``query/stage``) and the state it understands (migration.describe)
MigrationFunctions = Mapping[tuple[str, str], MigrationFunction]

_SCRATCH = "migration"


def find_function(functions: MigrationFunctions, query: str, stage: MigratedStage) -> MigrationFunction | None:
    """The app's function for a stage and its old state, where it is to be migrated by one."""
    if stage.migration is None or not stage.migration.by_function:
        return None
    state = describe(stage.old)
    return functions.get((f"{query}/{stage.new.name}", state)) or functions.get((stage.new.name, state))


def migrate_stage(
    spark: SparkSession,
    stage: MigratedStage,
    snapshot: QuerySnapshot,
    source: Folder,
    checkpoint: Folder,
    plan: RestorePlan,
    function: MigrationFunction | None = None,
) -> None:
    """Write the stage's state as of the snapshot's batch into the new checkpoint, into the stores `plan` names. What is
    needed on the way lies in a folder of the checkpoint and is removed again.

    source: holds the snapshot's objects. ApplicationError when the app's function does not keep its word.
    """
    scratch = checkpoint.sub(f"{_SCRATCH}/{stage.new.operator_id}")
    try:
        before = _lay_out(snapshot, stage.old, source, scratch.sub("old"))
        partitions = 1 if single_partition(stage.new) else plan.partitions or before
        same = partitions == before
        if stage.migration is None:
            for store in (s for s in stage.old.stores if s != "default"):  # their schemas are not in snapshots
                schema = f"0/{store}/_metadata/schema"
                made, wanted = f"state/{stage.new.operator_id}/{schema}", f"state/{stage.old.operator_id}/{schema}"
                scratch.sub("old").copy_from(checkpoint, made, wanted)
            moved = rewrite_stage(spark, stage.old, snapshot.batch, scratch, plan.conf, None if same else partitions)
            for store, folder in moved.items():
                _bring_back(folder, store, stage.new, checkpoint, plan.made_state_name)
            return
        state = (
            spark.read.format("statestore")
            .option("operatorId", stage.old.operator_id)
            .option("batchId", snapshot.batch)
            .load(scratch.sub("old").uri)
        )
        migration = stage.migration
        if migration.by_function:
            where = f"the migration function of stage {stage.new.name} for {describe(stage.old)!r}"
            rows = _by_function(state, function, where, dict(_rows_of(stage.new)))
            rows = rows.select(*(_numbered(rows[part], schema).alias(part) for part, schema in _rows_of(stage.new)))
            if stage.new.kind == "session-window" and not rows.where(~_key_of_session(rows, stage.new)).isEmpty():
                raise ApplicationError(f"{where} returned a row whose key is not that of its value")
        else:
            rows = _by_rules(state, stage.old, stage.new, migration)
        moved_to = partitions if migration.moves or not same else None
        written = save_rows(stage.new, rows, scratch.sub("new"), plan.conf, moved_to)
        _bring_back(written, "default", stage.new, checkpoint, plan.made_state_name)
    finally:
        checkpoint.remove(_SCRATCH)


def _lay_out(snapshot: QuerySnapshot, old: StagePlan, source: Folder, target: Folder) -> int:
    """A checkpoint of the old stage alone, for Spark's state reader; the number of its partitions."""
    top = f"state/{old.operator_id}/"
    wanted = ("metadata", f"offsets/{snapshot.batch}", f"commits/{snapshot.batch}", top)
    partitions = set()
    for file in snapshot.files:
        if file.path.startswith(f"{top}_metadata/v2/"):
            target.write(file.path, with_schema_files_here(source.read(file.object) or b"", target))
        elif file.path.startswith(wanted):
            target.copy_from(source, file.object, file.path)
        if file.path.startswith(top) and (number := file.path.removeprefix(top).split("/")[0]).isdigit():
            partitions.add(int(number))
    if partitions != set(range(len(partitions))):
        raise CorruptError(
            f"the snapshot holds partitions {sorted(partitions)} of stage {old.name}; some are missing: use another one"
        )
    return len(partitions)


def _bring_back(written: Folder, store: str, new: StagePlan, checkpoint: Folder, made: str) -> None:
    """Bring version 1 of a store just made to where the query looks for it, as `made`. On the default store the bytes
    of a delta serve as a snapshot as well (both end with the same mark; measured), without which the versions before it
    would be looked for."""
    for path in written.files():
        partition, _, name = path.partition("/")
        number, _, ending = name.partition(".")
        target = f"state/{new.operator_id}/{partition}" + ("" if store == "default" else f"/{store}")
        if number == "1":
            if not ending.endswith(".crc"):  # a checksum file names the file it is of
                for kind in {"delta": ("delta", "snapshot")}.get(ending, (ending,)):
                    checkpoint.copy_from(written, path, f"{target}/{made}.{kind}")
        elif partition.isdigit() and not name.startswith("_metadata/"):  # what a zip refers to: SSTs, logs
            checkpoint.copy_from(written, path, f"{target}/{name}")


def _by_rules(state: DataFrame, old: StagePlan, new: StagePlan, migration: Migration) -> DataFrame:
    """Key and value rows as `migration` says, types widened to those of the new schemas."""
    rows = state.select(
        *(_numbered(state[part], schema).alias(part) for part, schema in _rows_of(old)),
    )
    keys = [f"k{i}" for i in range(len(migration.keys))]
    buffers = list(_buffers(migration, old, new))
    flat = rows.select(
        *(c.alias(k) for k, c in zip(keys, _keys(migration, old, new), strict=True)),
        *(b.column.alias(b.name) for b in buffers),
    )
    if migration.merge:
        # The count is there for a state without rows, which without keys would get one.
        merged = [b.merged().alias(b.name) for b in buffers]
        flat = flat.groupBy(*keys).agg(*merged, F.count(F.lit(1)).alias("rows")).where("rows > 0")
    return flat.select(F.struct(*keys).alias("key"), F.struct(*(b.name for b in buffers)).alias("value"))


def _by_function(
    state: DataFrame, function: MigrationFunction | None, where: str, wanted: Mapping[str, Any]
) -> DataFrame:
    """What the app's own function makes of the state; checked, because a wrong row would be found by nobody: names and
    types (`wanted`) of columns, no row without key or value, no key twice."""
    if function is None:
        raise ApplicationError(f"{where} is not there; register it with @app.migrate")
    made = function(state.select("key", "value"))
    shown = f"DataFrame({', '.join(f'{part} struct<{row_ddl(kind)}>' for part, kind in wanted.items())})"
    if not isinstance(made, DataFrame) or sorted(made.columns) != ["key", "value"]:
        raise ApplicationError(f"{where} returned {made!r}; return a {shown}")
    for part, kind in wanted.items():
        if not same(json.loads(made.schema[part].dataType.json()), kind):
            raise ApplicationError(
                f"{where} returned a {part} of type {made.schema[part].dataType.simpleString()}; return a {shown}"
            )
    rows = made.select("key", "value")
    missing = rows["key"].isNull() | rows["value"].isNull()
    if not rows.where(missing).isEmpty():
        raise ApplicationError(f"{where} returned a row without key or value")
    if twice := rows.groupBy("key").count().where("count > 1").head():
        raise ApplicationError(f"{where} returned {twice['count']} rows with the key {tuple(twice['key'])}; merge them")
    return rows


def _key_of_session(rows: DataFrame, stage: StagePlan) -> Column:
    """Whether a row's key is what its value says: the other keys, and the start of the session window."""
    others, session = session_keys(stage)
    wanted = [*(rows["value"][f"c{i}"] for i in others), rows["value"][f"c{session}"]["start"]]
    return reduce(Column.__and__, (rows["key"][f"c{i}"].eqNullSafe(c) for i, c in enumerate(wanted)))


def _rows_of(stage: StagePlan) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return ("key", stage.schemas[0].key), ("value", stage.schemas[0].value)


def _numbered(row: Column, schema: Any) -> Column:
    """A struct with the names c0, c1 ...: the names in a value row need not be unique (two sums are both ``sum``)."""
    return row.cast(StructType.fromJson({
        "type": "struct",
        "fields": [{**f, "name": f"c{i}", "nullable": True, "metadata": {}} for i, f in enumerate(fields(schema))],
    }))  # fmt: skip


def _keys(migration: Migration, old: StagePlan, new: StagePlan) -> Iterator[Column]:
    for part, field in zip(migration.keys, fields(new.schemas[0].key), strict=True):
        column = F.col(f"key.c{part.source}")
        if part.window is None:
            yield _widened(column, fields(old.schemas[0].key)[part.source]["type"], field["type"])
            continue
        size, start = (f"{n} microseconds" for n in (part.window.size, part.window.start))
        yield F.window(column.getField("start"), size, size, start)


@attrs.frozen
class _Buffer:
    """A column of the new value row. `function` is its aggregate's class, `offset` its place in that aggregate."""

    name: str
    column: Column
    type: Any
    function: str
    offset: int
    width: int
    first: str

    def merged(self) -> Column:
        """The buffer of a group made of several groups, as the aggregate's own mergeExpressions have it (Count, Sum,
        Average, Min, Max of Spark 4.3). A decimal sum that is null although it saw rows has overflowed, and stays so;
        `isEmpty` tells, in an Average the null itself."""
        if self.function in ("Min", "Max"):
            return (F.min if self.function == "Min" else F.max)(self.name)
        if self.function == "Sum" and self.offset == 1:
            return F.bool_and(self.name)
        total = F.sum(self.name).try_cast(_type(self.type))
        if self.offset == 0 and self.function in ("Sum", "Average") and self.width == 2:
            saw_rows = ~F.col(f"{self.first}_1") if self.function == "Sum" else F.lit(True)
            overflowed = F.bool_or(F.col(self.name).isNull() & saw_rows)
            return F.when(~overflowed, total)
        return total


def _buffers(migration: Migration, old: StagePlan, new: StagePlan) -> Iterator[_Buffer]:
    position = 0
    for number, (place, buffer) in enumerate(zip(migration.aggregates, new.buffers, strict=True)):
        for offset in range(buffer.columns):
            kind = fields(new.schemas[0].value)[position]["type"]
            if place is None:
                column = F.expr(buffer.initial[offset]).cast(_type(kind))
            else:
                before = first_column(old, place) + offset
                column = _widened(F.col(f"value.c{before}"), fields(old.schemas[0].value)[before]["type"], kind)
            yield _Buffer(f"b{number}_{offset}", column, kind, buffer.function, offset, buffer.columns, f"b{number}")
            position += 1


def _widened(column: Column, was: Any, now: Any) -> Column:
    """The column as a type that takes its values (`spark_types.widens`). A struct grows by nulls, field by field: Spark
    casts no struct to one with more fields."""
    if same(was, now):
        return column
    if not isinstance(now, dict):
        return column.cast(_type(now))
    if now["type"] == "array":
        return F.transform(column, lambda element: _widened(element, was["elementType"], now["elementType"]))
    kept = [_widened(column[b["name"]], b["type"], a["type"]) for b, a in zip(fields(was), fields(now), strict=False)]
    more = [F.lit(None).cast(_type(f["type"])) for f in fields(now)[len(kept) :]]
    return F.when(column.isNotNull(), F.struct(*kept, *more))


def _type(kind: Any) -> DataType:
    """A type from Spark's JSON."""
    field = {"name": "c", "type": kind, "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [field]})["c"].dataType
