"""Values in a form in which Spark can compare, group and order them, whatever their types.

Spark cannot group or order maps, variants, calendar intervals and times, takes strings of a collation for equal that
are not, and has two zeros. The normal form of a value has none of that, and two values have the same one exactly when
they are the same value:

- NaN is NaN, and -0.0 is 0.0; null is null only
- strings are compared by their bytes, whatever their collation
- maps by their entries in any order, structs by their fields in any order
- variants by their JSON and the types in it: 1 and 1.0 differ, two widths of integers do not
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

_INTEGERS = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 19}  # digits at most
_EXACT_IN = {T.FloatType: (T.ByteType, T.ShortType), T.DoubleType: (T.ByteType, T.ShortType, T.IntegerType)}
_PLAIN = (T.BooleanType, T.BinaryType, T.DateType, T.TimeType, T.TimestampType, T.TimestampNTZType,
          T.CalendarIntervalType, T.VariantType)  # fmt: skip
_PLACES = (T.GeometryType, T.GeographyType)


def common_type(old: T.DataType, new: T.DataType, same_name: Callable[[str], str]) -> T.DataType | None:
    """The type to which both can be cast without loss; None when there is none: no value of one is known to be a value
    of the other. same_name: what two names of one column have in common."""
    old, new = _of_sql(old), _of_sql(new)
    if isinstance(old, T.NullType) or isinstance(new, T.NullType):
        other = new if isinstance(old, T.NullType) else old
        return T.StringType() if isinstance(other, T.NullType) else common_type(other, other, same_name)
    if isinstance(old, T.StructType) and isinstance(new, T.StructType):
        return _common_struct(old, new, same_name)
    if isinstance(old, T.ArrayType) and isinstance(new, T.ArrayType):
        element = common_type(old.elementType, new.elementType, same_name)
        return element and T.ArrayType(element)
    if isinstance(old, T.MapType) and isinstance(new, T.MapType):
        key = common_type(old.keyType, new.keyType, same_name)
        value = common_type(old.valueType, new.valueType, same_name)
        return T.MapType(key, value) if key and value else None
    return _common_atomic(old, new)


def normal(value: Column, own: T.DataType, common: T.DataType, same_name: Callable[[str], str]) -> Column:
    """The normal form of a value of type `own`, as one of type `common` (`common_type`)."""
    if isinstance(own, T.UserDefinedType):
        return normal(F.unwrap_udt(value), _of_sql(own), common, same_name)
    if isinstance(own, T.NullType):
        return normal(value.cast(common), common, common, same_name)
    if isinstance(common, T.StructType):
        mine = {same_name(field.name): field for field in own.fields}
        pairs = [(mine[same_name(field.name)], field.dataType) for field in common.fields]
        parts = [normal(value.getField(field.name), field.dataType, kind, same_name) for field, kind in pairs]
        return _unless_null(value, _row(parts))
    if isinstance(common, T.ArrayType):
        return F.transform(value, lambda element: normal(element, own.elementType, common.elementType, same_name))
    if isinstance(common, T.MapType):
        return F.sort_array(
            F.transform(
                F.map_entries(value),
                lambda entry: _row(
                    [
                        normal(entry.getField("key"), own.keyType, common.keyType, same_name),
                        normal(entry.getField("value"), own.valueType, common.valueType, same_name),
                    ]
                ),
            )
        )
    return _normal_atomic(value if own == common else value.cast(common), common)


def text(value: Column, common: T.DataType) -> Column:
    """A value in normal form as a person reads it; null is null."""
    return _readable(value, common).cast("string")


def unlike(value: Column, own: T.DataType, version: str) -> Column:
    """A value that can be compared with none of the other version: as text with its type, beside the version. Only
    nulls are the same."""
    shown = F.hex(F.st_asbinary(value)) if isinstance(own, _PLACES) else value.cast("string")
    typed = F.concat(F.collate(shown, "UTF8_BINARY"), F.lit(f" ({own.simpleString()[:60]})"))
    return _unless_null(value, _row([F.lit(version), typed]))


def close(old: Column, new: Column, common: T.DataType, tolerance: float) -> Column:
    """Whether two values in normal form are the same, up to a relative difference where they are floating."""
    if tolerance and isinstance(common, (T.FloatType, T.DoubleType)):
        a, b = old.cast("double"), new.cast("double")
        near = F.abs(a - b) <= F.greatest(F.abs(a), F.abs(b)) * F.lit(tolerance)
        finite = F.greatest(F.abs(a), F.abs(b)) < F.lit(float("inf"))
        return old.eqNullSafe(new) | F.coalesce(near & finite, F.lit(False))
    return old.eqNullSafe(new)


def _of_sql(kind: T.DataType) -> T.DataType:
    """What Spark keeps of a user-defined type."""
    return _of_sql(kind.sqlType()) if isinstance(kind, T.UserDefinedType) else kind


def _common_struct(old: T.StructType, new: T.StructType, same_name: Callable[[str], str]) -> T.DataType | None:
    mine, other = ({same_name(f.name): f.dataType for f in kind.fields} for kind in (old, new))
    if mine.keys() != other.keys() or len(mine) < len(old.fields) or len(other) < len(new.fields):
        return None  # other fields, or two of one name
    kinds = [(f.name, common_type(f.dataType, other[same_name(f.name)], same_name)) for f in old.fields]
    fields = [T.StructField(name, kind) for name, kind in kinds if kind]
    return T.StructType(fields) if len(fields) == len(kinds) else None


def _common_atomic(old: T.DataType, new: T.DataType) -> T.DataType | None:
    if isinstance(old, T.StringType) and isinstance(new, T.StringType):
        return T.StringType()
    for kind in (T.YearMonthIntervalType, T.DayTimeIntervalType):
        if isinstance(old, kind) and isinstance(new, kind):
            return kind()
    if isinstance(old, _PLACES) or isinstance(new, _PLACES):
        return old if type(old) is type(new) else None
    if {type(old), type(new)} == {T.DateType, T.TimestampNTZType}:
        return T.TimestampNTZType()
    if isinstance(old, T.TimeType) and isinstance(new, T.TimeType):
        return max(old, new, key=lambda kind: getattr(kind, "precision", 0))
    if isinstance(old, _PLAIN):
        return old if type(old) is type(new) else None
    return _common_number(old, new)


def _common_number(old: T.DataType, new: T.DataType) -> T.DataType | None:
    if type(old) is type(new) and not isinstance(old, T.DecimalType):
        return old if isinstance(old, (*_INTEGERS, *_EXACT_IN)) else None
    for kind in (T.FloatType, T.DoubleType):
        exact = (kind, T.FloatType, *_EXACT_IN[kind])
        if isinstance(old, exact) and isinstance(new, exact):
            return kind()
    if isinstance(old, T.FloatType | T.DoubleType) or isinstance(new, T.FloatType | T.DoubleType):
        floats = (T.FloatType, T.DoubleType, *_EXACT_IN[T.DoubleType])
        return T.DoubleType() if isinstance(old, floats) and isinstance(new, floats) else None
    if isinstance(old, tuple(_INTEGERS)) and isinstance(new, tuple(_INTEGERS)):
        return max(old, new, key=lambda kind: _INTEGERS[type(kind)])
    a, b = _digits(old), _digits(new)
    if a is None or b is None:
        return None
    whole, after = max(a[0], b[0]), max(a[1], b[1])
    return T.DecimalType(whole + after, after) if whole + after <= 38 else None


def _digits(kind: T.DataType) -> tuple[int, int] | None:
    """Digits before and after the point of an exact number."""
    if isinstance(kind, T.DecimalType):
        return kind.precision - kind.scale, kind.scale
    return (_INTEGERS[type(kind)], 0) if type(kind) in _INTEGERS else None


def _normal_atomic(value: Column, kind: T.DataType) -> Column:
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        zero, nan = F.lit(0.0).cast(kind), F.lit(float("nan")).cast(kind)
        return F.when(F.isnan(value), nan).when(value == zero, zero).otherwise(value)
    if isinstance(kind, T.StringType):
        return F.collate(value, "UTF8_BINARY")
    if isinstance(kind, (T.CalendarIntervalType, T.TimeType)):
        return value.cast("string")  # an interval's names its months, days and microseconds
    if isinstance(kind, T.VariantType):
        return _unless_null(value, _row([F.to_json(value), F.schema_of_variant(value)]))
    if isinstance(kind, _PLACES):
        return _unless_null(value, _row([F.st_asbinary(value), F.st_srid(value)]))
    return value


def _row(parts: list[Column]) -> Column:
    """A struct, whose fields have names of their own: those of two versions may be spelled differently."""
    return F.struct(*(part.alias(f"f{at}") for at, part in enumerate(parts or [F.lit(True)])))


def _unless_null(value: Column, made: Column) -> Column:
    return F.when(value.isNotNull(), made)


def _readable(value: Column, kind: T.DataType) -> Column:
    """With bytes as hexadecimal digits, and variants and places without what only tells them apart."""
    if isinstance(kind, T.BinaryType):
        return F.lower(F.hex(value))
    if isinstance(kind, (T.VariantType, *_PLACES)):
        first = value.getField("f0")
        return first if isinstance(kind, T.VariantType) else F.lower(F.hex(first))
    if isinstance(kind, T.StructType):
        parts = [_readable(value.getField(f"f{at}"), field.dataType) for at, field in enumerate(kind.fields)]
        return _unless_null(value, _row(parts)) if parts else F.when(value.isNotNull(), F.lit("{}"))
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda element: _readable(element, kind.elementType))
    if isinstance(kind, T.MapType):
        return F.transform(
            value,
            lambda entry: _row(
                [_readable(entry.getField("f0"), kind.keyType), _readable(entry.getField("f1"), kind.valueType)]
            ),
        )
    return value
