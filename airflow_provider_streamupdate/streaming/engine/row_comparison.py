"""The rows of a muted query, recorded batch by batch, and their difference from another version's, as multisets.

Spark compares them by `exceptAll` in both directions. So NaN equals NaN, 0.0 equals -0.0, null equals null; text is
compared by its bytes, structs and arrays by their parts in order. Types whose equality in Spark is another one, or
unknown, are not compared: maps, variants, intervals, text of a collation, places, user-defined types.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import attrs
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ...core.difference.comparison import NEW, OLD, Comparison, note_rows, rows_of
from ...core.difference.request import ComparisonRequest, ExpectedDifferences
from ...core.difference.row_difference import CHANGED, MAX_SAMPLES, ONLY_NEW, ONLY_OLD, RowDifference, Sample
from ...core.errors import InvalidInputError
from ...core.storage import Folder

BATCHES_AT_ONCE = 30  # the folders of more are listed by a job of Spark's (parallelPartitionDiscovery.threshold, 32)
_TIMES = "spark.sql.parquet.outputTimestampType"  # milliseconds would hide smaller differences
_COLUMNS = "_columns.json"  # in the folder of a version's rows: their names and types
BATCH = "streamupdate__batch__"  # a column beside the recorded ones: their batch
_SIDE, _NUMBER, _EXPECTED, _KIND = (f"streamupdate__{name}__" for name in ("side", "number", "expected", "kind"))
_EQUAL = "equal"
_FETCHED = 20_000  # characters of a value
_ATOMIC = (T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType,
           T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType)  # fmt: skip


@attrs.frozen
class RecordedColumn:
    """A column of a version's rows."""

    name: str
    type: str
    comparable: bool


@attrs.frozen
class Recording:
    """The recorded rows of a version."""

    columns: tuple[RecordedColumn, ...]
    # Reads the rows: column number n is named `cn`, columns that are not comparable are missing, BATCH is added.
    read: Callable[[], DataFrame]


def columns_of(schema: T.StructType) -> tuple[RecordedColumn, ...]:
    """Return the columns of rows of a schema."""
    kinds = ((field.name, field.dataType) for field in schema.fields)
    return tuple(RecordedColumn(name, kind.simpleString(), is_comparable(kind)) for name, kind in kinds)


