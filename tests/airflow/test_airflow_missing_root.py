"""A mistyped root in the connection: no operator or sensor but those that make a root makes one, and each says so. They
are those that the provider names to Airflow, so that a new one is covered."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import BaseOperator
from airflow_site import Site

from airflow_provider_streamupdate.get_provider_info import get_provider_info

Context = dict[str, Any]
MAKE_A_ROOT = {"StreamSubmitOperator", "StreamAdoptOperator"}
DO_WITHOUT = {"StreamPlanOperator"}  # neither reads a root nor writes to it


def classes(*kinds: str) -> Iterator[type[BaseOperator]]:
    for entry in (entry for kind in kinds for entry in get_provider_info()[kind]):
        for name in entry["python-modules"]:
            module = importlib.import_module(name)
            yield from (
                c
                for c in vars(module).values()
                if inspect.isclass(c) and issubclass(c, BaseOperator) and c.__module__ == name
            )


ALL = {c.__name__: c for c in classes("operators", "sensors")}


def made(site: Site, name: str) -> Any:
    """One of the class, with a value for what it must be given."""
    values = {
        "app": "alarm",
        "application": site.application(),
        "deployment_id": "v2",
        "name": "s1",
        "steps": {"update.plan": "plan"},
        "group_id": "update",
        "options": {"application": site.application()},
        "step": "check",
        "new": "v2",
        "pipeline_spec": str(site.folder / "no.yml"),
    }
    needed = {
        parameter.name
        for cls in ALL[name].__mro__
        if cls.__module__.startswith("airflow_provider_streamupdate") and "__init__" in vars(cls)
        for parameter in inspect.signature(cls.__init__).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    }
    needed |= {"app", "deployment_id"} & set(ALL[name].template_fields)
    return ALL[name](task_id="t", **{field: values[field] for field in needed})


@pytest.mark.processes
@pytest.mark.parametrize("name", sorted(ALL.keys() - MAKE_A_ROOT))
def test_none_makes_a_root_that_is_not_there(site: Site, context: Context, name: str) -> None:
    site.root.rmdir()
    task = made(site, name)
    context["ti"].states["update.plan"] = "failed"  # the last steps of an update look at the others first
    if name in DO_WITHOUT:
        task.execute(context)
    elif name == "StreamPipelineOperator":  # has nothing to do with a root
        with pytest.raises(AirflowException, match="is no file"):
            task.execute(context)
    else:
        with pytest.raises(AirflowException) as caught:
            task.execute(context)
        assert f"root {site.root} does not exist; correct it" in str(caught.value)
    assert not site.root.exists()


@pytest.mark.parametrize("name", ["running_apps", "all_apps"])
def test_the_maintenance_dag_says_so(site: Site, name: str) -> None:
    site.root.rmdir()
    from airflow_provider_streamupdate.example_dags.stream_maintenance import dag

    with pytest.raises(AirflowException, match=f"root {site.root} does not exist; correct it"):
        dag.get_task(name).python_callable()
    assert not site.root.exists()
