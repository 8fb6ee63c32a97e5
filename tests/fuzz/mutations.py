"""Random second versions: each mutation makes one from the first, or says (None) that it does not fit.

Whether a mutation may be refused follows from what the two specs mean (`meaning.goes_on`), not from its name: dropping
the key of one aggregation is harmless where it is not a key, and two mutations can undo each other.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs

from .generator import DEDUPLICATIONS, JOINS, STORES, WAYS, WINDOWS, random_filter, random_function
from .spec import (
    Aggregate,
    Alarm,
    Counter,
    Deduplicate,
    Filter,
    Join,
    Limit,
    Select,
    Session,
    Spec,
    Step,
    Swap,
)

Mutation = Callable[[Spec, Random], Spec | None]


@attrs.frozen(kw_only=True)
class Change:
    """The second version; `names`: the mutations that made it; `renames`: what the update says about names."""

    spec: Spec
    names: tuple[str, ...]
    renames: dict[str, str] = attrs.field(factory=dict)


def mutate(spec: Spec, rng: Random) -> Change:
    names: list[str] = []
    found, renames = spec, {}
    for _ in range(rng.choice((1, 1, 2))):
        for name in _shuffled(rng):
            if (made := MUTATIONS[name](found, rng)) is not None and made != found:
                found = made
                names.append(name)
                break
    if rng.random() < 0.1 and found.stages:
        stage = rng.choice(found.stages)
        if spec.stage(stage.name):
            renames = {stage.name: f"{stage.name}-2"}
            found = found.renamed(renames)
            names.append("stage renamed with a rename")
    return Change(spec=found, names=tuple(names), renames=renames)


def _shuffled(rng: Random) -> list[str]:
    """Those that fit few versions come first more often."""
    return sorted(MUTATIONS, key=lambda name: rng.random() ** (1 if MUTATIONS[name] in _FIT_MOST else 0.3))[::-1]


def _stateless_place(spec: Spec, rng: Random) -> int:
    """Somewhere where the columns are still those of the source."""
    end = next(
        (i for i, s in enumerate(spec.steps) if isinstance(s, (Aggregate, Session, Counter, Alarm))),
        len(spec.steps),
    )
    return rng.randint(1 if spec.joined else 0, end)


def _pick(spec: Spec, rng: Random, kind: type) -> Step | None:
    found = [s for s in spec.steps if isinstance(s, kind)]
    return rng.choice(found) if found else None


def select_added(spec: Spec, rng: Random) -> Spec | None:
    return spec.inserted(_stateless_place(spec, rng), Select(rng.randrange(1000)))


def select_above(spec: Spec, rng: Random) -> Spec | None:
    return spec.inserted(len(spec.steps), Select(rng.randrange(1000)))


def filter_added(spec: Spec, rng: Random) -> Spec | None:
    if any(isinstance(s, Join) and s.kind != "inner" for s in spec.steps):
        return None  # the optimizer makes another join of it, which has to be refused
    return spec.inserted(_stateless_place(spec, rng), random_filter(rng))


def filter_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Filter)
    return spec.replaced(found, random_filter(rng)) if found else None


def filter_removed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Filter)
    return spec.replaced(found) if found else None


def column_added(spec: Spec, rng: Random) -> Spec | None:
    return attrs.evolve(spec, extra=not spec.extra)


def source_option_changed(spec: Spec, rng: Random) -> Spec | None:
    return attrs.evolve(spec, strict=not spec.strict)


def zone_changed(spec: Spec, rng: Random) -> Spec | None:
    if any(isinstance(s, (Counter, Alarm)) for s in spec.steps):
        return None  # they see other clock times
    return attrs.evolve(spec, zone="Asia/Tokyo" if spec.zone == "UTC" else "UTC")


def store_changed(spec: Spec, rng: Random) -> Spec | None:
    return attrs.evolve(spec, store=rng.choice(STORES))


def partitions_changed(spec: Spec, rng: Random) -> Spec | None:
    return attrs.evolve(spec, partitions=3)


def join_format_changed(spec: Spec, rng: Random) -> Spec | None:
    return attrs.evolve(spec, join_format=rng.choice((2, 3, 4))) if spec.joined and spec.store != "hdfs" else None


def source_added_or_removed(spec: Spec, rng: Random) -> Spec | None:
    by_order = any(isinstance(s, (Deduplicate, Limit)) for s in spec.stages)
    return None if spec.joined or by_order else attrs.evolve(spec, union=not spec.union)


def hidden_rename(spec: Spec, rng: Random) -> Spec | None:
    return spec.inserted(_stateless_place(spec, rng), Swap(*rng.choice((("k", "k2"), ("a", "b")))))


def stage_added(spec: Spec, rng: Random) -> Spec | None:
    if any(s.name == "added" for s in spec.stages) or spec.union:
        return None
    added = Deduplicate(
        name="added", columns=rng.choice(DEDUPLICATIONS), within=spec.watermark is not None and rng.random() < 0.4
    )
    if spec.joined:
        added = attrs.evolve(added, within=False)
    return spec.inserted(_stateless_place(spec, rng), added)


def limit_added(spec: Spec, rng: Random) -> Spec | None:
    others = any(isinstance(s, (Limit, Aggregate, Session, Alarm, Join)) for s in spec.steps)
    if spec.mode != "append" or others or spec.union:
        return None
    return spec.inserted(len(spec.steps), Limit(name="few", rows=rng.randint(1, 5)))


def stage_removed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Deduplicate | Limit)
    return spec.replaced(found) if found else None


def stage_moved(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Deduplicate)
    if found is None or "w" in found.columns:
        return None
    rest = spec.replaced(found)
    return rest.inserted(_stateless_place(rest, rng), found)


def stage_renamed(spec: Spec, rng: Random) -> Spec | None:
    found = rng.choice(spec.stages) if spec.stages else None
    return spec.renamed({found.name: f"other-{found.name}"}) if found else None


def kind_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Deduplicate)
    if found is None or spec.watermark is None or spec.joined or "w" in found.columns:
        return None
    return spec.replaced(found, attrs.evolve(found, within=not found.within))


def windows_to_sessions(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate)
    if found is None or not (found.window and found.keys) or spec.mode != "append" or spec.steps[-1] is not found:
        return None
    return spec.replaced(found, Session(name=found.name, keys=found.keys, functions=found.functions, gap=5))


def columns_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Deduplicate)
    if found is None or "w" in found.columns or spec.joined or found.distinct:
        return None
    return spec.replaced(found, attrs.evolve(found, columns=rng.choice(DEDUPLICATIONS)))


def columns_reordered(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Deduplicate)
    return spec.replaced(found, attrs.evolve(found, columns=found.columns[::-1])) if found else None


def limit_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Limit)
    return spec.replaced(found, attrs.evolve(found, rows=rng.randint(1, 9))) if found else None


def function_added(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate | Session)
    if found is None:
        return None
    place = rng.randint(0, len(found.functions))
    made = (*found.functions[:place], random_function(rng, "more"), *found.functions[place:])
    return spec.replaced(found, attrs.evolve(found, functions=made)) if "more" not in str(found) else None


def function_dropped(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate | Session)
    if found is None or len(found.functions) < 2:
        return None
    gone = rng.choice(found.functions)
    return spec.replaced(found, attrs.evolve(found, functions=tuple(f for f in found.functions if f is not gone)))


def functions_reordered(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate | Session)
    if found is None:
        return None
    order = tuple(rng.sample(found.functions, len(found.functions)))
    return spec.replaced(found, attrs.evolve(found, functions=order))


def alias_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate | Session)
    if found is None:
        return None
    made = tuple(attrs.evolve(f, alias=f"{f.alias}_new") for f in found.functions)
    return spec.replaced(found, attrs.evolve(found, functions=made))


def aliases_swapped(spec: Spec, rng: Random) -> Spec | None:
    """The same names in the same order, over each other's aggregates: a trap."""
    found = _pick(spec, rng, Aggregate | Session)
    if found is None or len(found.functions) < 2:
        return None
    made = tuple(attrs.evolve(f, alias=g.alias) for f, g in zip(found.functions[::-1], found.functions, strict=True))
    return spec.replaced(found, attrs.evolve(found, functions=made))


