"""The rules of migration: how the state rows of a changed stage are rewritten for the new plan, or why they cannot be.
Pure functions of two stage plans; `streaming.migrator` carries out what they decide.

What an aggregation keeps (StreamingAggregationStateManagerImplV2 of Spark 4.3): the key row holds the grouping keys,
the value row the buffers of its aggregates one after the other, each some columns wide (AggregateFunction's
aggBufferAttributes; recorded in StagePlan.buffers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs

from ..checkpoint.join_state import (
    SIDES,
    UNKNOWN_SIDES,
    by_time,
    event_time,
    says_matched,
    side_rows,
    sides_known,
)
from ..clock import duration
from ..plan.expressions import EITHER, Call, Expression, Window
from ..plan.plan import Expressions, Join, Processor, StagePlan, StateSchema, StateVariable, Watermark, in_order
from ..plan.rendering import words
from ..plan.spark_types import ddl, fields, form, row_ddl, same, widens, widens_number
from ..plan.visitors import contains, is_comparable
from .state_row import WITH_BUFFERS, first_column, key_columns, keys_in_value, sum_type, value_row

# Aggregates whose buffers, made of different rows, can be put together without those rows. Sum and Average add up,
# Min and Max compare. For others either the order of rows decides (First, CollectList), or it is not done yet.
MERGEABLE = ("Count", "Sum", "Average", "Min", "Max")

# Kinds whose state is one store of plain key and value rows, which an app's own function may rewrite.
_SEEN = ("deduplicate", "deduplicate-within-watermark")
OWN = (*WITH_BUFFERS, *_SEEN, "apply-in-pandas-with-state")


@attrs.frozen(kw_only=True)
class NewKey:
    """A new key column: the old column it is made of, and for a wider window that window."""

    source: int
    window: Window | None = None


@attrs.frozen(kw_only=True)
class Derived:
    """How an aggregate is computed from old ones with the same argument: it is new, or keeps sums in another form.

    places: the old ones' places: for an average of the sum and of the count, otherwise of one
    """

    places: tuple[int, ...]


# Kinds of state variables of transformWithState that are no plain value (StateVariableType)
LIST, MAP = "ListState", "MapState"


@attrs.frozen(kw_only=True)
class PartChange:
    """A state variable of transformWithState, or a side of a join, whose values change: by the app's own function, or
    by rule: of a variable, fields are added and numbers widened; of a side, columns change places, come or go.

    keys, columns: of a side, for each new join key and column the place of the old one; None for a new column
    """

    name: str
    by_function: bool
    keys: tuple[int, ...] = ()
    columns: tuple[int | None, ...] = ()


class FunctionNeeded(str):
    """The app's own function that migrates a stage, or a part of it: a way on, in words."""


@attrs.frozen(kw_only=True)
class Migration:
    """The rewriting of every row of a stage's state.

    keys: the new key's columns
    aggregates: for each new aggregate its place among the old ones, or how it is computed from them; None when it
        starts with its initial values
    merge: rows can come to have equal keys: they are put together
    moves: keys change, so that a row may belong to another partition of the state
    by_function: the app's own function does it all; the fields above say nothing
    parts: of a transformWithState the variables, of a join the sides whose values change; dropped: variables that are
        gone. Nothing else is said of these stages
    steps: what is done, in words; losses: what the new version will not know, in words
    functions: the app's own ones that would fill in what is lost
    """

    steps: tuple[str, ...]
    losses: tuple[str, ...] = ()
    keys: tuple[NewKey, ...] = ()
    aggregates: tuple[int | Derived | None, ...] = ()
    merge: bool = False
    moves: bool = False
    by_function: bool = False
    parts: tuple[PartChange, ...] = ()
    dropped: tuple[str, ...] = ()
    functions: tuple[FunctionNeeded, ...] = ()


