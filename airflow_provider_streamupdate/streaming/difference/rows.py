"""Compare the rows that two versions made, as multisets, in one pass of Spark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ...core.difference.row_difference import CHANGED, ONLY_NEW, ONLY_OLD, RowDifference, Sample
from ...core.errors import InvalidInputError
from .columns import Columns, ComparedColumn, match_columns
from .values import close, normal, text, unlike

FETCHED = 20_000  # characters of a value; a sample shows those where it differs
MOST_SAMPLES = 1000
_FIELDS = {CHANGED: "changed", ONLY_OLD: "only_old", ONLY_NEW: "only_new"}


def compare_rows(
    old: DataFrame,
    new: DataFrame,
    keys: Sequence[str] = (),
    expected: Sequence[str] = (),
    samples: int = 10,
    tolerance: float = 0.0,
    query: str = "",
    apart: str | None = None,
    left_out: Sequence[str] = (),
) -> RowDifference:
    """How the new version's rows differ from the old one's. Both frames are read once.

    Rows are compared by the columns that both have, matched by name, as multisets: neither the order of rows nor that
    of columns counts, and duplicates do. `values.py` says when two values are the same.

    keys: columns by which rows that differ are paired. Where several rows of a version have the same keys, those that
        differ are ordered by their other columns, and the first is paired with the first. Without keys no row is
        paired
    expected: SQL predicates. A row is expected to differ when one of them is true for it, not null; a pair when that
        holds for both of its rows. A column that a version does not have is null in its rows
    samples: how many rows that differ are kept, of each kind about as many
    tolerance: with keys, a pair is the same when its floating columns differ by this share at most, and the others do
        not differ. Not within structs, lists and maps
    apart: a column of both, which is not itself compared: a row is only compared with those of the same value in it
    left_out: columns that are not compared; InvalidInputError where neither version has one, or it is a key
    """
    plain = (old, new) if apart is None else (old.drop(apart), new.drop(apart))
    columns = match_columns(*plain, keys, left_out)
    _check_options(columns, samples, tolerance)
    predicates = _predicates(expected)
    frames = (_with_columns(old, columns.old_lacks), _with_columns(new, columns.new_lacks))
    for frame, predicate in ((frame, predicate) for predicate in predicates for frame in frames):
        _check_predicate(predicate, frame, plain)
    of = F.lit(0) if apart is None else F.col(apart)
    both = _rows(frames[0], columns, predicates, of, old=True).unionAll(
        _rows(frames[1], columns, predicates, of, old=False)
    )
    counted = _counted(both, columns)
    paired = _paired(counted, columns, tolerance) if columns.keys else _single(counted, columns)
    return _told(_summary(paired, columns, samples), columns, query, samples, apart)


def _check_options(columns: Columns, samples: int, tolerance: float) -> None:
    if not 0 <= samples <= MOST_SAMPLES:
        raise InvalidInputError(f"samples={samples} must be between 0 and {MOST_SAMPLES}")
    if not (math.isfinite(tolerance) and 0 <= tolerance < 1):
        raise InvalidInputError(f"tolerance={tolerance!r} must be a share of 0 or more and below 1")
    if tolerance and not columns.keys:
        raise InvalidInputError("a tolerance needs keys: without them no two rows belong together")


def _predicates(expected: Sequence[str]) -> list[str]:
    if isinstance(expected, str):
        raise InvalidInputError(f"expected={expected!r} must be a list of predicates: [{expected!r}]")
    return list(expected)


def _with_columns(frame: DataFrame, missing: Iterable[T.StructField]) -> DataFrame:
    """With null in the columns that only the other version has."""
    nulls = [F.lit(None).cast(field.dataType).alias(field.name) for field in missing]
    return frame.select("*", *nulls) if nulls else frame


def _check_predicate(predicate: str, frame: DataFrame, frames: tuple[DataFrame, DataFrame]) -> None:
    """Have Spark resolve it, before any row is read."""
    try:
        frame.where(F.expr(predicate))  # only here Spark refuses what is of many rows, or makes some
        frame.select(_holds(predicate))
    except ParseException as error:
        raise InvalidInputError(f"expected difference {predicate!r} is not SQL: {_first_line(error)}") from error
    except AnalysisException as error:
        unknown = (error.getCondition() or "").startswith("UNRESOLVED_COLUMN")
        if not unknown:
            raise InvalidInputError(
                f"expected difference {predicate!r} is no condition on a row: {_first_line(error)}"
            ) from error
        name = (error.getMessageParameters() or {}).get("objectName", "a column")
        names = dict.fromkeys(column for one in frames for column in one.columns)
        raise InvalidInputError(
            f"expected difference {predicate!r} names {name}, which neither version's rows have; they have: "
            f"{', '.join(names)}"
        ) from error


def _holds(predicate: str) -> Column:
    """Whether it is true, and not null."""
    return F.coalesce(F.expr(predicate).cast("boolean"), F.lit(False))


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].partition(" SQLSTATE")[0] if lines else type(error).__name__


def _names(columns: Columns) -> list[str]:
    """Of the values in normal form."""
    return [f"c{at}" for at in range(len(columns.compared))] or ["c0"]


def _rows(frame: DataFrame, columns: Columns, predicates: Sequence[str], of: Column, old: bool) -> DataFrame:
    """The compared columns in normal form, `old` or `new` 1, whether the row is expected to differ, and what it must
    have in common with those that it is compared with (`of`)."""
    values = [_value(column, columns, old) for column in columns.compared] or [F.lit(int(old))]
    holds = F.lit(False)
    for predicate in predicates:
        holds = holds | _holds(predicate)
    return frame.select(
        *(value.alias(name) for value, name in zip(values, _names(columns), strict=True)),
        F.lit(int(old)).alias("old"),
        F.lit(int(not old)).alias("new"),
        holds.cast("int").alias("expected"),
        of.alias("of"),
    )


def _value(column: ComparedColumn, columns: Columns, old: bool) -> Column:
    field = column.old if old else column.new
    value = F.col("`" + field.name.replace("`", "``") + "`")
    if column.common is None:
        return unlike(value, field.dataType, "old" if old else "new")
    return normal(value, field.dataType, column.common, columns.same_name)


def _counted(both: DataFrame, columns: Columns) -> DataFrame:
    """Each distinct row: how often both versions have it (`equal`), how often more the old (`more_old`) or the new one
    (`more_new`) does, and how many of those are expected (`expected`). Of rows that differ in nothing but that, those
    expected are taken for the equal ones: in doubt, a difference is not expected.

    All rows of the same keys are brought together here, so that pairing them moves none."""
    names = _names(columns)
    together = [names[at] for at in columns.keys] or names
    both = both.repartition(both.sparkSession.sparkContext.defaultParallelism, *together, "of")
    surplus = F.abs(F.col("olds") - F.col("news"))
    doubtful = F.when(F.col("olds") > F.col("news"), F.col("olds_not")).otherwise(F.col("news_not"))
    return (
        both.groupBy(*names, "of")
        .agg(
            F.sum("old").alias("olds"),
            F.sum("new").alias("news"),
            F.sum(F.col("old") * (1 - F.col("expected"))).alias("olds_not"),
            F.sum(F.col("new") * (1 - F.col("expected"))).alias("news_not"),
        )
        .select(
            *names,
            "of",
            F.least("olds", "news").alias("equal"),
            F.greatest(F.col("olds") - F.col("news"), F.lit(0)).alias("more_old"),
            F.greatest(F.col("news") - F.col("olds"), F.lit(0)).alias("more_new"),
            (surplus - F.least(surplus, doubtful)).alias("expected"),
        )
    )


def _single(counted: DataFrame, columns: Columns) -> DataFrame:
    """Without keys: each row alone. `times`: how many of them differ and are not expected."""
    row = F.struct(*_names(columns))
    surplus = F.col("more_old") + F.col("more_new")
    return counted.select(
        "equal",
        F.when(F.col("more_old") > 0, ONLY_OLD).when(F.col("more_new") > 0, ONLY_NEW).alias("kind"),
        F.when(F.col("more_old") > 0, row).alias("old"),
        F.when(F.col("more_new") > 0, row).alias("new"),
        (surplus - F.col("expected")).alias("times"),
        F.col("expected").alias("expected"),
        "of",
    )


def _paired(counted: DataFrame, columns: Columns, tolerance: float) -> DataFrame:
    """With keys: the rows that differ, those of the same keys in pairs. `times`: 1 when not expected."""
    names = _names(columns)
    keys = [names[at] for at in columns.keys]
    others = [name for name in names if name not in keys]
    surplus = F.col("more_old") + F.col("more_new")
    repeated = F.concat(
        F.array_repeat(F.lit(False), (surplus - F.col("expected")).cast("int")),
        F.array_repeat(F.lit(True), F.col("expected").cast("int")),
    )
    each = counted.select(
        *names, "of", "equal", "more_old", F.posexplode_outer(F.when(surplus > 0, repeated)).alias("at", "holds")
    ).select(
        *names,
        "of",
        F.when(F.coalesce("at", F.lit(0)) == 0, F.col("equal")).otherwise(0).alias("equal"),
        F.when(F.col("at").isNull(), 0).when(F.col("more_old") > 0, 1).otherwise(2).alias("side"),
        "holds",
    )
    order = Window.partitionBy(*keys, "of", "side").orderBy(*others, "holds")
    numbered = each.withColumn("number", F.when(F.col("side") > 0, F.row_number().over(order)).otherwise(0))
    row = F.struct(*names)
    pairs = numbered.groupBy(*keys, "of", "number").agg(
        F.sum("equal").alias("equal"),
        F.max(F.when(F.col("side") == 1, row)).alias("old"),
        F.max(F.when(F.col("side") == 2, row)).alias("new"),
        F.coalesce(F.bool_and("holds"), F.lit(False)).alias("holds"),
    )
    two = F.col("old").isNotNull() & F.col("new").isNotNull()
    same = two & _close(columns, tolerance) if tolerance else F.lit(False)
    kind = F.when(two, CHANGED).when(F.col("old").isNotNull(), ONLY_OLD).when(F.col("new").isNotNull(), ONLY_NEW)
    differs = kind.isNotNull() & ~same
    return pairs.select(
        (F.col("equal") + same.cast("int")).alias("equal"),
        F.when(differs, kind).alias("kind"),
        "old",
        "new",
        (differs & ~F.col("holds")).cast("int").alias("times"),
        (differs & F.col("holds")).cast("int").alias("expected"),
        "of",
    )


def _close(columns: Columns, tolerance: float) -> Column:
    same = F.lit(True)
    for name, column in zip(_names(columns), columns.compared, strict=False):
        old, new = F.col("old").getField(name), F.col("new").getField(name)
        same = same & (close(old, new, column.common, tolerance) if column.common else old.eqNullSafe(new))
    return same


def _summary(paired: DataFrame, columns: Columns, samples: int) -> Any:
    """Numbers and samples in one row. Only the rows that are kept are made to text."""
    row = F.struct("old", "new", "of")
    of_kind = {kind: (F.col("kind") == kind) & (F.col("times") > 0) for kind in _FIELDS}
    summed = paired.agg(
        F.sum("equal").alias("equal"),
        F.sum("expected").alias("expected"),
        *(F.sum(F.when(holds, F.col("times"))).alias(_FIELDS[kind]) for kind, holds in of_kind.items()),
        *(_first(row, holds, max(samples, 1)).alias(f"{_FIELDS[kind]}_rows") for kind, holds in of_kind.items()),
    )
    texts = (_texts(F.col(f"{field}_rows"), columns).alias(f"{field}_rows") for field in _FIELDS.values())
    return summed.select("equal", "expected", *_FIELDS.values(), *texts).collect()[0]


def _first(row: Column, holds: Column, number: int) -> Column:
    """The first rows of all in the order of their values."""
    chosen = F.when(holds, row)
    return F.min_by(chosen, chosen, number)


def _texts(rows: Column, columns: Columns) -> Column:
    """The rows with a list of texts a side and whether they differ, in the order of the columns, and `of`."""

    def side(row: Column) -> Column:
        named = zip(_names(columns), columns.compared, strict=False)
        texts = [F.substring(_text(row.getField(name), column), 1, FETCHED) for name, column in named]
        return F.when(row.isNotNull(), F.array(*texts).cast("array<string>"))

    def both(row: Column) -> Column:
        old, new = row.getField("old"), row.getField("new")
        named = zip(_names(columns), columns.compared, strict=False)
        unlike = [~old.getField(name).eqNullSafe(new.getField(name)) for name, _ in named]
        return F.struct(
            side(old).alias("old"),
            side(new).alias("new"),
            F.array(*unlike).cast("array<boolean>").alias("unlike"),
            row.getField("of").alias("of"),
        )

    return F.transform(rows, both)


def _text(value: Column, column: ComparedColumn) -> Column:
    return text(value, column.common) if column.common else value.getField("f1")


def _told(summary: Any, columns: Columns, query: str, samples: int, apart: str | None) -> RowDifference:
    counts: dict[str, Any] = {field: summary[field] or 0 for field in _FIELDS.values()}
    found = [list(_samples(kind, summary[f"{field}_rows"] or (), columns, apart)) for kind, field in _FIELDS.items()]
    in_turn = (sample for turn in zip_longest(*found) for sample in turn if sample)
    return RowDifference(
        query=query,
        keys=tuple(columns.compared[at].name for at in columns.keys),
        equal=summary["equal"] or 0,
        expected=summary["expected"] or 0,
        **counts,
        samples=tuple(islice(in_turn, samples)),
        old_columns=tuple(field.name for field in columns.only_old),
        new_columns=tuple(field.name for field in columns.only_new),
        unlike=columns.unlike,
        left_out=columns.left_out,
    )


def _samples(kind: str, rows: Iterable[Any], columns: Columns, apart: str | None) -> Iterator[Sample]:
    names = [column.name for column in columns.compared]
    for row in rows:
        old, new = (None if side is None else dict(zip(names, side, strict=True)) for side in (row["old"], row["new"]))
        differ = [name for name, yes in zip(names, row["unlike"], strict=True) if yes]
        yield Sample.of(kind, old, new, differ, row["of"] if apart else None)
