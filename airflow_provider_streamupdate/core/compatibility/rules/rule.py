"""A rule: one entry of the table by which a new plan is judged against saved state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import attrs

from ...plan.expressions import Expression
from ...plan.plan import Path
from ...plan.rendering import words
from ...redaction import hide, redacted
from ..verdict import CARRIED, EMPTY, IGNORED, LOSS, MIGRATED, REFUSED, Verdict

Change = TypeVar("Change")
Facts = dict[str, Any]

# From harmless to impossible. Of all rules that apply to a thing, the verdict that comes last here counts.
ORDER = (CARRIED, EMPTY, MIGRATED, LOSS, IGNORED, REFUSED)
NEEDS_AGREEMENT = (LOSS, IGNORED)


@attrs.frozen(kw_only=True)
class Rule(Generic[Change]):
    """One entry of the table.

    id: stable, ``thing.what``; reports name it
    verdict: what becomes of the state
    change: the change that the rule is about, in words (docs/compatibility.md)
    reason: template for the report, filled with the facts `applies` returns
    source: the evidence: a Spark class or document, or what was measured
    tests: the tests that show it besides its example in core/test_rules.py, as ``file::function`` under tests/; those
        under tests/spark run real apps
    applies: return the facts when the rule applies to a change, else None; a pure function
    migratable: a migration may repair what is refused here
    agreeable: the author may declare that the stage still means the same (`--agree query/stage:same=REASON`); the
        state's form must be unchanged
    """

    id: str
    verdict: Verdict
    change: str
    reason: str
    source: str
    applies: Callable[[Change], Facts | None]
    tests: tuple[str, ...] = ()
    migratable: bool = False
    agreeable: bool = False


@attrs.frozen(kw_only=True)
class Finding:
    """A rule that applies, with its reason in words."""

    id: str
    verdict: Verdict
    reason: str
    migratable: bool = False
    agreeable: bool = False


def judge(rules: Iterable[Rule[Change]], change: Change) -> list[Finding]:
    """All rules that apply, in the order of the table."""
    found = []
    for rule in rules:
        facts = rule.applies(change)
        if facts is not None:
            shown = {key: show(value) for key, value in facts.items()}
            if {"old", "new"} <= shown.keys() and shown["old"] == shown["new"]:
                shown |= {key: show(facts[key], str) for key in ("old", "new")}
            shown = _without_secrets(shown, facts)
            found.append(
                Finding(
                    id=rule.id,
                    verdict=rule.verdict,
                    reason=rule.reason.format(**shown),
                    migratable=rule.migratable,
                    agreeable=rule.agreeable,
                )
            )
    return found


def worst(findings: Iterable[Finding]) -> Verdict:
    return max((f.verdict for f in findings), key=ORDER.index)


def _without_secrets(shown: dict[str, str], facts: Facts) -> dict[str, str]:
    """Reports go to Airflow's database, and into the reports of updates. Of two values that differ in what is hidden
    it is told that they do."""
    made = {key: hide(value) for key, value in shown.items()}
    if {"old", "new"} <= made.keys() and made["old"] == made["new"] and facts["old"] != facts["new"]:
        made["new"] += " (what is hidden differs)"
    return made


def differences(*told: tuple[str, Iterable[Expression]]) -> Facts | None:
    """Return the usual facts of lists of expressions, each with a word before it; None where all are empty. Those that
    read the same in words are written exactly."""
    lists = [(word, sorted(found, key=str)) for word, found in told]
    every = {each for _, found in lists for each in found}
    write = words if len({words(each) for each in every}) == len(every) else str
    changes = [f"{word} {', '.join(map(write, found))}" for word, found in lists if found]
    return {"changes": "; ".join(changes)} if changes else None


def differ(old: Any, new: Any) -> Facts | None:
    """The usual facts, the old and the new value, when they differ."""
    return None if old == new else {"old": old, "new": new}


def show(value: Any, expression: Callable[[Expression], str] = words) -> str:
    """Return a fact as text, the expressions in it by `expression`."""
    if value is None or value == ():
        return "none"
    if isinstance(value, Expression):
        return expression(value)
    if isinstance(value, Path):
        return value.describe(expression)
    if isinstance(value, dict) and "fields" in value:
        return ", ".join(f"{f['name']} {show(f['type'])}" for f in value["fields"])
    if isinstance(value, dict):
        return ", ".join(f"{key}={show(inner)}" for key, inner in redacted(value).items()) or "none"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(v, expression) for v in value) + "]"
    return str(value)
