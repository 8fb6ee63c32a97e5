"""A rule: one entry of the table by which a new plan is judged against saved state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import attrs

from ...plan.differences import describe_differences, shortened
from ...plan.expressions import Expression
from ...plan.plan import Path
from ...plan.rendering import words
from ...redaction import hide, redacted
from ..verdict import CARRIED, EMPTY, IGNORED, LOSS, MIGRATED, REFUSED, Fate, Remedy, Verdict

Change = TypeVar("Change")
Facts = dict[str, Any]

# From harmless to impossible. Of all rules that apply to a thing, the verdict that comes last here counts.
ORDER = (CARRIED, EMPTY, MIGRATED, LOSS, IGNORED, REFUSED)
NEEDS_AGREEMENT = (LOSS, IGNORED)
MOST_OF_ONE = 285  # characters of a reason; of several together a few more
_SHORT = 80  # characters of an old value that is told


@attrs.frozen(kw_only=True)
class Rule(Generic[Change]):
    """One entry of the table.

    id: stable, ``thing.what``; reports name it
    verdict: what becomes of the state
    change: the change that the rule is about, in words (docs/compatibility.md)
    reason: template for the report, filled with the facts `applies` returns; ``{change}`` is what differs between
        expressions that are old and new
    source: the evidence: a Spark class or document, or what was measured
    tests: the tests that show it besides its example in core/test_rules.py, as ``file::function`` under tests/; those
        under tests/spark run real apps
    applies: return the facts when the rule applies to a change, else None; a pure function. Fact ``ways``: ways on
    migratable: a migration may repair what is refused here
    agreeable: the author may declare that the stage still means the same (`--agree query/stage:same=REASON`); the
        state's form must be unchanged
    restart: the way on is a stage of another name, which starts empty
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
    restart: bool = False


RESTART = Remedy(fate=Fate.LOSE, text="give the changed stage another name, so that it starts empty")
UNDO = "undo the change"


@attrs.frozen(kw_only=True)
class Finding:
    """A rule that applies, with its reason in words.

    ways: what can be done about it
    back: how to put the change back
    details: what was before and what is now, exactly (empty: the reason has it)
    """

    id: str
    verdict: Verdict
    reason: str
    details: str = ""
    migratable: bool = False
    agreeable: bool = False
    ways: tuple[Remedy, ...] = ()
    back: str = UNDO


def judge(rules: Iterable[Rule[Change]], change: Change) -> list[Finding]:
    """All rules that apply, in the order of the table."""
    found = []
    for rule in rules:
        facts = rule.applies(change)
        if facts is not None:
            ways = (*facts.get("ways", ()), *((RESTART,) if rule.restart else ()))
            shown = {key: show(value) for key, value in facts.items() if key != "ways"}
            details = str(shown.get("details", ""))
            if {"old", "new"} <= shown.keys():
                old, new = facts["old"], facts["new"]
                if _is_expressions(old) and _is_expressions(new):
                    shown["change"] = describe_differences(_as_list(old), _as_list(new))
                    details = f"old: {show(old, str)}; new: {show(new, str)}"
                if shown["old"] == shown["new"]:
                    shown |= {key: show(facts[key], str) for key in ("old", "new")}
            shown = _without_secrets(shown, facts)
            reason = rule.reason.format(**shown)
            if len(reason) > MOST_OF_ONE:
                details = details or reason
                reason = rule.reason.format(**_cut_to(rule.reason, shown))
            found.append(
                Finding(
                    id=rule.id,
                    verdict=rule.verdict,
                    reason=reason,
                    details=hide(details),
                    ways=ways,
                    back=_back(facts),
                    migratable=rule.migratable,
                    agreeable=rule.agreeable,
                )
            )
    return found


def _back(facts: Facts) -> str:
    """Return how to put a change back, where the old value is short and reads otherwise than the new one."""
    old, new = (hide(_plain(facts.get(key, ""))) for key in ("old", "new"))
    return f"make it {old} again" if old and old != new and len(old) <= _SHORT else UNDO


def _plain(value: Any) -> str:
    return ", ".join(map(show, value)) if isinstance(value, (list, tuple)) and value else show(value)


def worst(findings: Iterable[Finding]) -> Verdict:
    return max((f.verdict for f in findings), key=ORDER.index)


def _cut_to(template: str, shown: dict[str, str]) -> dict[str, str]:
    """Return the values cut so that the template has room for them."""
    used = {key: text for key, text in shown.items() if f"{{{key}}}" in template}
    room = MOST_OF_ONE - len(template.format(**dict.fromkeys(used, "")))
    for key, text in sorted(used.items(), key=lambda each: len(each[1])):
        fair = max(room // len(used), 10)
        used.pop(key)
        shown = {**shown, key: text if len(text) <= fair else f"{text[: fair - 3]}..."}
        room -= len(shown[key])
    return shown


def _without_secrets(shown: dict[str, str], facts: Facts) -> dict[str, str]:
    """Reports go to Airflow's database, and into the reports of updates. Of two values that differ in what is hidden
    it is told that they do."""
    made = {key: hide(value) for key, value in shown.items()}
    if {"old", "new"} <= made.keys() and made["old"] == made["new"] and facts["old"] != facts["new"]:
        made["new"] += " (what is hidden differs)"
    return made


def differences(*told: tuple[str, Iterable[Expression]]) -> Facts | None:
    """Return the usual facts of lists of expressions, each with a word before it; None where all are empty."""
    lists = [(word, sorted(found, key=str)) for word, found in told]
    changes = [f"{word} {shortened(words(each) for each in found)}" for word, found in lists if found]
    details = [f"{word} {', '.join(map(str, found))}" for word, found in lists if found]
    return {"changes": "; ".join(changes), "details": "; ".join(details)} if changes else None


def _is_expressions(value: Any) -> bool:
    return all(isinstance(each, Expression) for each in _as_list(value))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


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
