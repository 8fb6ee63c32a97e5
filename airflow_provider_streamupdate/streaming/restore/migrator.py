"""The migrator: rewrites a stage's state rows for a new plan, on the executors.

The old rows are read by Spark's own state reader (format ``statestore``), which gives key and value as structs; they
are rewritten by DataFrame operations, and written by Spark's own operators (rewriter.py), so that new keys have exactly
the bytes that the running query will look for. No row passes through Python, unless an app's own function needs it.
`state.migration` has decided what is done; an app's own migration function replaces it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import reduce
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ...core.checkpoint.join_state import says_matched, side_rows
from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.compatibility.migration import (
    Derived,
    Migration,
    PartChange,
    describe,
    describe_part,
    grouping_key,
    has_ttl,
    value_type,
)
from ...core.compatibility.state_row import (
    WITH_BUFFERS,
    first_column,
    key_columns,
    keys_in_value,
    scaled_types,
    sum_type,
    value_row,
)
from ...core.errors import ApplicationError, CorruptError
from ...core.plan.plan import StagePlan
from ...core.plan.spark_types import ddl, fields, row_ddl, same
from ...core.plan.state_stores import column_families, single_partition
from ...core.snapshots.restore import MigratedStage, RestorePlan, check_file
from ...core.storage import Folder
from ..catalyst.types import COLLATIONS
from ..planning.schema_file import write_schema
from .column_families import RebuiltFamilies, StoreRewrite, rewrite_families
from .join_sides import read_side, side_stores
from .rewriter import read_store, rewrite_stage, save_rows, session_keys, with_schema_files_here
from .state_variables import read_variable, same_ends, variable_families

# (state with columns key and value, both structs) -> the same of the new plan
MigrationFunction = Callable[[DataFrame], DataFrame]
# by stage (``stage`` or ``query/stage``) and the state it understands (migration.describe)
MigrationFunctions = Mapping[tuple[str, str], MigrationFunction]

_SCRATCH = "migration"
# What java.net.URI quotes in a path; of other scripts only letters and digits are taken for harmless.
_ENCODED = re.compile(r"[^\w!.~'()*,;:$&+=@/-]")


def find_functions(functions: MigrationFunctions, query: str, stage: MigratedStage) -> dict[str, MigrationFunction]:
    """The app's functions that migrate a stage's old state: one, under the name ``""``, or one for each state variable
    or side of a join."""
    made = stage.migration
    if made is None:
        return {}
    forms = {v.name: describe_part(stage.old, v.name) for v in made.parts if v.by_function}
    if made.by_function:
        forms[""] = describe(stage.old)
    found = {}
    for variable, form in forms.items():
        name = f"{stage.new.name}/{variable}" if variable else stage.new.name
        if function := functions.get((f"{query}/{name}", form)) or functions.get((name, form)):
            found[variable] = function
    return found


def migrate_stage(
    spark: SparkSession,
    stage: MigratedStage,
    snapshot: QuerySnapshot,
    source: Folder,
    checkpoint: Folder,
    plan: RestorePlan,
    functions: Mapping[str, MigrationFunction],
) -> None:
    """Write the stage's state as of the snapshot's batch into the new checkpoint, into the stores `plan` names. What is
    needed on the way lies in a folder of the checkpoint, or beside it, and is removed again.

    source: holds the snapshot's objects; functions: the app's own (find_functions). ApplicationError when one of them
    violates its contract.
    """
    above = _scratch(checkpoint)
    scratch = above.sub(str(stage.new.operator_id))
    try:
        above.remove("")  # of a migration that died
        old = scratch.sub("old")
        before = _lay_out(snapshot, stage.old, source, old)
        partitions = 1 if single_partition(stage.new) else plan.partitions or before
        families: RebuiltFamilies | None = None  # in a store that has other column families, too
        written: dict[str, Folder] = {}
        if stage.migration is None:
            moved_to = None if partitions == before else partitions
            written = rewrite_stage(spark, stage.old, snapshot, scratch, plan.conf, moved_to)
        elif stage.new.kind == "transform-with-state":
            made_rows = _variables(spark, stage, stage.migration, snapshot.batch, old, functions)
            families = variable_families(stage, made_rows)
        elif stage.new.kind == "join":
            made_rows = _sides(spark, stage, stage.migration, snapshot.batch, old, functions)
            if column_families(stage.new):
                placed = {name: rows.withColumn("place", F.lit(0)) for name, rows in made_rows.items()}
                families = RebuiltFamilies(rows=placed)
            else:
                kept = (store for store in stage.new.stores if store not in made_rows)
                made_rows |= {store: read_store(spark, stage.old, snapshot.batch, old, store) for store in kept}
                written = {
                    store: save_rows(stage.new, rows, scratch.sub(f"new/{store}"), plan.conf, partitions, store)
                    for store, rows in made_rows.items()
                }
        else:
            rows = _rows(spark, stage, stage.migration, snapshot.batch, old, functions)
            moved_to = partitions if stage.migration.moves or partitions != before else None
            written = {"default": save_rows(stage.new, rows, scratch.sub("new"), plan.conf, moved_to)}
        if families is not None:
            store = StoreRewrite(
                snapshot=snapshot, scratch=scratch, checkpoint=checkpoint, conf=plan.conf, partitions=partitions
            )
            written["default"] = rewrite_families(spark, stage, families, store)
        for store_name, folder in written.items():
            _bring_back(folder, store_name, stage.new, checkpoint, plan.made_state_name)
    finally:
        above.remove("")


def readable(folder: Folder) -> bool:
    """Return whether Spark's state reader finds a checkpoint below this folder. It takes a path for a URI twice
    (StateDataSource.resolvedCpLocation: ``toUri.toString``), so that it looks for ``per%20key`` in place of
    ``per key``."""
    return _ENCODED.search(folder.base) is None


def _scratch(checkpoint: Folder) -> Folder:
    """Return the folder for what is needed on the way: beside a checkpoint whose query's name the reader encodes."""
    if readable(checkpoint):
        return checkpoint.sub(_SCRATCH)
    query = checkpoint.base.rpartition("/")[2]
    return checkpoint.parent.sub(f".{_SCRATCH}-{hashlib.sha256(query.encode()).hexdigest()[:16]}")


