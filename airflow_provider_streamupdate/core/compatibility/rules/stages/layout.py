"""The rules for the layout of a stage's state: its stores, and the types of the rows in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....plan.plan import StagePlan, StateSchema
from ....plan.spark_types import form
from ...state_row import WITH_BUFFERS, first_column
from ...verdict import REFUSED
from ..rule import Facts, Rule, differ
from .change import FUNCTIONS, StageChange, of


def _schemas(c: StageChange) -> Iterator[tuple[StateSchema, str, Any, Any]]:
    """Key and value of every column family both have."""
    old = {s.name: s for s in c.old.schemas}
    for schema in c.new.schemas:
        if before := old.get(schema.name):
            yield schema, "key", before.key, schema.key
            yield schema, "value", before.value, schema.value


def same_form(old: StagePlan, new: StagePlan) -> bool:
    """Whether the state rows of two stages have the same form, no matter what they mean."""
    forms = [(s.name, form(s.key), form(s.value)) for s in old.schemas]
    now = [(s.name, form(s.key), form(s.value)) for s in new.schemas]
    return (old.kind, old.operator, old.stores, forms) == (new.kind, new.operator, new.stores, now) and bool(forms)


def _families(c: StageChange) -> Facts | None:
    """Stores and column families; those of transformWithState are its state variables."""
    if c.old.kind != c.new.kind or c.new.kind == "transform-with-state":
        return None
    old, new = (sorted({*s.stores, *(f.name for f in s.schemas)}) for s in (c.old, c.new))
    return differ(old, new)


def _type(c: StageChange) -> Facts | None:
    named = c.new.kind in FUNCTIONS
    for schema, part, old, new in _schemas(c) if c.old.kind == c.new.kind else ():
        if form(old, named) != form(new, named):
            where = "" if schema.name == "default" else f" {schema.name}"
            return {"part": part, "where": where, "old": old, "new": new}
    return None


def _nullable(c: StageChange) -> Facts | None:
    for schema, part, old, new in _schemas(c) if c.old.kind == c.new.kind else ():
        lost = [path for path, nullable in _nullability(new) if not nullable and dict(_nullability(old)).get(path)]
        if part == "value" and c.new.kind in WITH_BUFFERS and c.old.buffers and c.new.buffers:
            # Which columns of a buffer are never null is up to its function alone (Count.count, Sum.isEmpty).
            first = first_column(c.new, 0)
            lost = [path for path in lost if not path.isdigit() or int(path) <= first]
        if lost:
            return {"part": part, "columns": ", ".join(lost), "where": schema.name}
    return None


@of("transform-with-state")
def _variable_nullability(c: StageChange) -> Facts | None:
    own = [(s.name, part, old, new) for s, part, old, new in _schemas(c) if not s.name.startswith("$")]
    values = [(name, old, new) for name, part, old, new in own if part == "value"]
    names = [n for n, old, new in values if form(old, True) == form(new, True) and _plain(old) != _plain(new)]
    return {"names": ", ".join(names)} if names else None


def _intervals(c: StageChange) -> Facts | None:
    if c.old.kind != c.new.kind:
        return None
    for schema in c.new.schemas:
        for part, row in (("key", schema.key), ("value", schema.value)):
            row = row.get("row", row) if isinstance(row, dict) else {}  # of a column family, beside its encoder
            fields = row.get("fields", ())
            if names := [f["name"] for f in fields if f["type"] == "interval" and f.get("nullable", True)]:
                return {"part": part, "columns": ", ".join(names)}
    return None


def _plain(schema: Any) -> Any:
    """A type without the metadata of its fields."""
    if isinstance(schema, dict):
        return {key: _plain(inner) for key, inner in schema.items() if key != "metadata"}
    return [_plain(inner) for inner in schema] if isinstance(schema, list) else schema


def _nullability(schema: Any, path: str = "") -> list[tuple[str, bool]]:
    """(position path, nullable) of every field."""
    found: list[tuple[str, bool]] = []
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    for number, field in enumerate(fields):
        here = f"{path}{number + 1}"
        found += [(here, bool(field.get("nullable", True))), *_nullability(field["type"], here + ".")]
    return found


_StageRule = Rule[StageChange]

LAYOUT_RULES: tuple[Rule[StageChange], ...] = (
    _StageRule(
        id="stage.families",
        verdict=REFUSED,
        change="another layout of stores or column families (another state format version)",
        reason="the stores changed from {old} to {new}",
        source="SymmetricHashJoinStateManager: formats 1 and 2 have four stores, 3 and 4 column families",
        applies=_families,
    ),
    _StageRule(
        id="stage.type",
        verdict=REFUSED,
        change="another type at the same position of the state (decimal precision and scale included)",
        reason="{part} type of the state{where} changed from {old} to {new}",
        source="UnsafeRow's layout follows the types; Spark refuses most of them itself",
        tests=(
            "spark/test_pairs.py::test_what_decides_a_result_is_not_carried_and_a_version_is_itself",
            "spark/test_migration.py::test_wider_numbers_and_longer_structs",
            "spark/test_own_migration.py::test_a_state_function_s_state_gains_a_field_and_keeps_its_timeouts",
        ),
        applies=_type,
        migratable=True,
    ),
    _StageRule(
        id="stage.nullability",
        verdict=REFUSED,
        change="a column of the state that was nullable and is not any more",
        reason="{part} columns {columns} of the state {where} were nullable and are not any more: old nulls would be "
        "read as values",
        source="generated code does not check the null bits of columns that are not nullable; measured: in the "
        "schemas of Spark 4.3's aggregations every column is nullable",
        tests=(
            "core/test_compatibility.py::test_types_of_the_state_at_the_same_place",
            "spark/test_refused.py::test_nulls_in_the_state_outlive_a_key_that_cannot_be_null_any_more",
        ),
        applies=_nullable,
    ),
    _StageRule(
        id="stage.variable-nullability",
        verdict=REFUSED,
        change="a field of a transformWithState variable that became nullable",
        reason="fields of the state variables {names} became nullable: old values in Avro would be read wrongly; "
        "leave the fields as they were, or give the variables other names",
        source="AvroStateEncoder: a nullable field is a union, which begins with an index; each row names the schema "
        "with which it was written, and a restored checkpoint has the new one only",
        applies=_variable_nullability,
    ),
    _StageRule(
        id="stage.interval",
        verdict=REFUSED,
        change="a nullable calendar interval in the state",
        reason="{part} columns {columns} of the state are calendar intervals: once one of them is null, Spark refuses "
        "to load the state on every restart; use a day-time interval (make_dt_interval) or a number instead",
        source="UnsafeRowUtils.validateStructuralIntegrity wants zeros in a null field, and UnsafeRowWriter keeps a "
        "null interval's offset there: STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE (measured; found by the fuzz)",
        tests=(
            "core/test_self_update.py::test_what_no_update_could_carry_is_refused_at_the_start",
            "spark/test_refused.py::test_a_null_interval_in_the_state_keeps_spark_from_loading_it",
        ),
        applies=_intervals,
        agreeable=True,
    ),
)