def describe(stage: StagePlan) -> str:
    """A stage's state as `@app.migrate` names it: ``k string -> count bigint``."""
    schema = stage.schemas[0]
    return f"{row_ddl(schema.key)} -> {row_ddl(value_row(stage))}"


def describe_part(stage: StagePlan, name: str) -> str:
    """The rows of a state variable or of a join's side as `@app.migrate` names them: ``k string -> n bigint``; a list
    is an array."""
    if stage.kind == "join":
        key, value = side_rows(stage, name)
        return f"{row_ddl(key)} -> {row_ddl(value)}"
    family = schema_of(stage, name)
    kind = value_type(stage, name)
    return f"{row_ddl(grouping_key(stage, name))} -> {row_ddl(family.value) if 'fields' in kind else ddl(kind)}"


def variable_type(stage: StagePlan, name: str) -> str:
    """Return ``ValueState``, LIST or MAP; empty for a column family that is none of the author's."""
    found = variables(stage).get(name)
    return found.kind if found else ""


def variables(stage: StagePlan) -> dict[str, StateVariable]:
    """Return a transformWithState's variables by name."""
    definition = stage.definition
    return {v.name: v for v in definition.state_variables} if isinstance(definition, Processor) else {}


def schema_of(stage: StagePlan, name: str) -> StateSchema:
    """The column family of a variable, or the store of that name."""
    return next(s for s in stage.schemas if s.name == name)


def grouping_key(stage: StagePlan, name: str) -> Any:
    """The grouping key's row, as a variable's column family has it: a map's key holds it and the map's own key."""
    row = schema_of(stage, name).key["row"]
    return fields(row)[0]["type"] if variable_type(stage, name) == MAP else row


def value_type(stage: StagePlan, name: str) -> Any:
    """Return the type of what a variable holds for a grouping key."""
    family = schema_of(stage, name)
    if variable_type(stage, name) == LIST:
        return {"type": "array", "elementType": family.value, "containsNull": True}
    if variable_type(stage, name) == MAP:
        own = fields(family.key["row"])[1]["type"]
        return {"type": "map", "keyType": own, "valueType": family.value, "valueContainsNull": True}
    return family.value


def has_ttl(stage: StagePlan, name: str) -> bool:
    """Return whether a variable's values have a time to live."""
    return variables(stage)[name].ttl


def _function_for(old: StagePlan, new: StagePlan, part: str) -> FunctionNeeded:
    """Return the way on of a variable or a join's side."""
    described = describe_part(old, part)
    return FunctionNeeded(f"write a migration function for {new.name}/{part} from {described!r} (@app.migrate)")


def plan_migration(old: StagePlan, new: StagePlan, watermarks: Iterable[Watermark] = ()) -> Migration | str | None:
    """Return how the state of `old` becomes that of `new`, or the reason (a text) why it cannot. None: there is nothing
    to migrate, or these rules do not apply.

    watermarks: of the old query (QueryPlan.watermarks): closed groups have left the state.
    """
    if old.kind == new.kind == "transform-with-state" and old.operator == new.operator:
        return _of_variables(old, new)
    if old.kind == new.kind == "join":
        return _of_sides(old, new)
    if new.kind not in OWN or (old.kind, old.operator) != (new.kind, new.operator):
        return None
    if not _single_store(old) or not _single_store(new):
        return None
    if new.kind != "aggregate":
        return _of_rows(old, new, tuple(watermarks))
    if _same_state(old, new) or not _layout_known(new):
        return None
    if describe(old) in new.migrates:
        if describe(old) in old.migrates:
            return (
                f"the saved version already had a migration function for {describe(old)!r}, so its state may be the "
                "output of that function, and it is unknown which of the two the new function is for"
            )
        return _own_function(old)
    return _aggregation(old, new, tuple(watermarks))