def _lay_out(snapshot: QuerySnapshot, old: StagePlan, source: Folder, target: Folder) -> int:
    """Make a checkpoint of the old stage alone, for Spark's state reader; return the number of its partitions."""
    top = f"state/{old.operator_id}/"
    wanted = ("metadata", f"offsets/{snapshot.batch}", f"commits/{snapshot.batch}", top)
    partitions = set()
    known: set[str] = set()
    if not any(file.path == f"commits/{snapshot.batch}" for file in snapshot.files):  # of a batch in flight
        before = next(file for file in snapshot.files if file.path == f"commits/{snapshot.batch - 1}")
        check_file(source, before, known)
        target.copy_from(source, before.object, f"commits/{snapshot.batch}")
    for file in snapshot.files:
        if file.path.startswith(wanted):
            check_file(source, file, known)
        if file.path.startswith(f"{top}_metadata/v2/"):
            target.write(file.path, with_schema_files_here(source.read(file.object) or b"", target, old.operator_id))
        elif file.path.startswith(wanted):
            target.copy_from(source, file.object, file.path)
        if file.path.startswith(top) and (number := file.path.removeprefix(top).split("/")[0]).isdigit():
            partitions.add(int(number))
    for schema in (s for s in old.schemas if s.name in old.stores and s.name != "default"):  # not in snapshots
        target.write(f"{top}0/{schema.name}/_metadata/schema", write_schema(schema))
    if partitions != set(range(len(partitions))):
        raise CorruptError(
            f"the snapshot holds partitions {sorted(partitions)} of stage {old.name}; some are missing: use another one"
        )
    return len(partitions)


