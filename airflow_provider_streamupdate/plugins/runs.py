"""DAG runs and the updates they are: what the step `plan` of an update leaves in XCom (``app``, ``deployment``)."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

KEYS = ("app", "deployment")
ROWS_READ = 2000  # XComs, the newest: older runs are not linked


def update_runs(user: Any, dag_id: str | None = None, run_id: str | None = None) -> list[dict[str, Any]]:
    """The runs that the user may see and that brought or bring a deployment in, newest first."""
    with create_session() as session:
        rows = (
            select(XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.key, XComModel.value)
            .where(XComModel.key.in_(KEYS))
            .order_by(XComModel.timestamp.desc())
            .limit(ROWS_READ)
        )
        if dag_id is not None:
            rows = rows.where(XComModel.dag_id == dag_id)
        if run_id is not None:
            rows = rows.where(XComModel.run_id == run_id)
        tasks: dict[tuple[str, str, str], dict[str, Any]] = {}
        for row in session.execute(rows):
            tasks.setdefault((row.dag_id, row.run_id, row.task_id), {})[row.key] = XComModel.deserialize_value(row)
        found = [
            {"dag_id": dag, "run_id": run, "task_id": task, **values}
            for (dag, run, task), values in tasks.items()
            if set(values) == set(KEYS)
        ]
        permitted = get_auth_manager().filter_authorized_dag_ids(dag_ids={f["dag_id"] for f in found}, user=user)
        found = [f for f in found if f["dag_id"] in permitted]
        wanted = {f["run_id"] for f in found}
        runs = select(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.start_date).where(DagRun.run_id.in_(wanted))
        states = {(r.dag_id, r.run_id): str(r.state) for r in session.execute(runs)} if wanted else {}
    return [{**f, "state": states.get((f["dag_id"], f["run_id"]))} for f in found]


def asked_for(dag_id: str, run_id: str) -> str | None:
    """The app that a run's form names, before its first step has said more."""
    with create_session() as session:
        conf = session.scalar(select(DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    app = conf.get("app") if isinstance(conf, dict) else None
    return app if isinstance(app, str) else None
