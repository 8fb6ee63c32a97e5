"""Random pairs of drawn versions: the first from the sweep's seeds, the second by one change."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import attrs
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.core.compatibility.rules.settings.settings_table import MEASURED
from tests.fuzz.drawn.places import PLACES, SETTINGS, Place, Rows, build
from tests.fuzz.drawn.python_key import answers
from tests.fuzz.drawn.spec import Drawn
from tests.fuzz.generator import STORES
from tests.sweep import mutations, python_mutants
from tests.sweep.corpus import Expression, Function, registry, seeds, syntax
from tests.sweep.harmless import pairs, written
from tests.sweep.judge import kind_of, why_once
from tests.sweep.python_corpus import SAMPLES
from tests.sweep.settings_registry import Setting, settings
from tests.sweep.sweep import _ALONE, _ALONE_NAMES

TRIES = 60
CUT = 4  # the last batch is the new version's
# Values that have no order of their own, or none that a text shows.
_UNORDERED = ("map<", "variant", "geo", "void")
# What a batch has and a stream has not, or the other way round.
_ELSEWHERE = ("input_file", "spark_partition_id", "monotonically_increasing_id", "version()", "current_")
# Where these are switched, batch and stream differ by themselves, or a run has no end.
_APART = ("spark.sql.streaming.", "spark.sql.test", "spark.databricks", "spark.sql.artifact")
_CONDITIONS = ("c_bool", "c_small > 1", "c_int2 % 3 = 0", "c_str IS NOT NULL", "c_double > 0", "length(c_str2) % 2 = 0")


class Corpus:
    """The sweep's expressions, by kind, and Spark's settings; made once a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.functions: list[Function] = registry(spark)
        every = self.functions + sorted(syntax(self.functions), key=lambda f: f.name)
        aggregates = frozenset(f.name for f in self.functions if f.group == "agg_funcs")
        alone = frozenset({f.name for f in self.functions if f.group in _ALONE} | _ALONE_NAMES)
        self.by_kind: dict[str, dict[str, list[Expression]]] = {"scalar": {}, "aggregate": {}}
        for expression in seeds(spark, every):
            kind = kind_of(expression.sql, aggregates, alone)
            if kind in self.by_kind and not why_once(expression.sql) and _here(expression.sql):
                self.by_kind[kind].setdefault(expression.function, []).append(expression)
        self.settings: list[Setting] = [s for s in settings(spark) if _flippable(s)]

    def draw(self, rng: Random, kind: str) -> Expression:
        """Each function is as likely as another one."""
        by_function = self.by_kind[kind]
        return rng.choice(by_function[rng.choice(sorted(by_function))])

    def mutant(self, rng: Random, seed: Expression) -> str | None:
        found = mutations.mutants(seed, self.functions, rng, 6)
        texts = [e.sql for e in found if not why_once(e.sql) and _here(e.sql)]
        return rng.choice(texts) if texts else None


@cache
def corpus(spark: SparkSession) -> Corpus:
    return Corpus(spark)


def _here(text: str) -> bool:
    return not any(word in text.lower() for word in _ELSEWHERE)


def _flippable(setting: Setting) -> bool:
    return setting.kind == "boolean" and bool(setting.values) and not setting.key.startswith(_APART)


@attrs.frozen
class Pair:
    """change: what was changed; cut: so many batches are the first version's"""

    old: Drawn
    new: Drawn
    change: str
    cut: int

    @property
    def harmless(self) -> bool:
        """Whether nothing may be refused or asked."""
        return self.change in (NOTHING, OTHERWISE)


NOTHING, OTHERWISE, PYTHON = "nothing", "written otherwise", "a Python function"
_SIDES = ("self join", "union", "two keys", "lookup")


def draw_pair(spark: SparkSession, rng: Random, rows: Rows, retyped: Rows) -> Pair | None:
    """A pair both of whose versions Spark can plan; None when none was found. rows, retyped: the sources at rest, in
    their two versions of types."""
    known = corpus(spark)
    for _ in range(TRIES):
        first = _first(known, rng)
        if first is None:
            continue
        change = rng.choices(*_weights(first))[0]
        versions = _CHANGES[change](known, rng, first)
        if versions is None or (versions[0] == versions[1]) is not (change == NOTHING):
            continue
        old, new = versions
        if _valid(old, rows) and _valid(new, retyped if new.retyped else rows):
            return Pair(old, new, change, rng.randint(1, CUT))
    return None


def _first(known: Corpus, rng: Random) -> Drawn | None:
    name = rng.choice(sorted(PLACES))
    place = PLACES[name]
    made = Drawn(
        place=name,
        text="",
        mode=rng.choice(place.modes),
        store=rng.choice(STORES),
        where=rng.choice(_CONDITIONS) if _filters(place) and rng.random() < 0.2 else "",
        settings=(("spark.sql.ansi.enabled", "true"),) if rng.random() < 0.15 else (),
    )
    if place.kind == "python":
        sample = rng.choice([s for s in SAMPLES if set(s.files) == {"app.py"}])
        source = sample.files["app.py"]
        return attrs.evolve(made, text=source, inputs=sample.inputs) if answers(source, sample.inputs) else None
    return attrs.evolve(
        made,
        text=known.draw(rng, place.kind).sql,
        second=_second(known, rng, name),
        third=rng.choice(_CONDITIONS) if name == "union" else "",
        flipped=rng.random() < 0.3 if name in _SIDES else False,
    )