def _bring_back(written: Folder, store: str, new: StagePlan, checkpoint: Folder, made: str) -> None:
    """Move version 1 of a new store to where the query looks for it, as `made`. On the default store the bytes
    of a delta serve as a snapshot as well (both end with the same mark; measured), without which the versions before it
    would be looked for."""
    for path in written.files():
        partition, _, name = path.partition("/")
        number, _, ending = name.partition(".")
        target = f"state/{new.operator_id}/{partition}" + ("" if store == "default" else f"/{store}")
        if number.partition("_")[0] == "1":  # in format v2 with an id
            if not ending.endswith(".crc"):  # a checksum file names the file it is of
                for kind in {"delta": ("delta", "snapshot")}.get(ending, (ending,)):
                    checkpoint.copy_from(written, path, f"{target}/{made}.{kind}")
        elif partition.isdigit() and not name.startswith("_metadata/"):  # what a zip refers to: SSTs, logs
            checkpoint.copy_from(written, path, f"{target}/{name}")


def _rows(
    spark: SparkSession,
    stage: MigratedStage,
    migration: Migration,
    batch: int,
    old: Folder,
    functions: Mapping[str, MigrationFunction],
) -> DataFrame:
    """The new key and value rows of a stage whose state is one store of them."""
    state = read_store(spark, stage.old, batch, old)
    if not migration.by_function:
        return _by_rules(state, stage.old, stage.new, migration)
    wanted = {"key": stage.new.schemas[0].key, "value": value_row(stage.new)}
    rows = _by_function(_with_values(state, stage.old), functions, stage, "", wanted)
    rows = rows.select(
        _numbered(rows["key"], wanted["key"]).alias("key"),
        _stored(_numbered(rows["value"], wanted["value"]), stage.new).alias("value"),
    )
    if stage.new.kind == "session-window" and not rows.where(~_key_of_session(rows, stage.new)).isEmpty():
        raise ApplicationError(f"{_named(stage)} returned a row whose key does not match its value")
    return rows


def _with_values(state: DataFrame, stage: StagePlan) -> DataFrame:
    """The state as the app's own function is given it (`value_row`)."""
    if value_row(stage) == stage.schemas[0].value:
        return state
    value, scaled = _numbered(state["value"], stage.schemas[0].value), scaled_types(stage)
    columns = [
        (_scaled(value[f"c{i}"], scaled[i]) if i in scaled else value[f"c{i}"]).alias(field["name"])
        for i, field in enumerate(fields(value_row(stage)))
    ]
    return state.select("key", F.struct(*columns).alias("value"))


def _stored(value: Column, stage: StagePlan) -> Column:
    """A value row of the app's own function (numbered) as the state keeps it."""
    scaled = scaled_types(stage)
    columns = [
        _unscaled(value[f"c{i}"], scaled[i]).cast(_type(field["type"])) if i in scaled else value[f"c{i}"]
        for i, field in enumerate(fields(stage.schemas[0].value))
    ]
    return F.struct(*(column.alias(f"c{i}") for i, column in enumerate(columns)))


def _scaled(number: Column, kind: str) -> Column:
    """A sum that is kept without its scale, as a decimal."""
    scale = _scale(kind)
    whole = number.cast(f"decimal({37 - scale},0)")
    value = (whole * F.lit(Decimal(1).scaleb(-scale)) if scale else whole).cast(kind)
    return F.when(number.isNotNull(), F.coalesce(value, _error(f"a sum in the state is no {kind}", kind)))


def _unscaled(value: Column, kind: str) -> Column:
    """A sum as it is kept without its scale."""
    return value.cast(kind) * F.lit(Decimal(10 ** _scale(kind)))


def _scale(kind: str) -> int:
    return int(kind.rstrip(")").rpartition(",")[2])


def _error(message: str, kind: Any) -> Column:
    return F.raise_error(F.lit(message)).cast(_type(kind))


def _by_rules(state: DataFrame, old: StagePlan, new: StagePlan, migration: Migration) -> DataFrame:
    """Key and value rows as `migration` decides, with types widened to those of the new schemas."""
    rows = state.select(
        *(_numbered(state[part], schema).alias(part) for part, schema in _rows_of(old)),
    )
    if new.kind not in WITH_BUFFERS:
        return rows.select(F.struct(*_keys(migration, old, new)).alias("key"), "value")
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
    value = [b.name for b in buffers]
    if keys_in_value(new):
        others, session = session_keys(new)
        start = F.col(keys[session])["start"].alias("start")
        return flat.select(
            F.struct(*(keys[i] for i in others), start).alias("key"), F.struct(*keys, *value).alias("value")
        )
    return flat.select(F.struct(*keys).alias("key"), F.struct(*value).alias("value"))


