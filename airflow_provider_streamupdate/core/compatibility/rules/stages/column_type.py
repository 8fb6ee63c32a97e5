"""The rules for source columns (or fields of them) whose type changed, under a stage whose definition is unchanged.

Columns of other types are equal in an expression. Where the state holds a column unchanged, the layout's rules compare
its type. Where the state was computed from it, another type gives other values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from ....plan.differences import shortened
from ....plan.expressions import Call, Column, Expression
from ....plan.plan import StagePlan
from ....plan.rendering import words
from ....plan.visitors import contains
from ...verdict import CARRIED, LOSS, REFUSED
from ..rule import Facts, Rule
from .change import FUNCTIONS, StageChange, of

_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_DECIMAL = re.compile(r"decimal\(\d+, ?\d+\)")
# What these aggregates keep is a column's own value, which the layout's rules compare; or a sum that is as wide for all
# integers; or no value at all. The buffers of any other function may depend on the type: hashes, sketches, lists.
_KEEP_VALUES = ("min", "max", "first", "last", "anyvalue")
_ADD_UP = ("sum", "average")


_Changes = dict[Column, tuple[str, str]]


def _changed(c: StageChange) -> _Changes:
    """Return the types before and after by column."""
    if c.old.kind != c.new.kind:
        return {}
    old, new = c.old.types, c.new.types
    return {column: (old[column], new[column]) for column in old.keys() & new.keys() if old[column] != new[column]}


def _listed(changes: _Changes) -> Facts | None:
    told = sorted(f"{words(column)} from {old} to {new}" for column, (old, new) in changes.items())
    return {"changes": shortened(told)} if told else None


def _matters(c: StageChange, column: Column, old: str, new: str) -> bool:
    """Return whether the stage's state depends on the column's type in a way that its layout does not show."""
    uses = [
        (part, expression)
        for part, expressions in {**c.new.expressions, "aggregates": _aggregates(c.new)}.items()
        for expression in expressions
        if contains(expression, column)
    ]
    of_join = c.new.kind == "join"
    return not uses or not all(
        _shown("join keys" if of_join and part == "keys" else part, e, column, old, new) for part, e in uses
    )


def _aggregates(stage: StagePlan) -> Iterator[Expression]:
    """Yield the aggregates, without what the optimizer puts around short decimals."""
    for number, aggregate in enumerate(stage.aggregates):
        buffer = stage.buffers[number] if number < min(len(stage.buffers), len(stage.aggregated)) else None
        plain = isinstance(aggregate, Call) and aggregate.function != "filter"  # which may read the column as well
        if buffer and buffer.unscaled and plain:
            yield attrs.evolve(stage.aggregated[number], function=buffer.function.lower())
        else:
            yield aggregate


def _shown(part: str, expression: Expression, column: Column, old: str, new: str) -> bool:
    """Return whether the type does not matter for this expression, or the layout's rules compare it."""
    plain = _named_alike(old, new)
    itself = expression == column
    if part == "join keys":  # equalities, whose sides the state holds
        return plain and column in expression.children
    if part in ("keys", "left columns", "right columns"):
        return plain and itself
    if part == "condition":
        return _wider(old, new)
    if part != "aggregates" or not isinstance(expression, Call) or not expression.arguments:
        return False
    if expression.arguments[0] != column:
        return False
    if expression.function == "count" and len(expression.arguments) == 1:
        return True
    others = (*expression.arguments[1:], *(value for _, value in expression.options))
    if any(contains(each, column) for each in others):
        return False
    adds_up = expression.function in _ADD_UP and _adds_alike(old, new)
    return adds_up or (expression.function in _KEEP_VALUES and plain)


def _adds_alike(old: str, new: str) -> bool:
    """A sum has one type for all integers; a sum of decimals has its own type, which the state's form shows."""
    return _wider(old, new) or bool(_DECIMAL.fullmatch(old) and _DECIMAL.fullmatch(new))


