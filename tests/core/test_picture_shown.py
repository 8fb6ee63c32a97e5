"""The picture in an app's document: what runs, with its figures, and what a report says of a new version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.report_data import report_data
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.difference.figures import BatchFigures
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.hooks.xcom import plain

from .builders import app_plan, deploy, set_status, spec, status, write_json
from .test_graph import query, stage

OLD = query(stage("daily", 0, ("from a.",)), paths=(("after daily.", "from a."),))
NEW = query(stage("daily", 0, ("f(a.x)", "from a.")), paths=(("after daily.", "from a."),))
QUERY = QueryStatus(
    input_rows_per_second=12.5,
    processed_rows_per_second=99.0,
    lag=7.0,
    source_lag={"a": 7.0},
    source_rates={"a": 12.5},
    state_rows={"daily": 42},
    state_bytes=1000,
    figures=(BatchFigures(batch=1, rows_out=3, seconds=1.0),),
)


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    registry = Registry(str(tmp_path)).app("flights")
    deploy(registry)
    write_json(registry, "deployments/v1/plan.json", app_plan(OLD))
    set_status(registry, "v1", status(queries={"windows": QUERY}))
    return registry


def document(app: AppRegistry, root: Path) -> dict[str, Any]:
    found = StreamUpdateClient(str(root)).app_document(app.name)
    return json.loads(json.dumps(found, allow_nan=False))  # type: ignore[no-any-return]


def nodes(picture: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for query in picture["queries"] for node in query["nodes"]}


def test_what_runs_is_shown(app: AppRegistry, tmp_path: Path) -> None:
    picture = document(app, tmp_path)["picture"]
    assert picture["compared"] is False
    assert set(nodes(picture)) == {"source a", "stage daily", "sink"}
    [query] = picture["queries"]
    assert [(e["start"], e["end"], e["new"]) for e in query["edges"]] == [
        ("source a", "stage daily", True),
        ("stage daily", "sink", True),
    ]


def test_the_report_of_an_update_is_shown_on_both_versions(app: AppRegistry, tmp_path: Path) -> None:
    app.create_deployment(spec("v2", parent="v1"))
    app.set_update(UpdateRecord(app="flights", old="v1", new="v2", started_at="2026-11-21T10:00:00+00:00"))
    report = compare(app_plan(OLD), app_plan(NEW), "deployment v1")
    app.folder.write("updates/v2.report.json", to_json(report))
    found = document(app, tmp_path)["report"]
    assert found["picture"]["compared"] and "graph" not in found and found["deployment"] == "v2"
    told = nodes(found["picture"])
    assert told["stage daily"]["mark"] == "carried"
    assert {name: node["mark"] for name, node in told.items() if node["kind"] == "steps"} == {
        "steps source a > stage daily": "new"
    }


def test_a_report_that_a_task_leaves_has_its_picture() -> None:
    left = json.loads(json.dumps(plain(report_data(compare(app_plan(OLD), app_plan(NEW), "deployment v1")))))
    assert nodes(left["picture"])["stage daily"]["mark"] == "carried" and "graph" not in left