def _of_rows(old: StagePlan, new: StagePlan, watermarks: tuple[Watermark, ...]) -> Migration | str:
    """The migration of the other kinds whose state is one store: by the app's function, or by rule where that is known
    to be right."""
    if describe(old) in new.migrates:
        return _ambiguous_form("its state", describe(old)) if describe(old) == describe(new) else _own_function(old)
    made: Migration | str | None = None
    if new.kind in WITH_BUFFERS:
        made = _aggregation(old, new, watermarks)
    elif new.kind in _SEEN:
        made = _deduplication(old, new)
    return made or _write_one(old)


def _deduplication(old: StagePlan, new: StagePlan) -> Migration | None:
    """The migration of a deduplication by the same columns in another order."""
    places = _new_order(old.keys, new.keys)
    if not places or not all(map(is_comparable, new.keys)) or len(places) != len(fields(new.schemas[0].key)):
        return None
    before, after = fields(old.schemas[0].key), fields(new.schemas[0].key)
    kept = same(old.schemas[0].value, new.schemas[0].value)
    if not kept or not all(same(before[k]["type"], f["type"]) for k, f in zip(places, after, strict=True)):
        return None
    return Migration(keys=tuple(NewKey(source=place) for place in places), moves=True, steps=(_NEW_ORDER_OF_KEYS,))


def _new_order(old: Expressions, new: Expressions) -> tuple[int, ...]:
    """Return the old place of each of the same expressions; none where they are not the same, or not distinct."""
    return tuple(map(old.index, new)) if len({*old}) == len(old) and in_order(old) == in_order(new) else ()


def _of_variables(old: StagePlan, new: StagePlan) -> Migration | str | None:
    """The migration of each variable separately. Removed variables are removed from the store: a column family outlives
    its variable, so a later variable of the same name would find its values, and Spark's state reader refuses a family
    without a schema."""
    before, after = variables(old), variables(new)
    was, now = old.definition, new.definition
    if not isinstance(was, Processor) or not isinstance(now, Processor):
        return None
    if (was.keys, was.time_mode) != (now.keys, now.time_mode):
        return None
    inner = {s.name: s for s in old.schemas if not _user(s.name)}
    if any(form(s.key, True) != form(inner[s.name].key, True) for s in new.schemas if s.name in inner):
        return None
    steps, changes = [], []
    described = {s.name for s in old.schemas} & {s.name for s in new.schemas}
    for name in sorted(before.keys() & after.keys() & described):
        made = _variable(old, new, name) if _user(name) else None
        if isinstance(made, str):
            return made
        if made is not None:
            how = "the app's own function rewrites" if made.by_function else "adds fields to or widens"
            steps.append(f"{how} {name}: {describe_part(old, name)}")
            changes.append(made)
    dropped = tuple(sorted(name for name in before.keys() - after.keys() if _user(name)))
    if not {s.name for s in old.schemas}.issuperset(dropped):
        return None
    steps += [f"removes {name}" for name in dropped]
    if not steps:
        return None
    losses = tuple(f"the values of {name} are lost" for name in dropped)
    return Migration(steps=tuple(steps), losses=losses, parts=tuple(changes), dropped=dropped)


def _variable(old: StagePlan, new: StagePlan, name: str) -> PartChange | str | None:
    """Return how a variable changes, or why it cannot; None when its rows stay what they are."""
    was, now = schema_of(old, name), schema_of(new, name)
    if form(was.key, True) != form(now.key, True):
        return f"the keys of state variable {name} changed"
    if form(was.value, True) == form(now.value, True):
        return None
    described = describe_part(old, name)
    if unknown := _unwritable(now.value) or _unwritable(now.key["row"]):
        return f"state variable {name} has values of type {unknown}, which cannot be written"
    if f"{name}: {described}" in new.migrates:
        return PartChange(name=name, by_function=True)
    if _grows(was.value, now.value):
        return PartChange(name=name, by_function=False)
    return _function_for(old, new, name)