def _named_alike(old: str, new: str) -> bool:
    """Whether two types have the same names of fields at the same places, the new one maybe more at the end, and the
    same collations: neither is in a row's form, which shows the rest."""
    if old.startswith("struct<") and new.startswith("struct<"):
        before, after = _parts(old), _parts(new)
        fields = [(f.partition(" ")[::2], g.partition(" ")[::2]) for f, g in zip(before, after, strict=False)]
        return len(before) <= len(after) and all(n == m and _named_alike(k, j) for (n, k), (m, j) in fields)
    for outer in ("array<", "map<"):
        if old.startswith(outer) and new.startswith(outer):
            return all(_named_alike(o, n) for o, n in zip(_parts(old), _parts(new), strict=True))
    plain = not any(re.search(r"[<`(]| collate ", _DECIMAL.sub("", kind)) for kind in (old, new))
    return old == new or plain


def _parts(kind: str) -> list[str]:
    """The fields of a struct, the element of an array, the key and value of a map."""
    found, depth, start = [], 0, kind.index("<") + 1
    for place in range(start, len(kind)):
        depth += (kind[place] in "<([") - (kind[place] in ">)]")
        if depth < 0 or (depth == 0 and kind.startswith(", ", place)):
            found.append(kind[start:place])
            start = place + 2
        if depth < 0:
            break
    return found


def _wider(old: str, new: str) -> bool:
    """Whether both are integers and the new one is wider. A float becomes another number as a double (0.1)."""
    return old in _NUMBERS and new in _NUMBERS and _NUMBERS.index(old) < _NUMBERS.index(new)


def _read_otherwise(c: StageChange) -> Facts | None:
    """The changed types that are carried."""
    if c.new.kind in FUNCTIONS:
        return None
    found = {p: pair for p, pair in _changed(c).items() if not _matters(c, p, *pair)}
    return _listed(found)


def _type(c: StageChange) -> Facts | None:
    if c.new.kind in FUNCTIONS:
        return None
    found = {p: pair for p, pair in _changed(c).items() if _matters(c, p, *pair)}
    return _listed(found)


@of(*FUNCTIONS)
def _function_type(c: StageChange) -> Facts | None:
    found = {p: (a, b) for p, (a, b) in _changed(c).items() if not _wider(a, b)}
    return _listed(found)


COLUMN_TYPE_RULES: tuple[Rule[StageChange], ...] = (
    Rule[StageChange](
        id="stage.read-otherwise",
        verdict=CARRIED,
        change="another type of a source column that the state holds unchanged, counts, or adds up",
        reason="rows from now on are read with another type: {changes}; values that did not fit the old type were "
        "null, rounded or an error, and the state keeps them so",
        source="measured: 3000000000 in a JSON column that was int is null in the state, and a number from now on",
        applies=_read_otherwise,
    ),
    Rule[StageChange](
        id="stage.column-type",
        verdict=REFUSED,
        change="another type of a source column (or of a field in it) from which a key, an aggregate or a condition "
        "is computed; fields of a struct in another order. Not: wider integers under sum and avg, any type under "
        "count, a column that the state holds unchanged (its own rules say what is migrated)",
        reason="the type of {changes} changed, and the state was computed with the old type",
        restart=True,
        source="measured: collect_list of a column that was int and is now bigint reads [25769803781, 7, 1, 8]; "
        "hashes, casts to string, sketches, percentile and mode give other values for another type",
        tests=(
            "core/test_column_types.py::test_what_depends_on_a_column_s_type",
            "spark/test_pairs.py::test_a_type_that_the_state_does_not_show",
        ),
        applies=_type,
        agreeable=True,
    ),
    Rule[StageChange](
        id="stage.input-type",
        verdict=LOSS,
        change="another type of a column that a state function reads; wider integers are the same in Python",
        reason="the type of {changes} changed, which the state function receives; agree if the state that it has kept "
        "still fits",
        source="a Python function receives another class of value, or another precision",
        tests=("core/test_column_types.py::test_a_state_function_s_input",),
        applies=_function_type,
    ),
)
