"""The table as a whole: what every entry has to have."""

from __future__ import annotations

import itertools
import runpy
import string
from pathlib import Path

import pytest

from airflow_provider_streamupdate.state.rules import ORDER, TABLE, Rule, judge, worst
from airflow_provider_streamupdate.state.rules.rule import Finding

REPOSITORY = Path(__file__).parents[2]
RULES = [rule for rules in TABLE.values() for rule in rules]


def test_every_rule_has_its_own_id_and_says_what_it_is_about() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) > 50
    for rule in RULES:
        assert rule.verdict in ORDER and rule.change and rule.reason and rule.source, rule.id


def test_the_page_is_what_the_rules_say() -> None:
    """scripts/compatibility_docs.py writes it."""
    made = runpy.run_path(str(REPOSITORY / "scripts" / "compatibility_docs.py"))["page"]()
    assert (REPOSITORY / "docs" / "compatibility.md").read_text() == made


def rule(id: str, verdict: str, applies: object) -> Rule[int]:
    return Rule[int](
        id=id,
        verdict=verdict,
        change="x",
        reason="it was {old} and {new}",
        source="x",
        applies=applies,  # type: ignore[arg-type]
    )


def test_all_rules_that_apply_are_found_and_the_worst_counts() -> None:
    table = (
        rule("a", "carried", lambda c: {"old": None, "new": ["p", "q"]}),
        rule("b", "refused", lambda c: {"old": c, "new": ()} if c > 1 else None),
        rule("c", "carried with loss", lambda c: {"old": 1, "new": 2}),
    )
    found = judge(table, 2)
    assert [f.reason for f in found] == ["it was none and [p, q]", "it was 2 and none", "it was 1 and 2"]
    assert worst(found) == "refused" and worst(judge(table, 1)) == "carried with loss"


@pytest.mark.parametrize(("one", "other"), list(itertools.pairwise(ORDER)))
def test_the_order_of_verdicts(one: str, other: str) -> None:
    found = [Finding(id="", verdict=v, reason="") for v in (other, one)]
    assert worst(found) == other


def test_the_templates_name_only_what_some_fact_can_fill() -> None:
    """A reason with a field that no predicate returns would fail when the rule applies: those without any field are
    never wrong, the others are run by test_compatibility."""
    fields = {name for r in RULES for _, name, _, _ in string.Formatter().parse(r.reason) if name}
    assert fields <= {
        "old", "new", "kind", "where", "operator", "part", "code", "names", "text", "others", "columns", "hint",
        "format", "key", "means",
    }  # fmt: skip