def _variables(
    spark: SparkSession,
    stage: MigratedStage,
    migration: Migration,
    batch: int,
    old: Folder,
    functions: Mapping[str, MigrationFunction],
) -> dict[str, DataFrame]:
    """The new rows of the changed state variables."""
    made = {}
    for change in migration.parts:
        rows = read_variable(spark, stage.old, change.name, batch, old)
        wanted = {"key": grouping_key(stage.new, change.name), "value": value_type(stage.new, change.name)}
        if change.by_function:
            made[change.name] = _by_function(rows, functions, stage, change.name, wanted).localCheckpoint()
            if has_ttl(stage.new, change.name) and not same_ends(stage.new, change.name, rows, made[change.name]):
                raise ApplicationError(
                    f"{_named(stage, change.name)} changed the number of values or when they expire: times to live "
                    "are stored separately, so pass on each value with its `ttlExpirationMs`"
                )
        else:
            was = value_type(stage.old, change.name)
            made[change.name] = rows.select("key", _widened(rows["value"], was, wanted["value"]).alias("value"))
    return made


def _sides(
    spark: SparkSession,
    stage: MigratedStage,
    migration: Migration,
    batch: int,
    old: Folder,
    functions: Mapping[str, MigrationFunction],
) -> dict[str, DataFrame]:
    """The new contents of the stores or column families of a join's changed sides."""
    made: dict[str, DataFrame] = {}
    for change in migration.parts:
        wanted = dict(zip(("key", "value"), side_rows(stage.new, change.name), strict=True))
        rows = read_side(spark, stage.old, change.name, batch, old)
        if not change.by_function:
            made |= side_stores(stage.new, change.name, _side(rows, stage, change, wanted))
            continue
        rows = _by_function(rows, functions, stage, change.name, wanted, unique=False)
        if says_matched(wanted["value"]) and not rows.where("value.matched is null").isEmpty():
            told = _named(stage, change.name)
            raise ApplicationError(f"{told} returned a row whose `matched` is null; pass it on, or set it to false")
        made |= side_stores(stage.new, change.name, rows)
    return made


def _side(rows: DataFrame, stage: MigratedStage, change: PartChange, wanted: Mapping[str, Any]) -> DataFrame:
    """Rows of a join's side whose keys and columns come from other places, or are new."""
    key, value = (
        _numbered(rows[part], schema)
        for part, schema in zip(("key", "value"), side_rows(stage.old, change.name), strict=True)
    )
    places = [*change.columns]
    if says_matched(wanted["value"]):
        places.append(len(fields(side_rows(stage.old, change.name)[1])) - 1)
    columns = [
        (F.lit(None).cast(_type(field["type"])) if place is None else value[f"c{place}"]).alias(field["name"])
        for place, field in zip(places, fields(wanted["value"]), strict=True)
    ]
    keys = [key[f"c{k}"].alias(f["name"]) for k, f in zip(change.keys, fields(wanted["key"]), strict=True)]
    return rows.select(F.struct(*keys).alias("key"), F.struct(*columns).alias("value"))


