"""Random second versions: each mutation makes one from the first, or says (None) that it does not fit.

Whether a mutation may be refused follows from what the two specs mean (`meaning.goes_on`), not from its name: dropping
the key of one aggregation is harmless where it is not a key, and two mutations can undo each other.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import attrs

from .generator import DEDUPLICATIONS, JOINS, STORES, WAYS, WINDOWS, random_filter, random_function
from .spec import Aggregate, Alarm, Counter, Deduplicate, Filter, Join, Limit, Select, Session, Spec, Step, Swap

Mutation = Callable[[Spec, Random], Spec | None]
Unless = Callable[[Spec, Any], bool]


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
    return sorted(MUTATIONS, key=lambda name: rng.random() ** (1 if name in _FIT_MOST else 0.3))[::-1]


def _has(spec: Spec, *kinds: type) -> bool:
    return any(isinstance(s, kinds) for s in spec.steps)


def _looks_at_window(spec: Spec, _: Any = None) -> bool:
    """Whether a deduplication does, which is above the aggregation then."""
    return any(isinstance(s, Deduplicate) and "w" in s.columns for s in spec.steps)


def _stateless_place(spec: Spec, rng: Random) -> int:
    """Somewhere where the columns are still those of the source."""
    last = (i for i, s in enumerate(spec.steps) if isinstance(s, (Aggregate, Session, Counter, Alarm)))
    return rng.randint(1 if spec.joined else 0, next(last, len(spec.steps)))


def _pick(spec: Spec, rng: Random, kind: Any) -> Any:
    found = [s for s in spec.steps if isinstance(s, kind)]
    return rng.choice(found) if found else None


def _of(
    kind: Any, edit: Callable[[Any, Random], dict[str, Any]], unless: Unless = lambda spec, found: False
) -> Mutation:
    """Give one of the version's steps of a kind other fields."""

    def mutation(spec: Spec, rng: Random) -> Spec | None:
        if (found := _pick(spec, rng, kind)) is None or unless(spec, found):
            return None
        return spec.replaced(found, attrs.evolve(found, **edit(found, rng)))

    return mutation


def _without(kind: Any) -> Mutation:
    def mutation(spec: Spec, rng: Random) -> Spec | None:
        return spec.replaced(found) if (found := _pick(spec, rng, kind)) else None

    return mutation


def _inserted(step: Callable[[Random], Step], unless: Callable[[Spec], bool] = lambda spec: False) -> Mutation:
    def mutation(spec: Spec, rng: Random) -> Spec | None:
        return None if unless(spec) else spec.inserted(_stateless_place(spec, rng), step(rng))

    return mutation


def stage_added(spec: Spec, rng: Random) -> Spec | None:
    if any(s.name == "added" for s in spec.stages) or spec.union:
        return None
    columns, within = rng.choice(DEDUPLICATIONS), spec.watermark is not None and rng.random() < 0.4
    added = Deduplicate(name="added", columns=columns, within=within and not spec.joined)
    return spec.inserted(_stateless_place(spec, rng), added)


def limit_added(spec: Spec, rng: Random) -> Spec | None:
    if spec.mode != "append" or _has(spec, Limit, Aggregate, Session, Alarm, Join) or spec.union:
        return None
    return spec.inserted(len(spec.steps), Limit(name="few", rows=rng.randint(1, 5)))


def stage_moved(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Deduplicate)
    if found is None or "w" in found.columns:
        return None
    rest = spec.replaced(found)
    return rest.inserted(_stateless_place(rest, rng), found)


def stage_renamed(spec: Spec, rng: Random) -> Spec | None:
    found = rng.choice(spec.stages) if spec.stages else None
    return spec.renamed({found.name: f"other-{found.name}"}) if found else None


def windows_to_sessions(spec: Spec, rng: Random) -> Spec | None:
    found = _pick(spec, rng, Aggregate)
    if found is None or not (found.window and found.keys) or spec.mode != "append" or spec.steps[-1] is not found:
        return None
    return spec.replaced(found, Session(name=found.name, keys=found.keys, functions=found.functions, gap=5))


def timers_changed(spec: Spec, rng: Random) -> Spec | None:
    """The same variable with another time mode."""
    found = _pick(spec, rng, Counter | Alarm)
    if isinstance(found, Alarm):
        return spec.replaced(found, Counter(name=found.name, key=found.key))
    if found is None or found.way != "value":
        return None
    return attrs.evolve(spec, watermark=10).replaced(found, Alarm(name=found.name, key=found.key, after=10))


def mode_changed(spec: Spec, rng: Random) -> Spec | None:
    if _pick(spec, rng, Aggregate) is None or _looks_at_window(spec):
        return None
    others = ("update", "complete") if spec.watermark is None else ("update", "append")
    return attrs.evolve(spec, mode=rng.choice([m for m in others if m != spec.mode]))


def _but_one(values: tuple[Any, ...], rng: Random) -> tuple[Any, ...]:
    gone = rng.choice(values)
    return tuple(v for v in values if v is not gone)


def _with_one_more(found: Any, rng: Random) -> dict[str, Any]:
    place = rng.randint(0, len(found.functions))
    return {"functions": (*found.functions[:place], random_function(rng, "more"), *found.functions[place:])}


def _with_another(found: Any, rng: Random) -> dict[str, Any]:
    place = rng.randrange(len(found.functions))
    other = random_function(rng, found.functions[place].alias)
    return {"functions": (*found.functions[:place], other, *found.functions[place + 1 :])}


