"""Find the DAG runs of updates, by what an update's step `plan` leaves in XCom (``app``, ``deployment``)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from ..hooks.settings import DEFAULT_CONN_ID

KEYS = ("app", "deployment")
ROWS_READ = 2000  # the newest XComs; older runs are not linked
RUNS_READ, RUNS_SHOWN = 200, 20  # the newest runs of the DAGs that the page starts; those of one app


def update_runs(user: Any, dag_id: str | None = None, run_id: str | None = None) -> list[dict[str, Any]]:
    """Return the runs that bring or brought a deployment in and that the user may see, newest first."""
    wanted = ((XComModel.dag_id, dag_id), (XComModel.run_id, run_id))
    with create_session() as session:
        tasks = _xcoms(session, KEYS, *(column == value for column, value in wanted if value is not None))
        found = [
            {"dag_id": dag, "run_id": run, "task_id": task, **values}
            for (dag, run, task), values in tasks.items()
            if set(values) == set(KEYS)
        ]
        permitted = get_auth_manager().filter_authorized_dag_ids(dag_ids={f["dag_id"] for f in found}, user=user)
        found = [f for f in found if f["dag_id"] in permitted]
        ids = {f["run_id"] for f in found}
        runs = select(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.start_date).where(DagRun.run_id.in_(ids))
        states = {(r.dag_id, r.run_id): str(r.state) for r in session.execute(runs)} if ids else {}
    return [{**f, "state": states.get((f["dag_id"], f["run_id"]))} for f in found]


def _xcoms(session: Any, keys: Iterable[str], *where: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return what tasks left under these keys, by DAG, run and task, newest first."""
    rows = (
        select(XComModel.dag_id, XComModel.run_id, XComModel.task_id, XComModel.key, XComModel.value)
        .where(XComModel.key.in_(keys), *where)
        .order_by(XComModel.timestamp.desc())
        .limit(ROWS_READ)
    )
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in session.execute(rows):
        found.setdefault((row.dag_id, row.run_id, row.task_id), {})[row.key] = XComModel.deserialize_value(row)
    return found


def approvals(user: Any) -> list[dict[str, Any]]:
    """Return the runs of updates that wait for a person (an ApprovalOperator beside the update's first step), and that
    the user may see: app, deployment, dag_id, run_id, task_id, and since when (ISO)."""
    with create_session() as session:
        waiting = session.execute(
            select(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.start_date)
            .where(TaskInstance.state.in_(("deferred", "awaiting_input")))
            .where(TaskInstance.operator == "ApprovalOperator")
            .limit(RUNS_READ)
        ).all()
        if not waiting:
            return []
        permitted = get_auth_manager().filter_authorized_dag_ids(dag_ids={w.dag_id for w in waiting}, user=user)
        found = []
        for each in (w for w in waiting if w.dag_id in permitted):
            group = each.task_id.rpartition(".")[0]
            first = (each.dag_id, each.run_id, f"{group}.plan" if group else "plan")
            columns = (XComModel.dag_id, XComModel.run_id, XComModel.task_id)
            where = (column == value for column, value in zip(columns, first, strict=True))
            values = _xcoms(session, KEYS, *where).get(first, {})
            if set(values) == set(KEYS) and values["deployment"]:
                run = {"dag_id": each.dag_id, "run_id": each.run_id, "task_id": each.task_id}
                found.append({**values, **run, "since": _iso(each.start_date)})
    return found


def requested(user: Any, dag_ids: Iterable[str], app: str, conn_id: str) -> list[dict[str, Any]]:
    """Return the runs of these DAGs whose form names the app and that the user may see, newest first.

    A run is included from the moment it is queued. Its fields:

    check_only: nothing is updated
    report, rehearsal: those of its check and its rehearsal, if any
    state: Airflow's; paused: the DAG is paused, so that a queued run waits
    tasks: those that have a state, in the order of their starts; times in ISO, None: not yet
    """
    permitted = get_auth_manager().filter_authorized_dag_ids(dag_ids=set(dag_ids), user=user)
    with create_session() as session:
        rows = session.execute(
            select(
                *(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.conf),
                *(DagRun.queued_at, DagRun.start_date, DagRun.end_date, DagModel.is_paused),
            )
            .join(DagModel, DagModel.dag_id == DagRun.dag_id)
            .where(DagRun.dag_id.in_(permitted))
            .order_by(DagRun.id.desc())
            .limit(RUNS_READ)
        )
        found = [row for row in rows if _asks(row.conf, app, conn_id)][:RUNS_SHOWN]
        return [
            {
                "dag_id": row.dag_id,
                "run_id": row.run_id,
                "check_only": bool(row.conf.get("check_only")),
                **_reports(session, row.dag_id, row.run_id),
                "state": str(row.state),
                "paused": row.is_paused,
                "queued_at": _iso(row.queued_at),
                "started_at": _iso(row.start_date),
                "ended_at": _iso(row.end_date),
                "tasks": _tasks(session, row.dag_id, row.run_id),
            }
            for row in found
        ]


def missing(dag_ids: Iterable[str]) -> list[str]:
    """Return those of these DAGs that Airflow does not have (any more)."""
    wanted = list(dag_ids)
    with create_session() as session:
        known = session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(wanted), ~DagModel.is_stale)).all()
    return [dag_id for dag_id in wanted if dag_id not in known]


def _asks(conf: Any, app: str, conn_id: str) -> bool:
    return isinstance(conf, dict) and conf.get("app") == app and conf.get("conn_id", DEFAULT_CONN_ID) == conn_id


def _tasks(session: Any, dag_id: str, run_id: str) -> list[dict[str, Any]]:
    rows = session.execute(
        select(TaskInstance.task_id, TaskInstance.state, TaskInstance.start_date, TaskInstance.end_date)
        .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.state.is_not(None))
        .order_by(TaskInstance.start_date)
    )
    return [
        {
            "task_id": row.task_id,
            "state": str(row.state),
            "started_at": _iso(row.start_date),
            "ended_at": _iso(row.end_date),
        }
        for row in rows
    ]


def _reports(session: Any, dag_id: str, run_id: str) -> dict[str, Any]:
    """Return the reports that the steps `check` and `rehearse` of an update leave in XCom."""
    left = _xcoms(session, ("report",), XComModel.dag_id == dag_id, XComModel.run_id == run_id)
    found = {task.rpartition(".")[2]: values["report"] for (_, _, task), values in left.items()}
    return {"report": found.get("check"), "rehearsal": found.get("rehearse")}


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def asked_for(dag_id: str, run_id: str) -> str | None:
    """Return the app that a run's form names; used until the run's first step has left its XComs."""
    with create_session() as session:
        conf = session.scalar(select(DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    app = conf.get("app") if isinstance(conf, dict) else None
    return app if isinstance(app, str) else None
