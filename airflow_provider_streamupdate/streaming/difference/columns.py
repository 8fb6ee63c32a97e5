"""Which columns of two frames are compared, and as what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from ...core.errors import InvalidInputError
from .values import common_type


@attrs.frozen(kw_only=True)
class ComparedColumn:
    """A column that both versions have. old, new: the fields; common: the type as which it is compared (None: there is
    none, so that its values differ unless they are null)."""

    old: T.StructField
    new: T.StructField
    common: T.DataType | None

    @property
    def name(self) -> str:
        return self.new.name

    @property
    def unlike(self) -> str:
        """Why its values cannot be compared."""
        old, new = self.old.dataType.simpleString(), self.new.dataType.simpleString()
        types = f"is {old} in the old version and {new} in the new one" if old != new else f"is {new}"
        return f"column {self.name} {types}: its values cannot be compared, so they count as different"


@attrs.frozen(kw_only=True)
class Columns:
    """Of two frames.

    keys: positions in `compared`
    left_out: names that are not compared
    old_lacks, new_lacks: fields that only the other version has
    """

    compared: tuple[ComparedColumn, ...]
    keys: tuple[int, ...]
    left_out: tuple[str, ...]
    old_lacks: tuple[T.StructField, ...]
    new_lacks: tuple[T.StructField, ...]
    same_name: Callable[[str], str]

    @property
    def only_old(self) -> tuple[T.StructField, ...]:
        """Without those left out; likewise `only_new`."""
        return self._told(self.new_lacks)

    @property
    def only_new(self) -> tuple[T.StructField, ...]:
        return self._told(self.old_lacks)

    def _told(self, fields: tuple[T.StructField, ...]) -> tuple[T.StructField, ...]:
        left_out = set(map(self.same_name, self.left_out))
        return tuple(field for field in fields if self.same_name(field.name) not in left_out)

    @property
    def unlike(self) -> tuple[str, ...]:
        return tuple(column.unlike for column in self.compared if column.common is None)


def match_columns(old: DataFrame, new: DataFrame, keys: Sequence[str], left_out: Sequence[str] = ()) -> Columns:
    """Columns are matched by name, as the session compares names. InvalidInputError when a name is not clear."""
    if old.isStreaming or new.isStreaming:
        raise InvalidInputError("rows of a stream cannot be compared; compare those of its batches")
    same_name = _same_name(old)
    mine, other = _by_name("old", old, same_name), _by_name("new", new, same_name)
    old_lacks = tuple(field for name, field in other.items() if name not in mine)
    new_lacks = tuple(field for name, field in mine.items() if name not in other)
    without = _left_out(left_out, keys, {**mine, **other}, same_name)
    for fields in (mine, other):
        for name in without:
            fields.pop(name, None)
    compared = tuple(
        ComparedColumn(old=field, new=other[name], common=common_type(field.dataType, other[name].dataType, same_name))
        for name, field in mine.items()
        if name in other
    )
    return Columns(
        compared=compared,
        keys=_positions(keys, [same_name(column.name) for column in compared], mine, other, same_name),
        left_out=tuple(without.values()),
        old_lacks=old_lacks,
        new_lacks=new_lacks,
        same_name=same_name,
    )


def _left_out(
    names: Sequence[str], keys: Sequence[str], fields: dict[str, T.StructField], same_name: Callable[[str], str]
) -> dict[str, str]:
    """The names as the session compares them, and as they were given."""
    found = {same_name(name): name for name in names}
    for name, given in found.items():
        if name not in fields:
            known = ", ".join(field.name for field in fields.values())
            raise InvalidInputError(
                f"column {given!r} is expected to differ, and neither version's rows have it; correct its name "
                f"(expect_difference); they have: {known}"
            )
        if name in map(same_name, keys):
            raise InvalidInputError(
                f"column {given!r} is expected to differ, so that rows cannot be paired by it; take it "
                "out of the keys (--diff), or out of expect_difference"
            )
    return found


def _same_name(frame: DataFrame) -> Callable[[str], str]:
    exact = str(frame.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
    return str if exact else str.lower


def _by_name(version: str, frame: DataFrame, same_name: Callable[[str], str]) -> dict[str, T.StructField]:
    found: dict[str, T.StructField] = {}
    for field in frame.schema.fields:
        name = same_name(field.name)
        if name in found:
            both = repr(field.name) if found[name].name == field.name else f"{found[name].name!r} and {field.name!r}"
            raise InvalidInputError(f"the {version} version's rows have two columns named {both}; name them apart")
        found[name] = field
    return found


def _positions(
    keys: Sequence[str],
    compared: Sequence[str],
    old: dict[str, T.StructField],
    new: dict[str, T.StructField],
    same_name: Callable[[str], str],
) -> tuple[int, ...]:
    if isinstance(keys, str):
        raise InvalidInputError(f"keys={keys!r} must be a list of names: [{keys!r}]")
    found = []
    for key in keys:
        for version, fields in (("old", old), ("new", new)):
            if same_name(key) not in fields:
                names = ", ".join(field.name for field in fields.values()) or "none"
                raise InvalidInputError(f"key {key!r} is no column of the {version} version's rows; they have: {names}")
        if (at := compared.index(same_name(key))) in found:
            raise InvalidInputError(f"key {key!r} is given twice; name each key once")
        found.append(at)
    return tuple(found)