def _swapped_aliases(found: Any, _: Random) -> dict[str, Any]:
    """The same names in the same order, over each other's aggregates: a trap."""
    pairs = zip(found.functions[::-1], found.functions, strict=True)
    return {"functions": tuple(attrs.evolve(f, alias=g.alias) for f, g in pairs)}


AGGREGATION = Aggregate | Session
# fmt: off
MUTATIONS: dict[str, Mutation] = {
    "select added": _inserted(lambda rng: Select(rng.randrange(1000))),
    "select above": lambda spec, rng: spec.inserted(len(spec.steps), Select(rng.randrange(1000))),
    # the optimizer makes another join of an outer one, which has to be refused
    "filter added": _inserted(random_filter, lambda spec: any(
        isinstance(s, Join) and s.kind != "inner" for s in spec.steps)),
    "filter changed": _of(Filter, lambda _, rng: attrs.asdict(random_filter(rng))),
    "filter removed": _without(Filter),
    "column added": lambda spec, rng: attrs.evolve(spec, extra=not spec.extra),
    "store changed": lambda spec, rng: attrs.evolve(spec, store=rng.choice(STORES)),
    "partitions changed": lambda spec, rng: attrs.evolve(spec, partitions=3),
    "hidden rename": _inserted(lambda rng: Swap(*rng.choice((("k", "k2"), ("a", "b"))))),
    "stage added": stage_added,
    "limit added": limit_added,
    "stage removed": _without(Deduplicate | Limit),
    "stage moved": stage_moved,
    "stage renamed": stage_renamed,
    "kind changed": _of(Deduplicate, lambda d, _: {"within": not d.within},
                        lambda spec, d: spec.watermark is None or spec.joined or "w" in d.columns),
    "columns changed": _of(Deduplicate, lambda _, rng: {"columns": rng.choice(DEDUPLICATIONS)},
                           lambda spec, d: "w" in d.columns or spec.joined or d.distinct),
    "columns reordered": _of(Deduplicate, lambda d, _: {"columns": d.columns[::-1]}),
    "limit changed": _of(Limit, lambda _, rng: {"rows": rng.randint(1, 9)}),
    "function added": _of(AGGREGATION, _with_one_more, lambda _, found: "more" in str(found)),
    "function dropped": _of(AGGREGATION, lambda a, rng: {"functions": _but_one(a.functions, rng)},
                            lambda _, a: len(a.functions) < 2),
    "functions reordered": _of(AGGREGATION, lambda a, rng: {
        "functions": tuple(rng.sample(a.functions, len(a.functions)))}),
    "alias changed": _of(AGGREGATION, lambda a, _: {
        "functions": tuple(attrs.evolve(f, alias=f"{f.alias}_new") for f in a.functions)}),
    "aliases swapped": _of(AGGREGATION, _swapped_aliases, lambda _, a: len(a.functions) < 2),
    "function changed": _of(AGGREGATION, _with_another),
    "keys reversed": _of(AGGREGATION, lambda a, _: {"keys": a.keys[::-1]}),
    "key dropped": _of(Aggregate, lambda a, rng: {"keys": _but_one(a.keys, rng)},
                       lambda spec, a: not a.keys or _looks_at_window(spec)),
    "key changed": _of(AGGREGATION, lambda _, rng: {"keys": rng.choice((("k",), ("k2",), ("k", "k2")))},
                       _looks_at_window),
    "join format changed": lambda spec, rng: (
        attrs.evolve(spec, join_format=rng.choice((2, 3, 4))) if spec.joined and spec.store != "hdfs" else None),
    "source added or removed": lambda spec, rng: (
        None if spec.joined or _has(spec, Deduplicate, Limit) else attrs.evolve(spec, union=not spec.union)),
    "window changed": _of(Aggregate, lambda _, rng: {"window": rng.choice(WINDOWS)}, lambda _, a: a.window is None),
    "gap changed": _of(Session, lambda _, rng: {"gap": rng.choice((3, 5, 8))}),
    "join changed": _of(Join, lambda _, rng: {"within": rng.choice((3, 6, 12))}),
    "delay changed": lambda spec, rng: (
        None if spec.watermark is None else attrs.evolve(spec, watermark=rng.choice((0, 5, 10, 30, 60)))),
    "mode changed": mode_changed,
    "source option changed": lambda spec, rng: attrs.evolve(spec, strict=not spec.strict),
    "zone changed": lambda spec, rng: (  # state functions see other clock times
        None if _has(spec, Counter, Alarm)
        else attrs.evolve(spec, zone="Asia/Tokyo" if spec.zone == "UTC" else "UTC")),
    "windows to sessions": windows_to_sessions,
    "join type changed": _of(Join, lambda _, rng: {"kind": rng.choice(JOINS)}, lambda spec, _: _has(spec, Filter)),
    "code changed": _of(Counter | Alarm, lambda s, _: (
        {"after": s.after + 10} if isinstance(s, Alarm) else {"step": s.step + 1})),
    "way changed": _of(Counter, lambda _, rng: {"way": rng.choice(WAYS)}),  # another API, or variable, for the count
    "timers changed": timers_changed,
    "state key changed": _of(Counter | Alarm, lambda _, rng: {"key": rng.choice(("k", "k2"))}),
}
_FIT_MOST = {
    "select added", "select above", "filter added", "column added", "source option changed", "zone changed",
    "store changed", "partitions changed", "hidden rename", "stage added", "stage renamed", "alias changed",
    "delay changed",
}
# fmt: on