def _second(known: Corpus, rng: Random, place: str) -> str:
    if place in ("two keys", "union"):
        return known.draw(rng, "scalar").sql
    return rng.choice(_CONDITIONS) if place in ("lookup", "join's condition") and rng.random() < 0.6 else ""


def _filters(place: Place) -> bool:
    return place.modes[0] == "update" and place.kind != "python" and not place.apart


def _weights(old: Drawn) -> tuple[list[str], list[int]]:
    place = PLACES[old.place]
    if place.kind == "python":
        return [NOTHING, PYTHON], [1, 5]
    found = {
        "an expression": 8,
        NOTHING: 1,
        OTHERWISE: 3 if place.kind == "scalar" else 0,
        "the source's types": 2 if "c_" in old.text else 0,
        "a setting": 2,
        "a measured setting": 1 if place.kind == "scalar" else 0,
        "a filter below": 2 if _filters(place) else 0,
        "sides": 4 if old.place in _SIDES else 0,
        "the other expression": 4 if old.second or old.place in ("lookup", "join's condition") else 0,
        "the branches' condition": 3 if old.third else 0,
    }
    return list(found), list(found.values())


Versions = tuple[Drawn, Drawn]


def _expression(known: Corpus, rng: Random, old: Drawn) -> Versions | None:
    text = known.mutant(rng, Expression(old.text, "", old.text))
    return (old, attrs.evolve(old, text=text)) if text else None


def _otherwise(known: Corpus, rng: Random, old: Drawn) -> Versions:
    one, other = rng.choice(pairs())
    return attrs.evolve(old, text=written(one)), attrs.evolve(old, text=written(other))


def _setting(known: Corpus, rng: Random, old: Drawn) -> Versions | None:
    setting = rng.choice(known.settings)
    if setting.key in dict(old.settings) or setting.key in SETTINGS:
        return None
    return old, attrs.evolve(old, settings=(*old.settings, (setting.key, rng.choice(setting.values))))


def _measured(known: Corpus, rng: Random, old: Drawn) -> Versions | None:
    """With the expression that showed that the setting counts."""
    found = rng.choice([m for m in MEASURED.values() if m.kind == "expression" and not m.key.startswith(_APART)])
    under = tuple([tuple(found.under.split("=", 1))] if found.under else [])
    first = attrs.evolve(old, text=found.example, settings=(*under, (found.key, found.default)))
    return first, attrs.evolve(first, settings=(*under, (found.key, found.other)))


def _other(known: Corpus, rng: Random, old: Drawn) -> Versions | None:
    if old.place not in ("two keys", "union"):
        return old, attrs.evolve(old, second=rng.choice(["", *_CONDITIONS]))
    gone = old.place == "two keys" and rng.random() < 0.5
    text = "" if gone else known.mutant(rng, Expression(old.second, "", old.second))
    return None if text is None else (old, attrs.evolve(old, second=text))


def _python(known: Corpus, rng: Random, old: Drawn) -> Versions | None:
    every = list(python_mutants.mutants(old.text, every=7, start=rng.randrange(7)))
    source = rng.choice(every)[1] if every else ""
    return (old, attrs.evolve(old, text=source)) if source and answers(source, old.inputs) else None


def _with(**fields: Callable[[Random, Drawn], Any]) -> Callable[[Corpus, Random, Drawn], Versions]:
    """The second version has other fields."""
    return lambda known, rng, old: (old, attrs.evolve(old, **{name: of(rng, old) for name, of in fields.items()}))


_CHANGES: dict[str, Callable[[Corpus, Random, Drawn], Versions | None]] = {
    "an expression": _expression,
    NOTHING: _with(),
    OTHERWISE: _otherwise,
    PYTHON: _python,
    "the source's types": _with(retyped=lambda rng, old: True),
    "a setting": _setting,
    "a measured setting": _measured,
    "a filter below": _with(where=lambda rng, old: rng.choice(["", *_CONDITIONS])),
    "sides": _with(flipped=lambda rng, old: not old.flipped),
    "the other expression": _other,
    "the branches' condition": _with(third=lambda rng, old: rng.choice(_CONDITIONS)),
}


def _valid(drawn: Drawn, rows: Rows) -> bool:
    """Whether Spark plans it, and the same each time."""
    try:
        analyzed = build(drawn, rows)._jdf.queryExecution().analyzed()
        return bool(analyzed.deterministic()) and _fits(drawn, rows)
    except Exception:
        return False


def _fits(drawn: Drawn, rows: Rows) -> bool:
    """Whether the values have an order that their texts show, and depend on a row: no constant is in a state."""
    place: Place = PLACES[drawn.place]
    if place.kind == "python":
        return True
    for text in (drawn.text, drawn.second):
        if text and place.kind == "scalar":
            frame = rows("in").selectExpr(f"{text} AS x")
            plan = frame._jdf.queryExecution().optimizedPlan()
            if any(word in frame.dtypes[0][1].lower() for word in _UNORDERED) or plan.references().isEmpty():
                return False
    return place.kind == "scalar" or "c_" in drawn.text