def function_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate | Session)
    if found is None:
        return None
    place = rng.randrange(len(found.functions))
    other = random_function(rng, found.functions[place].alias)
    made = (*found.functions[:place], other, *found.functions[place + 1 :])
    return spec.replaced(found, attrs.evolve(found, functions=made))


def keys_reversed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate | Session)
    return spec.replaced(found, attrs.evolve(found, keys=found.keys[::-1])) if found else None


def key_dropped(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate)
    if found is None or not found.keys or any(isinstance(s, Deduplicate) and "w" in s.columns for s in spec.steps):
        return None
    gone = rng.choice(found.keys)
    return spec.replaced(found, attrs.evolve(found, keys=tuple(k for k in found.keys if k != gone)))


def key_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate | Session)
    if found is None or any(isinstance(s, Deduplicate) and "w" in s.columns for s in spec.steps):
        return None
    return spec.replaced(found, attrs.evolve(found, keys=rng.choice((("k",), ("k2",), ("k", "k2")))))


def window_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate)
    if found is None or found.window is None:
        return None
    return spec.replaced(found, attrs.evolve(found, window=rng.choice(WINDOWS)))


def gap_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Session)
    return spec.replaced(found, attrs.evolve(found, gap=rng.choice((3, 5, 8)))) if found else None