def _by_function(
    state: DataFrame,
    functions: Mapping[str, MigrationFunction],
    stage: MigratedStage,
    part: str,
    wanted: Mapping[str, Any],
    unique: bool = True,
) -> DataFrame:
    """The result of the app's own function on the state. It is checked, because a wrong row would go unnoticed: names
    and types (`wanted`) of columns, no row without a key, no key twice (if keys must be `unique`), no null value.
    """
    where = _named(stage, part)
    if part not in functions:
        raise ApplicationError(f"{where} is missing; register it with @app.migrate")
    made = functions[part](state.select("key", "value"))
    shown = f"DataFrame({', '.join(f'{part} {_shown(kind)}' for part, kind in wanted.items())})"
    if not isinstance(made, DataFrame) or sorted(made.columns) != ["key", "value"]:
        raise ApplicationError(f"{where} returned {made!r}; return a {shown}")
    for part, kind in wanted.items():
        if not same(json.loads(made.schema[part].dataType.json()), kind):
            raise ApplicationError(
                f"{where} returned a {part} of type {made.schema[part].dataType.simpleString()}; return a {shown}"
            )
    rows = made.select("key", "value")
    missing = rows["key"].isNull() | rows["value"].isNull()
    if "fields" not in wanted["value"]:
        inner = rows["value"] if wanted["value"]["type"] == "array" else F.map_values("value")
        missing |= F.exists(inner, lambda value: value.isNull())
    if not rows.where(missing).isEmpty():
        raise ApplicationError(f"{where} returned a row whose key or value is null")
    if unique and (twice := rows.groupBy("key").count().where("count > 1").head()):
        raise ApplicationError(f"{where} returned {twice['count']} rows with the key {tuple(twice['key'])}; merge them")
    return rows


def _named(stage: MigratedStage, part: str = "") -> str:
    """The app's function for a stage, or for a state variable or side of it."""
    if part:
        return f"the migration function of {stage.new.name}/{part} for {describe_part(stage.old, part)!r}"
    return f"the migration function of stage {stage.new.name} for {describe(stage.old)!r}"


def _shown(kind: Any) -> str:
    return f"struct<{row_ddl(kind)}>" if "fields" in kind else ddl(kind)


def _key_of_session(rows: DataFrame, stage: StagePlan) -> Column:
    """Whether a row's key matches its value: the other keys, and the start of the session window."""
    others, session = session_keys(stage)
    wanted = [*(rows["value"][f"c{i}"] for i in others), rows["value"][f"c{session}"]["start"]]
    return reduce(Column.__and__, (rows["key"][f"c{i}"].eqNullSafe(c) for i, c in enumerate(wanted)))


def _rows_of(stage: StagePlan) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return ("key", stage.schemas[0].key), ("value", stage.schemas[0].value)


def _numbered(row: Column, schema: Any) -> Column:
    """A struct with the names c0, c1 ...: the names in a value row need not be unique (two sums are both ``sum``)."""
    return row.cast(StructType.fromJson({
        "type": "struct",
        "fields": [
            {**f, "name": f"c{i}", "nullable": True, "metadata": _collations(f, f"c{i}")}
            for i, f in enumerate(fields(schema))
        ],
    }))  # fmt: skip


def _collations(field: Any, name: str) -> dict[str, Any]:
    """The metadata that says how a field's texts are compared (by the paths to them, which begin with the field's
    name), under another name."""
    paths = (field.get("metadata") or {}).get(COLLATIONS, {})
    renamed = {name + path.removeprefix(field["name"]): collation for path, collation in paths.items()}
    return {COLLATIONS: renamed} if renamed else {}


def _keys(migration: Migration, old: StagePlan, new: StagePlan) -> Iterator[Column]:
    row = "value" if keys_in_value(old) else "key"
    for part, field in zip(migration.keys, key_columns(new), strict=True):
        column = F.col(f"{row}.c{part.source}")
        if part.window is None:
            yield _widened(column, key_columns(old)[part.source]["type"], field["type"])
            continue
        size, start = (f"{n} microseconds" for n in (part.window.size, part.window.start))
        yield F.window(column.getField("start"), size, size, start)


