"""An update that changes nothing must carry everything: else an app is refused before it is started."""

from __future__ import annotations

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.self_update import check_updatable
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.plan.plan import AppPlan, SourcePlan, StagePlan, StateSchema

from .builders import app_plan, evolve, query_plan, stage_plan

FUNCTION = {"keys": ["a.k"], "code": "python:f", "input": [], "timeout": "NoTimeout"}
UNDERSTOOD = stage_plan("totals")
INTERVAL = {"type": "struct", "fields": [{"name": "i", "type": "interval", "nullable": True, "metadata": {}}]}
STRANGE = {
    "a key that Spark cannot load again when it is null": (
        evolve(UNDERSTOOD, schemas=(StateSchema(name="default", key=INTERVAL, value={}),)),
        "key columns i of the state are calendar intervals",
    ),
    "a key that cannot be traced": (evolve(UNDERSTOOD, definition={"keys": ["?x"]}), "could not be traced"),
    "code that cannot be compared": (
        evolve(UNDERSTOOD, definition={"keys": ["python:f(a.k)"]}),
        "whose code cannot be compared",
    ),
    "a kind that is not understood": (
        evolve(UNDERSTOOD, kind="flatMapGroupsWithState", operator="flatMapGroupsWithState", definition={}),
        "is not understood yet",
    ),
    "a state function whose code cannot be compared": (
        evolve(UNDERSTOOD, kind="apply-in-pandas-with-state", operator="applyInPandasWithState", definition=FUNCTION),
        "cannot be compared",
    ),
}


def plan(stage: StagePlan) -> AppPlan:
    return app_plan(query_plan(stage, written="v1.py:12"))


def test_an_app_that_is_understood_and_sources_that_cannot_be_told_apart() -> None:
    check_updatable(plan(UNDERSTOOD))
    check_updatable(plan(UNDERSTOOD), ["windows/totals"])
    twins = tuple(SourcePlan(name=f"source-{n}", named=False, format="rate") for n in (1, 2))
    with pytest.raises(ApplicationError, match=r"source windows/source-1: .*name them with source\(\)"):
        check_updatable(app_plan(query_plan(sources=twins)))


@pytest.mark.parametrize("what", STRANGE)
def test_what_no_update_could_carry_is_refused_at_the_start(what: str) -> None:
    """The message has the stage, the operator, the place in the file, the reason, and what lets it run all the same."""
    stage, reason = STRANGE[what]
    with pytest.raises(ApplicationError) as raised:
        check_updatable(plan(stage))
    text = str(raised.value)
    assert f"stage windows/totals (v1.py:12), a {stage.kind} ({stage.operator}): " in text
    assert reason in text and "nothing was started" in text and "--agree windows/totals" in text
    check_updatable(plan(stage), ["windows/totals"])


@pytest.mark.parametrize("what", list(STRANGE)[:3])
def test_an_update_cannot_bring_what_no_update_could_carry(what: str) -> None:
    """Neither as a new stage nor in a new query."""
    strange = attrs.evolve(STRANGE[what][0], name="more", operator_id=1)
    old = plan(UNDERSTOOD)
    more = app_plan(query_plan(UNDERSTOOD, strange))
    query = attrs.evolve(old, queries=(*old.queries, query_plan(strange, name="another")))
    for new, name in ((more, "windows/more"), (query, "another")):
        [item] = [i for i in compare(old, new, "s1").items if i.name == name]
        assert item.verdict == "refused", item
