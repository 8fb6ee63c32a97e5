"""The sweep over Spark's settings: which of them change a result?

    python -m tests.sweep.settings RESULTS.json [--minutes 60] [--which uncompared]

All settings of SQLConf's registry (public and internal) that are a boolean, an enumeration or a number are set to other
values, one value a try, and a corpus of statements (settings_corpus.py, settings_frames.py) is evaluated under each. A
statement's result is the bytes of its rows, its types, or the class of its error.

Many settings are tried at once: a group that changes nothing is done, all its members are harmless; one that changes
something is taken apart on the statements that changed. Its members that were not found go into the next round, whose
groups are drawn anew, so that what one setting hid another shows; this goes on until all are settled. A setting that no
statement reads (settings_trace.py) is not tried.

A setting is asked about when it changes, unless it is known to be harmless (setting.py). So what has to be
tried whole are those that nobody is asked about (`--which uncompared`; `make sweep`): none of them may change anything,
and as they do not, a few large groups are enough. What the others change, and an example, is for the table that people
read: `--which unmeasured` (the default) looks for more, in hours; `--which all` measures those of the table again.

A run that was cut goes on with its RESULTS.json.
"""

from __future__ import annotations

import argparse
import collections
import json
import logging
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.core.compatibility.rules.settings.setting import harmless as uncompared
from airflow_provider_streamupdate.core.compatibility.rules.settings.settings_table import MEASURED
from airflow_provider_streamupdate.core.plan.state_stores import PARTITIONS

from .settings_corpus import Statement, corpus
from .settings_frames import write_files
from .settings_outcome import Outcome, columns, condition, frame, limited
from .settings_registry import Setting, settings
from .settings_trace import read_since, tracing_classes

PACK, SHOWN = 60, 30
ALIKE = 6  # of the statements that are put together and fail alike, so many are kept
# Settings whose names say that they change results are tried first, in small groups, so that the large groups of the
# others are not hidden by them; it is an order only.
SUSPECT = re.compile(
    r"legacy|ansi|policy|rebase|case|zone|timestamp|coercion|nullable|strict|precision|ordinal|alias|escape|null|"
    r"dedup|csv|json|xml|corrupt|infer|decimal|interval|collat|hash|arrow|pandas|python|ignore|merge|char|literal|"
    r"variant|column|limit|fallback|datetime|path|impl",
    re.IGNORECASE,
)
FIRST_GROUP, GROUP = 40, 150
WORSE = ("values", "types", "errors")
RESTARTED = ", restarted"  # of a streaming query
# What all sessions have: little to wait for, and a zone with summer time.
BASE = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "America/Los_Angeles"}

# Under each of these all is tried: ANSI mode hides what many of the older settings change.
BASES: tuple[dict[str, str], ...] = ({}, {"spark.sql.ansi.enabled": "false"})


def start(folder: Path) -> SparkSession:
    """A session of its own (or the one this process has), which notes what is read, where there is a Java compiler."""
    builder = (
        SparkSession.builder.master("local[1]")
        .appName("sweep")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.memory", "3g")
    )
    if classes := tracing_classes():
        builder = builder.config("spark.driver.extraClassPath", classes)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").disabled = True  # most statements that fail are meant to
    return spark


def session_with(spark: SparkSession, flips: dict[str, str]) -> SparkSession:
    """A new session with some settings changed, made the active one; tasks see them, too (SQLExecution's part)."""
    session = spark.newSession()
    session._plain = spark.newSession()  # type: ignore[attr-defined]  # what a sink has written is read by this one
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    for key, value in {**BASE, **flips}.items():
        session.conf.set(key, value)
        spark.sparkContext.setLocalProperty(key, value)
    return session


def forget(spark: SparkSession, flips: Iterable[str]) -> None:
    """Ends what `session_with` told tasks."""
    for key in (*BASE, *flips):
        spark.sparkContext.setLocalProperty(key, None)