def is_comparable(kind: T.DataType) -> bool:
    """Return whether Spark's equality of a type is the one that is meant, and Parquet keeps its values."""
    if isinstance(kind, T.StructType):
        names = {field.name.lower() for field in kind.fields}
        return 0 < len(names) == len(kind.fields) and all(is_comparable(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return is_comparable(kind.elementType)
    if isinstance(kind, T.StringType):
        return kind == T.StringType()  # without a collation
    return isinstance(kind, _ATOMIC)


def recorder(rows: Folder) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes the rows of each batch into a folder of their own. Columns that
    cannot be compared are left out: Parquet cannot hold all of them."""

    def record(batch: DataFrame, number: int) -> None:
        columns = columns_of(batch.schema)
        if not rows.exists(_COLUMNS):
            rows.write(_COLUMNS, json.dumps([attrs.astuple(column) for column in columns]).encode())
        where = f"{number}-{uuid.uuid4().hex[:8]}"
        kept = [f"c{at}" for at, column in enumerate(columns) if column.comparable]
        if kept:
            frame = batch.toDF(*(f"c{at}" for at in range(len(columns)))).select(*kept)
            with _setting(batch.sparkSession, _TIMES, "TIMESTAMP_MICROS"):
                frame.write.parquet(rows.sub(where).uri)
        note_rows(rows, number, where)

    return record


@contextmanager
def _setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Replace a setting of the app for a while."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


def compare_recorded(spark: SparkSession, comparison: Comparison) -> None:
    """Compare batches that both versions have recorded, and store the findings: of each query those that have waited
    longest, at most BATCHES_AT_ONCE, in one pass."""
    request, expected = comparison.request(), comparison.expected()
    if request is None or expected is None:
        return
    for query in request.keys:
        batches = comparison.recorded(query)[:BATCHES_AT_ONCE]
        if not batches:
            continue
        old, new = (_recording(spark, comparison.rows(version, query), batches) for version in (OLD, NEW))
        difference = compare_rows(query, old, new, request, expected)
        comparison.add(attrs.evolve(difference, batches=tuple(batches)))
        comparison.remove_compared(query)


def _recording(spark: SparkSession, rows: Folder, batches: Sequence[int]) -> Recording:
    columns = tuple(RecordedColumn(*column) for column in json.loads(rows.read(_COLUMNS) or b"[]"))

    def read() -> DataFrame:
        folders = rows.read_many(lambda batch: rows_of(rows, batch), batches)
        frame = spark.read.parquet(*(rows.sub(folder).uri for folder in folders))
        batch = F.regexp_extract("_metadata.file_path", r"/(\d+)-[0-9a-f]+/[^/]*$", 1).cast("int")
        return frame.withColumn(BATCH, batch)

    return Recording(columns, read)


def compare_rows(
    query: str, old: Recording, new: Recording, request: ComparisonRequest, expected: ExpectedDifferences
) -> RowDifference:
    """Compare the rows of a query. Rows that cannot be compared as requested have a `not_compared` and no numbers."""
    keys, left_out = request.keys[query], expected.columns(query)
    try:
        names = _common_columns(old.columns, new.columns, keys, left_out)
        before, after = (_select(recording, names) for recording in (old, new))
        differences = _differences(before, after, names, expected.predicates(query))
    except InvalidInputError as error:
        return RowDifference(query=query, keys=keys, not_compared=str(error))
    types = [next(column.type for column in new.columns if column.name == name) for name in names]
    pairs = _pairs(differences, [names.index(key) for key in keys], types, request.tolerance)
    counts = {(row[_KIND], row[_EXPECTED]): row["count"] for row in pairs.groupBy(_KIND, _EXPECTED).count().collect()}
    old_rows = sum(number for (kind, _), number in counts.items() if kind != ONLY_NEW)
    found = {kind: counts.get((kind, False), 0) for kind in (CHANGED, ONLY_OLD, ONLY_NEW)}
    return RowDifference(
        query=query,
        keys=keys,
        equal=before.count() - old_rows + sum(n for (kind, _), n in counts.items() if kind == _EQUAL),
        changed=found[CHANGED],
        only_old=found[ONLY_OLD],
        only_new=found[ONLY_NEW],
        expected=sum(number for (kind, is_expected), number in counts.items() if is_expected and kind != _EQUAL),
        samples=_samples(pairs, names, types) if any(found.values()) else (),
        new_columns=tuple(c.name for c in new.columns if c.name not in {*names, *left_out}),
        left_out=tuple(left_out),
    )


def _common_columns(
    old: Sequence[RecordedColumn], new: Sequence[RecordedColumn], keys: Sequence[str], left_out: Sequence[str]
) -> list[str]:
    """Return the names of the columns to compare. InvalidInputError says why rows cannot be compared."""
    known = [column.name for column in (*old, *new)]
    if unknown := [name for name in left_out if name not in known]:
        raise InvalidInputError(f"expect_difference names {', '.join(unknown)}; the rows have {', '.join(known)}")
    mine, other = ([column for column in columns if column.name not in left_out] for columns in (old, new))
    for version, columns in (("old", mine), ("new", other)):
        names = [column.name for column in columns]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidInputError(f"the {version} version's rows have two columns named {twice[0]}")
    types = {column.name: column for column in other}
    for column in mine:
        if column.name not in types:
            raise InvalidInputError(f"the new version's rows have no {column.name}{_ADVICE}")
        if column.type != types[column.name].type:
            raise InvalidInputError(f"{column.name} was {column.type} and is {types[column.name].type}{_ADVICE}")
        if not column.comparable:
            raise InvalidInputError(f"{column.name} is {column.type}, which cannot be compared{_ADVICE}")
    names = [column.name for column in mine]
    if unknown := [key for key in keys if key not in names]:
        raise InvalidInputError(f"key {', '.join(unknown)} is no compared column; these are {', '.join(names)}")
    if not names:
        raise InvalidInputError("no column is left to compare")
    return names


_ADVICE = "; to compare the other columns, call expect_difference with column="


def _select(recording: Recording, names: Sequence[str]) -> DataFrame:
    """Read these columns, named by their position, and BATCH."""
    at = {column.name: f"c{number}" for number, column in enumerate(recording.columns)}
    columns = [F.col(at[name]).alias(str(position)) for position, name in enumerate(names)]
    return recording.read().select(*columns, BATCH)


def _differences(old: DataFrame, new: DataFrame, names: Sequence[str], predicates: Sequence[str]) -> DataFrame:
    """Return the rows of each version that the other one lacks, with _SIDE and _EXPECTED."""
    gone, added = old.exceptAll(new), new.exceptAll(old)
    both = gone.withColumn(_SIDE, F.lit(ONLY_OLD)).unionAll(added.withColumn(_SIDE, F.lit(ONLY_NEW)))
    named = both.toDF(*names, BATCH, _SIDE)
    expected = F.lit(False)
    for predicate in predicates:
        try:
            named.where(F.expr(predicate))  # `where` rejects aggregates, generators and what is not boolean
        except (ParseException, AnalysisException) as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), "").partition(" SQLSTATE")[0]
            raise InvalidInputError(
                f"expected difference {predicate!r} is no condition on the columns {', '.join(names)}: {reason}"
            ) from error
        expected = expected | F.coalesce(F.expr(predicate), F.lit(False))
    return named.select("*", expected).toDF(*both.columns, _EXPECTED)


def _pairs(differences: DataFrame, keys: Sequence[int], types: Sequence[str], tolerance: float) -> DataFrame:
    """Pair the rows of the same batch and keys: of several, the first with the first in the order of their values.
    Without keys no rows are paired. Return `old`, `new`, BATCH, _KIND and _EXPECTED."""
    values = [str(at) for at in range(len(types))]
    together = [BATCH, *(str(at) for at in keys)] if keys else [BATCH, *values]
    order = Window.partitionBy(*together, _SIDE).orderBy(*values)
    row = F.struct(*values)
    pairs = (
        differences.withColumn(_NUMBER, F.row_number().over(order))
        .groupBy(*together, _NUMBER)
        .agg(
            F.first(F.when(F.col(_SIDE) == ONLY_OLD, row), ignorenulls=True).alias("old"),
            F.first(F.when(F.col(_SIDE) == ONLY_NEW, row), ignorenulls=True).alias("new"),
            F.bool_and(_EXPECTED).alias(_EXPECTED),
        )
    )
    both = F.col("old").isNotNull() & F.col("new").isNotNull()
    close = F.lit(tolerance > 0)
    for value, kind in zip(values, types, strict=True):
        close = close & _is_close(F.col("old").getField(value), F.col("new").getField(value), kind, tolerance)
    pair = F.when(close, _EQUAL).otherwise(CHANGED)
    kind = F.when(both, pair).when(F.col("new").isNull(), ONLY_OLD).otherwise(ONLY_NEW)
    return pairs.select("old", "new", BATCH, kind.alias(_KIND), _EXPECTED)


def _is_close(old: Column, new: Column, kind: str, tolerance: float) -> Column:
    """Return whether two values are equal, or floating ones that differ by the tolerance at most."""
    if kind not in ("float", "double"):
        return old.eqNullSafe(new)
    largest = F.greatest(F.abs(old), F.abs(new)).cast("double")
    near = F.abs(old.cast("double") - new.cast("double")) <= largest * F.lit(tolerance)
    return old.eqNullSafe(new) | F.coalesce(near & (largest < F.lit(float("inf"))), F.lit(False))


def _samples(pairs: DataFrame, names: Sequence[str], types: Sequence[str]) -> tuple[Sample, ...]:
    """Return the first rows that are not expected to differ, as texts."""

    def texts(side: str) -> Column:
        values = [F.col(side).getField(str(at)) for at in range(len(names))]
        plain = [F.hex(value) if kind == "binary" else value for value, kind in zip(values, types, strict=True)]
        return F.array(*(F.substring(value.cast("string"), 1, _FETCHED) for value in plain)).alias(side)

    chosen = pairs.where(~F.col(_EXPECTED) & (F.col(_KIND) != _EQUAL)).orderBy(BATCH, F.coalesce("old", "new"), _KIND)
    rows = chosen.limit(MAX_SAMPLES).select(_KIND, BATCH, texts("old"), texts("new")).collect()
    return tuple(
        Sample.of(
            None if row[_KIND] == ONLY_NEW else dict(zip(names, row["old"], strict=True)),
            None if row[_KIND] == ONLY_OLD else dict(zip(names, row["new"], strict=True)),
            row[BATCH],
        )
        for row in rows
    )