def _of_sides(old: StagePlan, new: StagePlan) -> Migration | str | None:
    """The migration of each side of a join separately: by the app's function, which knows the new columns' values in
    old rows, or by rule, which leaves them null."""
    if not all(sides_known(stage) for stage in (old, new)) or by_time(old) != by_time(new):
        return f"the join's rows cannot be rewritten: {UNKNOWN_SIDES}"
    changes = []
    for side in SIDES:
        described, other = describe_part(old, side), describe_part(new, side)
        kept = _side_columns(old, side) == _side_columns(new, side) and _filed_by(old, side) == _filed_by(new, side)
        if described == other and old.keys == new.keys and kept:
            continue
        if described != other and f"{side}: {described}" in new.migrates:
            changes.append(PartChange(name=side, by_function=True))
        elif change := _side(old, new, side):
            changes.append(change)
        elif described == other:
            return _ambiguous_form(f"the state of {new.name}/{side}", described)
        else:
            return _function_for(old, new, side)
    if not changes:
        return None
    told = [_step_and_loss(old, new, change) for change in changes]
    lost = [(change.name, loss) for change, (_, loss) in zip(changes, told, strict=True) if loss]
    return Migration(
        steps=tuple(step for step, _ in told),
        losses=tuple(loss for _, loss in lost),
        parts=tuple(changes),
        functions=tuple(_function_for(old, new, side) for side, _ in lost),
    )


def filed_otherwise(old: StagePlan, new: StagePlan) -> list[str]:
    """Return the sides of a join whose rows state format 4 keeps by the time of another column."""
    known = all(sides_known(stage) and by_time(stage) for stage in (old, new))
    return [side for side in SIDES if _filed_by(old, side) != _filed_by(new, side)] if known else []


def _filed_by(stage: StagePlan, side: str) -> Expression | str | None:
    """Return the column by whose time format 4 keeps a side's rows, or only its name where it is not known."""
    value = side_rows(stage, side)[1]
    timed = event_time(value) if by_time(stage) else None
    if timed is None:
        return None
    columns, place = _side_columns(stage, side), fields(value).index(timed)
    return columns[place] if place < len(columns) else str(timed["name"])


def _step_and_loss(old: StagePlan, new: StagePlan, change: PartChange) -> tuple[str, str]:
    """Return what is done with a join's side, and what is lost, in words."""
    side, described = change.name, describe_part(old, change.name)
    if change.by_function:
        return f"the app's own function rewrites the {side} side: {described}", ""
    before, after = _side_columns(old, side), _side_columns(new, side)
    gone = [each for place, each in enumerate(before) if place not in change.columns]
    added = [each for each, place in zip(after, change.columns, strict=True) if place is None]
    step = f"puts the columns of the {side} side into their new places"
    loss = (
        f"{words(added)} will be null in rows of the {side} side from before this update, unless a function fills it in"
    )
    return step + (f" and leaves out {words(gone)}" if gone else ""), loss if added else ""


def _side(old: StagePlan, new: StagePlan, side: str) -> PartChange | None:
    """Return where the keys and columns of a join's side come from; None where a column looks like another's
    replacement, or the rows are not known well enough."""
    keys, before, after = _new_order(old.keys, new.keys), _side_columns(old, side), _side_columns(new, side)
    (old_key, old_row), (new_key, new_row) = ([*map(fields, side_rows(s, side))] for s in (old, new))
    matched = [says_matched(side_rows(s, side)[1]) for s in (old, new)]
    if not all(map(is_comparable, (*new.keys, *before, *after))) or len({*before}) < len(before) or len({*matched}) > 1:
        return None
    if not keys or not len(keys) == len(old_key) == len(new_key):
        return None
    if [len(old_row), len(new_row)] != [len(columns) + matched[0] for columns in (before, after)]:
        return None
    columns = tuple(before.index(each) if each in before else None for each in after)
    if None in columns and not {*range(len(before))} <= {*columns}:
        return None
    pairs = [(old_key[k], f) for k, f in zip(keys, new_key, strict=True)]
    pairs += [(old_row[k], f) for k, f in zip(columns, new_row, strict=False) if k is not None]
    timed = event_time(side_rows(new, side)[1])
    if any(place is None and each in new.never_null for place, each in zip(columns, after, strict=True)):
        return None
    for place, field in zip(columns, new_row, strict=False):
        if place is None and (not field["nullable"] or (timed and field["name"] == timed["name"])):
            return None
    if not all(same(one["type"], other["type"]) and one["nullable"] <= other["nullable"] for one, other in pairs):
        return None
    return PartChange(name=side, by_function=False, keys=keys, columns=columns)