def join_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Join)
    return spec.replaced(found, attrs.evolve(found, within=rng.choice((3, 6, 12)))) if found else None


def join_type_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Join)
    if found is None or any(isinstance(s, Filter) for s in spec.steps):
        return None
    return spec.replaced(found, attrs.evolve(found, kind=rng.choice(JOINS)))


def code_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Counter | Alarm)
    if isinstance(found, Alarm):
        return spec.replaced(found, attrs.evolve(found, after=found.after + 10))
    return spec.replaced(found, attrs.evolve(found, step=found.step + 1)) if found else None


def way_changed(spec: Spec, rng: Random) -> Spec | None:
    """Another API, or another variable, for the same count."""
    found = _pick(spec, rng, Counter)
    return spec.replaced(found, attrs.evolve(found, way=rng.choice(WAYS))) if found else None


def timers_changed(spec: Spec, rng: Random) -> Spec | None:
    """The same variable with another time mode."""
    found = _pick(spec, rng, Counter | Alarm)
    if isinstance(found, Alarm):
        return spec.replaced(found, Counter(name=found.name, key=found.key))
    if found is None or found.way != "value":
        return None
    return attrs.evolve(spec, watermark=10).replaced(found, Alarm(name=found.name, key=found.key, after=10))


def state_key_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Counter | Alarm)
    return spec.replaced(found, attrs.evolve(found, key=rng.choice(("k", "k2")))) if found else None


def delay_changed(spec: Spec, rng: Random) -> Spec | None:
    return None if spec.watermark is None else attrs.evolve(spec, watermark=rng.choice((0, 5, 10, 30, 60)))


def mode_changed(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate)
    if found is None or any(isinstance(s, Deduplicate) and "w" in s.columns for s in spec.steps):
        return None
    others = ("update", "complete") if spec.watermark is None else ("update", "append")
    return attrs.evolve(spec, mode=rng.choice([m for m in others if m != spec.mode]))


MUTATIONS: dict[str, Mutation] = {
    made.__name__.replace("_", " "): made
    for made in (
        select_added, select_above, filter_added, filter_changed, filter_removed, column_added, store_changed,
        partitions_changed, hidden_rename, stage_added, limit_added, stage_removed, stage_moved, stage_renamed,
        kind_changed, columns_changed, columns_reordered, limit_changed, function_added, function_dropped,
        functions_reordered, alias_changed, aliases_swapped, function_changed, keys_reversed, key_dropped, key_changed,
        join_format_changed, source_added_or_removed, window_changed, gap_changed, join_changed, delay_changed,
        mode_changed, source_option_changed, zone_changed, windows_to_sessions, join_type_changed, code_changed,
        way_changed, timers_changed, state_key_changed,
    )
}  # fmt: skip
_FIT_MOST = (
    select_added, select_above, filter_added, column_added, source_option_changed, zone_changed, store_changed,
    partitions_changed, hidden_rename, stage_added, stage_renamed, alias_changed, delay_changed,
)  # fmt: skip
