"""``@task.stream_update``: an app is updated to what a function returns, in one task."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk import DAG, task
from airflow_site import FakeTaskInstance, OutletEvents, Site

Context = dict[str, Any]


def made(function: Any, **arguments: Any) -> Any:
    with DAG("d"):
        return task.stream_update(**{"task_id": "t", "app": "alarm", "verify_for": 0, **arguments})(function)().operator


@pytest.fixture
def context() -> Context:
    return {"ti": FakeTaskInstance(), "outlet_events": OutletEvents()}


def test_a_function_says_what_to_update_to(site: Site, context: Context) -> None:
    site.submit()
    operator = made(lambda: {"application": site.application("v2"), "app_params": {"limit": "7"}}, deployment_id="v2")
    record = operator.execute(context)
    assert (record["old"], record["new"], record["outcome"]) == ("v1", "v2", "promoted")
    assert site.drivers_alive() == ["v2"]
    spec = site.client.status("alarm").spec
    assert spec is not None and spec.application.params == {"limit": "7"}
    [(uri, event)] = context["outlet_events"].by_uri.items()
    assert uri == "streamupdate://alarm"
    assert event.extra == {"app": "alarm", "deployment": "v2", "snapshot": "before-v2"}
    with pytest.raises(AirflowSkipException):
        operator.execute(context)


def test_a_version_that_fails_is_rolled_back(site: Site, context: Context) -> None:
    site.submit()
    operator = made(lambda: site.application("v2", FAIL="run"), deployment_id="v2", strategy="restart")
    with pytest.raises(AirflowException, match="failed and was rolled back; v1 runs again"):
        operator.execute(context)
    assert site.client.status("alarm").current.deployment == "v1" and "rolled back" in context["ti"].pushed["error"]
    assert context["outlet_events"].by_uri == {}


@pytest.mark.parametrize(
    ("function", "arguments", "refused"),
    [
        (lambda: None, {}, "must return the path of an application"),
        (lambda: {"aplication": "x"}, {}, "aplication"),
        (lambda: __file__, {"check_only": True}, "check_only is for stream_update"),
        (lambda: __file__, {"app": "other"}, "no app 'other'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(
    site: Site, context: Context, function: Any, arguments: Context, refused: str
) -> None:
    site.submit()
    with pytest.raises(AirflowFailException, match=refused):
        made(function, **arguments).execute(context)
    assert site.drivers_alive() == ["v1"] and site.client.registry.app("alarm").updates() == []


def test_an_argument_that_no_update_has_is_refused_where_the_dag_is_read() -> None:
    with pytest.raises(TypeError, match="strategie"):
        made(lambda: "v2.py", strategie="standby")