def evaluate(session: SparkSession, statements: Sequence[Statement]) -> dict[str, Outcome]:
    """Each statement's result. Expressions go together; where that fails, in halves."""
    found: dict[str, Outcome] = {}
    packed = [s for s in statements if s.expression]
    for i in range(0, len(packed), PACK):
        found.update(_pack(session, packed[i : i + PACK]))
    for statement in statements:
        if not statement.expression:
            found[statement.text] = _alone(session, statement)
    return found


def _pack(session: SparkSession, statements: Sequence[Statement]) -> dict[str, Outcome]:
    if len(statements) == 1:
        return {statements[0].text: _alone(session, statements[0])}
    try:
        marked = ", ".join(f"{s.text}, '#{i}'" for i, s in enumerate(statements))
        made = limited(session, lambda: columns(session, session.sql(f"SELECT {marked}")))
    except Exception:
        half = len(statements) // 2
        return {**_pack(session, statements[:half]), **_pack(session, statements[half:])}
    found, rest = {}, iter(made)
    for i, statement in enumerate(statements):
        types: list[str] = []
        values: list[Any] = []
        for column in rest:
            if column.values[0] == f"#{i}".encode():
                break
            types += column.types
            values += column.values
        found[statement.text] = Outcome(tuple(types), tuple(values))
    return found


def _alone(session: SparkSession, statement: Statement) -> Outcome:
    def run() -> Outcome:
        df = statement.frame(session)
        if statement.expression:
            made = columns(session, df)
            return Outcome(tuple(t for c in made for t in c.types), tuple(v for c in made for v in c.values))
        return frame(session, df, statement.ordered)

    try:
        return limited(session, run)
    except Exception as error:
        return Outcome(error=condition(error))


@attrs.frozen
class Found:
    """value: of the setting, with which `text` gives another result than with its default; under: what else is set"""

    key: str
    value: str
    change: str
    text: str
    others: int = 0
    under: dict[str, str] = attrs.field(factory=dict)


@attrs.define
class Sweep:
    spark: SparkSession
    all: list[Statement]
    base: dict[str, str] = attrs.field(factory=dict)
    units: list[list[Statement]] = attrs.field(factory=list)
    expected: dict[str, Outcome] = attrs.field(factory=dict)
    reads: dict[str, set[str]] = attrs.field(factory=dict)  # by statement

    def baseline(self) -> list[str]:
        """Evaluates everything twice, with nothing changed but `base`, and notes what it reads. Returns what was not
        repeatable."""
        session = session_with(self.spark, self.base)
        first: dict[str, Outcome] = {}
        for begin in range(0, len(self.all), 300):
            first |= evaluate(session, self.all[begin : begin + 300])
            print(f"  {begin + 300} of {len(self.all)}", flush=True)
        alike = collections.Counter[str]()
        for statement in [s for s in self.all if s.made and first[s.text].error]:
            alike[first[statement.text].error] += 1
            if alike[first[statement.text].error] > ALIKE:
                self.all.remove(statement)
        fine = [s for s in self.all if s.expression and not first[s.text].error]
        self.units = [fine[i : i + PACK] for i in range(0, len(fine), PACK)]
        self.units += [[s] for s in self.all if not (s.expression and not first[s.text].error)]
        once = read_since(self.spark)  # what Spark keeps once it has read it counts as read by everything
        session = session_with(self.spark, self.base)
        again: dict[str, Outcome] = {}
        for unit in self.units:
            read_since(self.spark)
            again.update(evaluate(session, unit))
            keys = read_since(self.spark)
            for statement in unit:
                self.reads[statement.text] = keys
        once -= set().union(*self.reads.values())
        self.reads = {text: keys | once for text, keys in self.reads.items()}
        unstable = [t for t in again if first[t] != again[t]]
        self.expected = again
        self.units = [kept for unit in self.units if (kept := [s for s in unit if s.text not in unstable])]
        return unstable

    def changed(self, flips: dict[str, str], units: Sequence[Sequence[Statement]]) -> dict[str, str]:
        """What the settings change: text -> how."""
        session = session_with(self.spark, {**self.base, **flips})
        found = {}
        try:
            for unit in units:
                if any(self.reads[s.text] & flips.keys() for s in unit):
                    for text, outcome in evaluate(session, unit).items():
                        if how := self.expected[text].change(outcome):
                            found[text] = how
        finally:
            forget(self.spark, {**self.base, **flips})
        return found

    def group(self, flips: dict[str, str]) -> list[Found] | None:
        """Which of these settings change what; None when all of them together change nothing."""
        together = self.changed(flips, self.units)
        if not together:
            return None
        shown = _spread(together, SHOWN)
        statements = [s for s in self.all if s.text in shown]
        units = [[s for s in statements if s.expression and not self.expected[s.text].error]]
        units += [[s] for s in statements if s not in units[0]]
        return halves(flips, lambda some: self.changed(some, [u for u in units if u]), self.base)


