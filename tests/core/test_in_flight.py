"""What may change in flight, and the record of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.coordination.commands import CHANGE, CommandBox
from airflow_provider_streamupdate.core.errors import CorruptError, FencedError, RefusedError
from airflow_provider_streamupdate.core.plan.plan import AppPlan, SinkPlan, SourcePlan
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.in_flight import ChangeRequest, check_applications, check_plans
from airflow_provider_streamupdate.core.registry.registry import AppRegistry

from .builders import aggregation, app_plan, deploy, query_plan, stage_plan


def request(id: str = "c1", **params: str) -> ChangeRequest:
    return ChangeRequest(id=id, params={"input": "/in", **params}, digest=f"digest of {id}", asked_by="me@here")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text("pass\n")
    return path


def application(code: Path, **changes: Any) -> Application:
    return Application(**{"file": str(code), "params": {"a": "1", "b": "2"}, "conf": {"spark.x": "1"}, **changes})


def test_reloadable_parameters_may_change_come_and_go(code: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "app.py"
    moved.parent.mkdir()
    moved.write_text(code.read_text())
    old = application(code)
    for params in ({"a": "7", "b": "2"}, {"b": "2"}, {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "2"}):
        check_applications(old, application(moved, params=params), ("a", "c"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"params": {"a": "1", "b": "3"}}, "parameter b cannot change in flight: the app declares a, c reloadable"),
        ({"params": {"a": "7"}}, "parameter b cannot change"),
        ({"file": "other.py"}, "deployment's: the code"),
        ({"conf": {}}, r"the Spark configuration \(.*, now not given\); leave out what is to stay"),
        (
            {"master": "local[2]", "env_vars": {"A": "1"}},
            r"the environment \(A is not given, now 1\), the Spark master \(not given, now local",
        ),
    ],
)
def test_all_else_is_refused(code: Path, tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    (tmp_path / "other.py").write_text("pass  # changed\n")
    changes = {name: str(tmp_path / "other.py") if value == "other.py" else value for name, value in changes.items()}
    with pytest.raises(RefusedError, match=reason):
        check_applications(application(code), application(code, **changes), ("a", "c"))


def change_plans(old: AppPlan, new: AppPlan, agree: tuple[str, ...] = ()) -> None:
    check_plans(old, new, compare(old, new, "deployment v1", agree))


def test_rates_and_sink_options_do_not_move_anything() -> None:
    source = SourcePlan(
        name="source-1", named=False, format="json", location="/in", options={"maxfilespertrigger": "9"}
    )
    changed = query_plan(sources=(source,), sink=SinkPlan(format="noop", options={"a": "b"}))
    change_plans(app_plan(), app_plan(changed))


@pytest.mark.parametrize(
    ("stages", "reason"),
    [
        ((stage_plan(definition={"keys": ["source-1.dest"], "aggregates": ["count(1)"]}),), "keys changed"),
        ((stage_plan(), stage_plan("hourly", 1)), "stage windows/hourly: empty: new stage"),
        ((stage_plan("hourly"),), "stage windows/daily: .*agree to it"),
        ((stage_plan(operator_id=1),), "query windows: its stages or sources have other positions"),
    ],
)
def test_a_plan_that_the_checkpoint_does_not_do_for_as_it_lies_there(stages: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        change_plans(app_plan(), app_plan(query_plan(*stages)))


def test_what_is_agreed_to_is_let_through_unless_state_is_rewritten_or_left_behind() -> None:
    old = app_plan(query_plan(conf={"spark.sql.session.timeZone": "UTC"}))
    new = app_plan(query_plan(conf={"spark.sql.session.timeZone": "CET"}))
    with pytest.raises(RefusedError, match="agree to it"):
        change_plans(old, new)
    change_plans(old, new, ("windows:spark.sql.session.timeZone",))
    with pytest.raises(RefusedError, match="stage windows/daily: ignored"):
        change_plans(app_plan(), app_plan(query_plan(stage_plan("hourly"))), ("windows/daily",))
    # The same driver goes on with the checkpoint as it lies there.
    old, new = (app_plan(query_plan(aggregation(*functions))) for functions in (("Sum",), ("Sum", "Count")))
    for one, other, agree in ((old, new, ("windows/daily",)), (new, old, ())):
        with pytest.raises(RefusedError, match="stage windows/daily: its state would be rewritten"):
            change_plans(one, other, agree)


def test_the_last_change_counts_and_the_submitted_spec_is_kept(app: AppRegistry) -> None:
    deploy(app)
    submitted = app.folder.read("deployments/v1/spec.json")
    first = app.add_change("v1", request("c1", a="1"))
    second = app.add_change("v1", request("c2", a="2"))
    assert (first.number, first.before, second.before) == (1, {"input": "/in"}, {"input": "/in", "a": "1"})
    assert second.changed == {"a": ("1", "2")} and second.digest_before == "digest of c1"
    assert app.changes("v1") == [first, second]
    spec = app.spec("v1")
    assert (spec.application.params, spec.digest) == ({"input": "/in", "a": "2"}, "digest of c2")
    assert app.deployments() == [spec]
    assert app.folder.read("deployments/v1/spec.json") == submitted
    undo = attrs.evolve(second.request, params=second.before, digest=second.digest_before)
    assert app.add_change("v1", undo, undoes="why").undoes == "why"
    assert app.spec("v1").application.params == {"input": "/in", "a": "1"}


def test_a_change_at_no_time_is_damaged(app: AppRegistry) -> None:
    deploy(app)
    made = app.add_change("v1", request("c1", a="1"))
    path = "deployments/v1/changes/1.json"
    app.folder.write(path, (app.folder.read(path) or b"").replace(made.at.encode(), b"yesterday"))
    with pytest.raises(CorruptError, match=r"changes/1\.json.*at is not an ISO 8601 time: 'yesterday'"):
        app.changes("v1")


def test_of_two_who_change_at_once_one_does(app: AppRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(app)
    seen = app.changes("v1")
    app.add_change("v1", request("c1", a="1"))
    monkeypatch.setattr(app, "changes", lambda _deployment: seen)  # as it looked to the other one
    with pytest.raises(FencedError, match="were changed a moment ago"):
        app.add_change("v1", request("c2", a="2"))


def test_a_change_is_asked_for_once_by_each_update(app: AppRegistry) -> None:
    deploy(app)
    box = CommandBox(app.deployment_folder("v1"), 1)
    name = box.issue(CHANGE, change=request("c1", a="1"))
    assert box.issue(CHANGE, change=request("c1", a="1")) == name
    assert box.pending()[0].change == request("c1", a="1")
    box.answer(name)
    assert box.issue(CHANGE, change=request("c1", a="1")) == name
    assert box.issue(CHANGE, change=request("c2", a="1")) != name
    box.answer("change-c2.1", error="no")
    assert box.issue(CHANGE, change=request("c2", a="1")) == "change-c2.2"