@attrs.frozen
class _Buffer:
    """A column of the new value row. `function` is its aggregate's class, `offset` its place in that aggregate.
    `added`: the aggregate is new."""

    name: str
    column: Column
    type: Any
    function: str
    offset: int
    width: int
    first: str
    added: bool

    def merged(self) -> Column:
        """The buffer of a group made of several groups, as the aggregate's own mergeExpressions have it (Count, Sum,
        Average, Min, Max of Spark 4.3). A decimal sum that is null although it saw rows has overflowed, and stays so;
        `isEmpty` tells, in an Average the null itself. What is added begins with what it begins with, once."""
        if self.added:
            return F.any_value(self.name)
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
    position = len(new.keys) if keys_in_value(new) else 0
    for number, (place, buffer) in enumerate(zip(migration.aggregates, new.buffers, strict=True)):
        for offset in range(buffer.columns):
            kind = fields(new.schemas[0].value)[position]["type"]
            if place is None:
                column = F.expr(buffer.initial[offset]).cast(_type(kind))
            elif isinstance(place, Derived):
                column = _derived(place, old, new, number, offset).cast(_type(kind))
            else:
                before = first_column(old, place) + offset
                column = _widened(F.col(f"value.c{before}"), fields(old.schemas[0].value)[before]["type"], kind)
            name, added = f"b{number}", place is None
            yield _Buffer(f"{name}_{offset}", column, kind, buffer.function, offset, buffer.columns, name, added)
            position += 1


def _derived(derived: Derived, old: StagePlan, new: StagePlan, number: int, offset: int) -> Column:
    """A column of an aggregate's buffer, computed from old aggregates (as Count, Sum, Average and CentralMomentAgg of
    Spark 4.3 initialize and update them)."""
    first, last, wanted = derived.places[0], derived.places[-1], new.buffers[number]
    if wanted.function not in ("Count", "Sum", "Average"):
        return F.col(f"value.c{first_column(old, first) + offset}")
    if wanted.function == "Count" or (wanted.function == "Average" and offset == 1):
        return _count(old, last)
    rounded = wanted.function == "Average" and wanted.unscaled
    total = _sum(old, first, rounded)
    if wanted.function == "Sum" and offset == 1:
        return total.isNull()
    if wanted.unscaled:
        total = _unscaled(total, sum_type(new, number))
    return total if wanted.function == "Sum" and wanted.columns == 1 else F.coalesce(total, F.lit(0))


def _count(stage: StagePlan, aggregate: int) -> Column:
    """The number of values that a Count or an Average has seen."""
    return F.col(f"value.c{first_column(stage, aggregate) + stage.buffers[aggregate].columns - 1}")


_EXACT = 2**53  # beyond it a double does not hold every whole number


def _sum(stage: StagePlan, aggregate: int, rounded: bool) -> Column:
    """The sum that a Sum or an Average knows, with its scale; null without values. What the state does not know is an
    error: a sum of decimals that has overflowed, and one that a double has rounded, unless it may be `rounded`."""
    buffer, first, kind = stage.buffers[aggregate], first_column(stage, aggregate), sum_type(stage, aggregate)
    kept, last = F.col(f"value.c{first}"), F.col(f"value.c{first + buffer.columns - 1}")
    total = _scaled(kept, kind) if buffer.unscaled else kept
    if buffer.columns == 1:
        return total
    if buffer.unscaled and not rounded:
        inexact = _error(f"an average in the state of stage {stage.name} has a sum that a double has rounded", kind)
        total = F.when(F.abs(kept) < _EXACT, total).otherwise(inexact)
    overflowed = _error(f"a sum in the state of stage {stage.name} has overflowed", kind)
    empty = last if buffer.function == "Sum" else last == 0
    return F.when(~empty, F.coalesce(total, overflowed))


def _widened(column: Column, was: Any, now: Any) -> Column:
    """The column as a type that takes its values (`spark_types.widens`). A struct grows by nulls, field by field: Spark
    casts no struct to one with more fields."""
    if same(was, now):
        return column
    if not isinstance(now, dict):
        return column.cast(_type(now))
    if now["type"] == "array":
        return F.transform(column, lambda element: _widened(element, was["elementType"], now["elementType"]))
    if now["type"] == "map":
        return F.transform_values(column, lambda _, value: _widened(value, was["valueType"], now["valueType"]))
    kept = [_widened(column[b["name"]], b["type"], a["type"]) for b, a in zip(fields(was), fields(now), strict=False)]
    more = [F.lit(None).cast(_type(f["type"])) for f in fields(now)[len(kept) :]]
    return F.when(column.isNotNull(), F.struct(*kept, *more))


def _type(kind: Any) -> DataType:
    """A type from Spark's JSON."""
    field = {"name": "c", "type": kind, "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [field]})["c"].dataType