def halves(
    flips: dict[str, str], changed: Callable[[dict[str, str]], dict[str, str]], under: dict[str, str]
) -> list[Found]:
    """Take a group apart: which of its settings change what."""
    if not (changes := changed(flips)):
        return []
    items = list(flips.items())
    if len(items) == 1:
        text = min(changes, key=lambda t: (WORSE.index(changes[t]), t.endswith(RESTARTED), len(t)))
        return [Found(*items[0], changes[text], text, len(changes), under)]
    parts = items[: len(items) // 2], items[len(items) // 2 :]
    return [found for part in parts for found in halves(dict(part), changed, under)]


def _spread(changes: dict[str, str], count: int) -> set[str]:
    """Some of the changed statements, of each kind of change and of all parts of the corpus."""
    kinds = [[t for t in changes if changes[t] == kind] for kind in WORSE]
    share = [k[:: max(1, len(k) * 2 // count)] for k in kinds]
    return {t for k in share for t in k}


@attrs.define
class Results:
    """What is known so far, in a file.

    found: by key
    harmless: for each base (`_named`) the tries, ``key=value``, that changed nothing
    read: for each base the keys that something in the corpus reads
    """

    path: Path
    found: dict[str, Found] = attrs.field(factory=dict)
    harmless: dict[str, set[str]] = attrs.field(factory=dict)
    read: dict[str, set[str]] = attrs.field(factory=dict)

    @classmethod
    def of(cls, path: Path) -> Results:
        if not path.exists():
            return cls(path)
        data = json.loads(path.read_text())
        found = {k: Found(**f) for k, f in data["found"].items()}
        return cls(path, found, *({b: set(k) for b, k in data[part].items()} for part in ("harmless", "read")))

    def add(self, one: Found) -> bool:
        """Whether it is new, or worse than what was found of the setting before."""
        known = self.found.get(one.key)
        if known is not None and WORSE.index(one.change) >= WORSE.index(known.change):
            return False
        self.found[one.key] = one
        return True

    def save(self, known: list[Setting], statements: int) -> None:
        data = {
            "settings": [attrs.asdict(s) for s in known],
            "found": {k: attrs.asdict(f) for k, f in sorted(self.found.items())},
            "harmless": {base: sorted(tries) for base, tries in self.harmless.items()},
            "read": {base: sorted(keys) for base, keys in self.read.items()},
            "statements": statements,
        }
        self.path.write_text(json.dumps(data, indent=1))


# How a batch is run, and in which order its rows come: queries with state run without the first (IncrementalExecution),
# and the rules for state stores compare the second. The streaming queries are their witnesses.
OF_BATCHES = ("spark.sql.adaptive.", PARTITIONS)
WHICH: dict[str, Callable[[str], bool]] = {
    "uncompared": lambda key: uncompared(key) and not key.startswith(OF_BATCHES),
    "unmeasured": lambda key: key not in MEASURED,
    "all": lambda key: True,
}


@attrs.frozen
class Run:
    """A search that ends after so many minutes, with what it has found in a file."""

    results: Results
    minutes: float
    began: float = attrs.field(factory=time.time)

    def say(self, text: str) -> None:
        print(f"{time.time() - self.began:6.0f} s  {text}", flush=True)

    def settle(
        self,
        tries: list[tuple[str, str]],
        harmless: set[str],
        group: Callable[[dict[str, str]], list[Found] | None],
        save: Callable[[], None],
    ) -> bool:
        """Try settings in groups, until each is found or known to be harmless. Return whether the time was enough."""
        found, rounds, unclear = self.results.found, 0, set[tuple[str, str]]()
        while left := [
            (k, v) for k, v in tries if k not in found and f"{k}={v}" not in harmless and (k, v) not in unclear
        ]:
            rounds += 1
            self.say(f"round {rounds}: {len(left)} tries left")
            for drawn in groups(left, random.Random(rounds), rounds):
                if time.time() - self.began > self.minutes * 60:
                    self.say(f"cut: {len(left)} tries left")
                    return False
                flips = {k: v for k, v in drawn.items() if k not in found}
                changes = group(flips)
                if changes is None:
                    harmless.update(f"{k}={v}" for k, v in flips.items())
                elif not changes and len(flips) == 1:
                    unclear.update(flips.items())  # alone, and yet what it changed did not change again
                for one in changes or ():
                    if self.results.add(one):
                        self.say(f"  {one.key}={one.value}: {one.change}, {one.text[:100]}")
                save()
        return True


def sweep(path: Path, minutes: float, wanted: Callable[[str], bool]) -> bool:
    """Whether all settings (by key) that are `wanted` were tried in the time."""
    folder = Path(tempfile.mkdtemp(prefix="streamupdate-sweep-"))
    spark, results = start(folder), Results.of(path)
    run = Run(results, minutes)
    write_files(spark, folder)
    known = settings(spark)
    run.say(f"{len(known)} settings, {sum(bool(s.values) for s in known)} to try")
    for base in BASES:
        statements = Sweep(spark, corpus(spark, folder), base)
        unstable = statements.baseline()
        errors = sum(bool(o.error) for o in statements.expected.values())
        run.say(f"under {base or 'the defaults'}: {len(statements.all)} statements, {errors} of them errors")
        run.say(f"not repeatable: {unstable}")
        read = results.read[_named(base)] = set().union(*statements.reads.values()) - base.keys()
        harmless = results.harmless.setdefault(_named(base), set())
        tries = [(s.key, v) for s in known for v in s.values if s.key in read and wanted(s.key)]
        save = partial(results.save, known, len(statements.all))
        if not run.settle(tries, harmless, statements.group, save):
            return False
        save()
    read = set().union(*results.read.values())
    run.say(f"done: {len(results.found)} of {len(known)} settings change something, {len(read)} are read")
    return True


def _named(base: dict[str, str]) -> str:
    return ",".join(f"{k}={v}" for k, v in base.items())


def groups(items: list[tuple[str, str]], order: random.Random, rounds: int) -> list[dict[str, str]]:
    """Groups of settings, each once in one; smaller ones in each round, down to one alone."""
    order.shuffle(items)
    small, large = (max(1, size >> (rounds - 1)) for size in (FIRST_GROUP, GROUP))
    # Without a way out of code that is too large, packs of expressions are taken apart: that should be no other's cost.
    apart = [i for i in items if "codegen" in i[0].lower()]
    first = [i for i in items if SUSPECT.search(i[0]) and i not in apart]
    others = [i for i in items if i not in first and i not in apart]
    return _fill(first, small) + _fill(others, large) + _fill(apart, large)


def _fill(items: list[tuple[str, str]], size: int) -> list[dict[str, str]]:
    groups: list[dict[str, str]] = []
    for key, value in items:
        place = next((g for g in groups if key not in g and len(g) < size), None)
        if place is None:
            groups.append({})
            place = groups[-1]
        place[key] = value
    return groups


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--which", choices=WHICH, default="unmeasured", help="which settings to try")
    parser.add_argument("--only", default="", help="those of them with this in their names")
    given = parser.parse_args()
    given.wanted = lambda key: given.only in key and WHICH[given.which](key)
    return given


if __name__ == "__main__":
    given = arguments(__doc__)
    sys.exit(0 if sweep(given.results, given.minutes, given.wanted) else 1)