def _side_columns(stage: StagePlan, side: str) -> tuple[Expression, ...]:
    definition = stage.definition
    if not isinstance(definition, Join):
        return ()
    return definition.left_columns if side == SIDES[0] else definition.right_columns


def _ambiguous_form(state: str, described: str) -> str:
    return (
        f"{state} has the form {described!r} before and after the change, so rewritten state could not be "
        "distinguished from state that the app's function has not rewritten"
    )


def _user(name: str) -> bool:
    """Whether a variable belongs to the app: timers are Spark's."""
    return not name.startswith("$")


def _grows(old: Any, new: Any) -> bool:
    """Whether a struct has its old fields, equal or wider, at its beginning, and then nullable ones."""
    if isinstance(old, dict) and isinstance(new, dict) and old["type"] == new["type"] == "struct":
        before, after = fields(old), fields(new)
        pairs = list(zip(before, after, strict=False))
        kept = len(before) <= len(after) and all(
            a["name"] == b["name"] and _grows(a["type"], b["type"]) for a, b in pairs
        )
        return kept and all(f["nullable"] for f in after[len(before) :])
    return form(old, True) == form(new, True) or (not isinstance(old, dict) and widens(old, new))


# Types whose values Arrow brings to Python as they are, or as integers.
_WRITABLE = (
    *("boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "void"),
    *("date", "timestamp", "timestamp_ntz"),
)


def _unwritable(kind: Any) -> str | None:
    """A type within this one whose values cannot be written (see streaming/restore/arrow_rows.py)."""
    if not isinstance(kind, dict):
        return None if kind in _WRITABLE or str(kind).startswith("decimal(") else str(kind)
    inner = {
        "struct": lambda: [f["type"] for f in fields(kind)],
        "array": lambda: [kind["elementType"]],
        "map": lambda: [kind["keyType"], kind["valueType"]],
    }.get(kind["type"])
    if inner is None:
        return str(kind["type"])
    return next((found for part in inner() if (found := _unwritable(part))), None)


def _write_one(old: StagePlan) -> str:
    return FunctionNeeded(f"write a migration function for {describe(old)!r} (@app.migrate)")


def _own_function(old: StagePlan) -> Migration:
    return Migration(by_function=True, moves=True, steps=(f"the app's own function rewrites {describe(old)}",))


def _aggregation(old: StagePlan, new: StagePlan, watermarks: tuple[Watermark, ...]) -> Migration | str | None:
    if not all(_layout_known(s) and _is_comparable(s) for s in (old, new)):
        return None
    keys = _keys(old, new)
    if keys is None or isinstance(keys, str):
        return keys or _write_one(old)
    before, after = old.aggregates, new.aggregates
    places = _places(old, new)
    copied, left = Counter(after) - Counter(before), Counter(before) - Counter(after)
    continued = _continued(old, new, places)
    gone = [each for i, each in enumerate(before) if i not in continued.values() and each not in after]
    added = [each for each, place in zip(after, places, strict=True) if place is None]
    if gone and added:
        return (
            f"aggregates changed: {words(gone)} removed and {words(added)} added, which looks like a replacement; "
            f"remove and add aggregates in two updates, or write a migration function for {describe(old)!r}"
        )
    if (types := _types(old, new, keys, places, continued)) is None:
        return None
    dropped = [i for i in range(len(old.keys)) if i not in {k.source for k in keys}]
    wider = [k.window for k in keys if k.window]
    merge = bool(dropped or wider)
    if merge and new.kind == "session-window":  # those of two keys may overlap
        return _write_one(old)
    if merge and (reason := _not_mergeable(old, new, places) or _closed_key(old, dropped, watermarks)):
        return reason
    if unknown := [t for t, p, b in zip(after, places, new.buffers, strict=True) if p is None and not b.initial]:
        return f"aggregates changed: the initial value of {words(unknown[0])} is unknown, so it cannot be added"
    moved = [k.source for k in keys] != sorted(k.source for k in keys)
    steps = [
        *(f"adds {words(each)}" for each in added),
        *(
            f"computes {words(each)} from what the state holds"
            for number, each in enumerate(after)
            if isinstance(places[number], Derived) and number not in continued
        ),
        *(f"drops {words(each)} with its values" for each in gone),
        *(f"keeps {words(each)} a second time" for each in copied if each in before),
        *(f"drops a second {words(each)}" for each in left if each in after),
        *(["puts the aggregates in their new order"] if _reordered(places) else []),
        *([_NEW_ORDER_OF_KEYS] if moved else []),
        *types,
        *(f"drops key {words(old.keys[i])} and merges its groups" for i in dropped),
        *(f"merges windows of {words(w.column)} to {duration(w.size)}" for w in wider),
    ]
    closed = (
        "a window that is open at the update lacks the rows of its parts behind the watermark: these are closed and "
        "have left the state"
    )
    key_types = [same(a["type"], b["type"]) for a, b in _key_types(old, new, keys)]
    return Migration(
        keys=tuple(keys),
        aggregates=places,
        merge=merge,
        moves=merge or moved or not all(key_types),
        steps=tuple(steps),
        losses=(closed,) if wider and watermarks else (),
    )


_NEW_ORDER_OF_KEYS = "puts the keys in their new order"
_SUMS = ("Sum", "Average")
_Places = tuple[int | Derived | None, ...]


def _places(old: StagePlan, new: StagePlan) -> _Places:
    return tuple(_place(old, new, number) for number in range(len(new.buffers)))


def _continued(old: StagePlan, new: StagePlan, places: _Places) -> dict[int, int]:
    """Return the places of the old aggregates that continue, in the same form or another one, by those of the new."""
    firsts = {n: place.places[0] if isinstance(place, Derived) else place for n, place in enumerate(places)}
    return {
        number: place
        for number, place in firsts.items()
        if place is not None and old.buffers[place].function == new.buffers[number].function
    }


def added_aggregates(old: StagePlan, new: StagePlan) -> list[Expression]:
    """Return the aggregates that a migration by rule starts with their initial values."""
    known = all(_single_store(s) and _layout_known(s) for s in (old, new))
    if not known or describe(old) in new.migrates:
        return []
    return [each for each, place in zip(new.aggregates, _places(old, new), strict=True) if place is None]


# Families whose buffers begin with the same columns, computed in the same way (CentralMomentAgg, Covariance).
_MOMENTS = (
    ("VariancePop", "VarianceSamp", "StddevPop", "StddevSamp", "Skewness", "Kurtosis"),
    ("CovPopulation", "CovSample"),
)


def _same_argument(old: StagePlan, new: StagePlan, number: int) -> dict[str, int]:
    """Return the old aggregates with the argument of a new one, by their functions."""
    if len(old.aggregated) != len(old.buffers) or len(new.aggregated) != len(new.buffers):
        return {}
    pairs = zip(old.buffers, old.aggregated, strict=True)
    return {b.function: place for place, (b, a) in enumerate(pairs) if a == new.aggregated[number]}


def _place(old: StagePlan, new: StagePlan, number: int) -> int | Derived | None:
    """Return where a new aggregate comes from; None when it starts with its initial values."""
    if new.aggregates[number] in old.aggregates:
        return old.aggregates.index(new.aggregates[number])
    function, same = new.buffers[number].function, _same_argument(old, new, number)
    if function not in same or function not in MERGEABLE:
        return _derived(old, new, number, same)
    # The same in another form: of a decimal with more digits, which Spark may keep with its scale or without.
    if function not in _SUMS:
        return same[function]
    return Derived(places=(same[function],)) if _sums_fit(old, same[function], new, number) else None


def _derived(old: StagePlan, new: StagePlan, number: int, same: dict[str, int]) -> Derived | None:
    """Return how an added aggregate follows from kept ones; None when it does not, or not exactly."""
    wanted = new.buffers[number]
    for family in _MOMENTS:
        wide = [same[f] for f in family if f in same and old.buffers[same[f]].columns >= wanted.columns]
        if wanted.function in family and wide:
            return Derived(places=(wide[0],))
    average = same.get("Average")
    if wanted.function == "Count" and average is not None:
        return Derived(places=(average,))
    if wanted.function == "Sum" and average is not None and _sums_fit(old, average, new, number):
        return Derived(places=(average,))
    if wanted.function == "Average" and {"Sum", "Count"} <= same.keys() and _sums_fit(old, same["Sum"], new, number):
        return Derived(places=(same["Sum"], same["Count"]))
    return None


def _sums_fit(old: StagePlan, place: int, new: StagePlan, number: int) -> bool:
    """Whether the sum that an old aggregate knows is exactly the one that a new one keeps. An average's sum of integers
    is a double, which is not; of other types (intervals) it is not known."""
    was, now = sum_type(old, place), sum_type(new, number)
    decimals = str(was).startswith("decimal") and str(now).startswith("decimal")
    return (decimals and widens(was, now)) or (now == "double" and was in ("double", "long"))


def _keys(old: StagePlan, new: StagePlan) -> list[NewKey] | str | None:
    """Return where each new key comes from; None when one is new, or two come from one."""
    found: list[NewKey] = []
    for wanted in new.keys:
        if wanted in old.keys:
            found.append(NewKey(source=old.keys.index(wanted)))
            continue
        if not isinstance(wanted, Window):
            return None
        windows = (
            (place, k) for place, k in enumerate(old.keys) if isinstance(k, Window) and k.column == wanted.column
        )
        place, was = next(windows, (0, None))
        if was is None or not (was.tumbling and wanted.tumbling):
            return None
        if wanted.size % was.size or (wanted.start - was.start) % was.size:
            return (
                f"keys changed: windows of {duration(was.size)} cannot be merged to windows of {duration(wanted.size)}"
                + (" with another offset" if wanted.size % was.size == 0 else ", which is no multiple")
            )
        found.append(NewKey(source=place, window=wanted))
    return found if len({k.source for k in found}) == len(found) else None


def _types(
    old: StagePlan, new: StagePlan, keys: list[NewKey], places: _Places, continued: dict[int, int]
) -> list[str] | None:
    """Return what is widened, in words; None when the new type cannot hold the old values."""
    steps = []
    for was, now in _key_types(old, new, keys):
        if same(was["type"], now["type"]):
            continue
        if not widens_number(was["type"], now["type"]):
            return None
        steps.append(f"widens key {now['name']} from {ddl(was['type'])} to {ddl(now['type'])}")
    for number, place in continued.items():
        columns = _columns(old, place), _columns(new, number)
        if isinstance(places[number], int):
            if len(columns[0]) != len(columns[1]) or not all(map(widens, *columns)):
                return None
            if all(map(same, *columns)):
                continue
        steps.append(_widening(old, place, new, number))
    return steps


def _columns(stage: StagePlan, aggregate: int) -> list[Any]:
    """The types of an aggregate's buffer."""
    begin = first_column(stage, aggregate)
    return [field["type"] for field in fields(stage.schemas[0].value)[begin : begin + stage.buffers[aggregate].columns]]


def _widening(old: StagePlan, place: int, new: StagePlan, number: int) -> str:
    """Return what becomes wider, as the author wrote it: ``avg(source-1.a): decimal(10,2) -> decimal(18,2)``."""
    was, now = old.buffers[place].operand, new.buffers[number].operand
    if was and now and was != now:
        plain = attrs.evolve(new.aggregated[number], function=new.buffers[number].function.lower())
        return f"{words(plain)}: {was} -> {now}"
    pairs = zip(_columns(old, place), _columns(new, number), strict=True)
    changes = [f"{ddl(one)} to {ddl(other)}" for one, other in pairs if not same(one, other)]
    return f"widens {words(new.aggregates[number])} from {', '.join(changes)}"


def _key_types(old: StagePlan, new: StagePlan, keys: list[NewKey]) -> list[tuple[dict, dict]]:
    return [(key_columns(old)[k.source], n) for k, n in zip(keys, key_columns(new), strict=True)]


def _not_mergeable(old: StagePlan, new: StagePlan, places: _Places) -> str | None:
    for buffer, each, place in zip(new.buffers, new.aggregates, places, strict=True):
        if place is not None and buffer.function not in MERGEABLE:
            return (
                f"keys changed: groups would have to be merged, and {words(each)} of two groups cannot be computed "
                f"from the state (only {', '.join(MERGEABLE)} can)"
            )
    return None


def _closed_key(old: StagePlan, dropped: list[int], watermarks: tuple[Watermark, ...]) -> str | None:
    """Return why a key cannot be dropped: groups that the watermark closed by it are no longer there to be merged.
    Groups are closed by the first key that is a column with a watermark, or a window of it
    (WatermarkSupport.findEventTimeColumn); keys after it may be dropped, since groups that differ only in them are
    closed together."""
    columns = [w.column for w in watermarks if w.column is not None]
    times = [i for i, key in enumerate(old.keys) if key in columns or _windowed_column(key) in columns]
    for i in dropped:
        key = old.keys[i]
        if any(contains(key, c) for c in columns) and not (times and times[0] < i and times[0] not in dropped):
            return (
                f"keys changed: {words(key)} cannot be dropped, because its groups behind the watermark have left the "
                "state"
            )
    return None


def _windowed_column(key: Expression) -> Expression | None:
    """Return the column of which a key is a window; of a sliding window, which is several."""
    windows = key.children if isinstance(key, Call) and key.function == EITHER else (key,)
    return windows[0].column if isinstance(windows[0], Window) else None


def _reordered(places: _Places) -> bool:
    kept = [p for p in places if isinstance(p, int)]
    return kept != sorted(kept)


def _single_store(stage: StagePlan) -> bool:
    """One column family with a plain key row."""
    return len(stage.schemas) == 1 and stage.schemas[0].name == "default" and "fields" in stage.schemas[0].key


def _layout_known(stage: StagePlan) -> bool:
    """Whether each column of the state row is accounted for (it is not in Spark's state format 1, whose value holds the
    keys as well, nor in plans made before buffers were recorded)."""
    schema = stage.schemas[0]
    keys = len(stage.keys) if keys_in_value(stage) else 0
    return (
        len(stage.buffers) == len(stage.aggregates)
        and sum(b.columns for b in stage.buffers) + keys == len(fields(schema.value))
        and len(stage.keys) == len(fields(schema.key))
    )


def _is_comparable(stage: StagePlan) -> bool:
    """Return whether equal keys and aggregates mean equal things."""
    return all(map(is_comparable, (*stage.keys, *stage.aggregates)))


def _same_state(old: StagePlan, new: StagePlan) -> bool:
    before, after = old.schemas[0], new.schemas[0]
    return old.definition == new.definition and same(before.key, after.key) and same(before.value, after.value)
