"""Helpers of these tests: an installation under a temporary folder, and a task instance outside a DAG run."""

from __future__ import annotations

import contextlib
import json
import pkgutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@attrs.frozen
class DagOutcome:
    """A finished DAG run."""

    run: Any

    @property
    def state(self) -> str:
        return str(self.run.state)

    @property
    def states(self) -> dict[str, str]:
        """Task -> state, without the group's name; a mapped task as ``task[0]``."""
        return {
            ti.task_id.removeprefix("update.") + (f"[{ti.map_index}]" if ti.map_index >= 0 else ""): str(ti.state)
            for ti in self.run.get_task_instances()
        }

    def xcom(self, task: str, key: str = "return_value", map_index: int | None = None) -> Any:
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = XComModel.get_many(
                run_id=self.run.run_id, dag_ids=self.run.dag_id, task_ids=task, key=key, map_indexes=map_index
            ).with_only_columns(XComModel.value)
            found = session.execute(query).first()
        return None if found is None else found[0]


@attrs.frozen
class Site:
    """An installation: its root, and the connections that lead to it."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def spark_submit(self) -> Path:
        return self.folder / "bin" / "spark-submit"

    def connect(self, **extra: Any) -> None:
        """Define the connection, as an environment variable; None leaves a field out."""
        fields = {"root": str(self.root), "spark_submit": str(self.spark_submit), **extra}
        kept = {key: value for key, value in fields.items() if value is not None}
        self.define("streamupdate_default", conn_type="streamupdate", extra=kept)

    def define(self, conn_id: str, **fields: Any) -> None:
        self.monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    def undefine(self, conn_id: str) -> None:
        self.monkeypatch.delenv(f"AIRFLOW_CONN_{conn_id.upper()}")

    def application(self, version: str = "v1", **constants: Any) -> str:
        """The path of an application file for the stand-in."""
        path = self.folder / f"{version}.py"
        content = {"APP": "alarm", "VERSION": version, **constants}
        path.write_text("".join(f"{name} = {value!r}\n" for name, value in content.items()))
        return str(path)

    @property
    def client(self) -> Any:
        from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook

        return StreamUpdateHook().get_client()

    def submit(self, version: str = "v1", deployment: str | None = None, fresh: bool = False, **constants: Any) -> Any:
        """A running app."""
        from airflow_provider_streamupdate.core.registry.application import Application

        application = Application(file=self.application(version, **constants))
        app = constants.get("APP", "alarm")
        return self.client.submit(application, deployment=deployment or version, app=app, fresh=fresh)

    def run_dag(self, dag_id: str, folder: str = "dags", **conf: Any) -> DagOutcome:
        """Run a DAG to its end in this process, as `airflow dags test` does, without a logical date, as by REST."""
        bag = part_of_airflow(*DAG_BAG)(str(REPOSITORY / folder / f"{dag_id}.py"))
        assert not bag.import_errors
        return DagOutcome(bag.dags[dag_id].test(run_conf=conf, logical_date=None))

    def crash(self, deployment: str) -> None:
        """Kill its driver, so that it has no last word."""
        from airflow_provider_streamupdate.control.drivers import process

        assert process.end(self.client.registry.app("alarm").launch(deployment), at_once=True)

    def drivers_alive(self, app: str = "alarm") -> list[str]:
        """The deployments whose driver's processes live."""
        client = self.client
        return [s.deployment for s in client.deployments(app) if not client.drivers(app).has_ended(s.deployment)]


class OutletEvents:
    """The events that a task leaves for its assets, by their URIs: Airflow 3.1's assets have no hash."""

    def __init__(self) -> None:
        self.by_uri: dict[str, Any] = {}

    def __getitem__(self, asset: Any) -> Any:
        return self.by_uri.setdefault(asset.uri.rstrip("/"), SimpleNamespace())


# where parts of Airflow are, from 3.2 on and in 3.1
DAG_BAG = ("airflow.dag_processing.dagbag:DagBag", "airflow.models.dagbag:DagBag")
SYNC_BAG = ("airflow.dag_processing.dagbag:sync_bag_to_db", "airflow.models.dagbag:sync_bag_to_db")
SERIALIZED_DAG = (
    "airflow.serialization.serialized_objects:DagSerialization",
    "airflow.serialization.serialized_objects:SerializedDAG",
)
VALID_PLUGIN = ("airflow._shared.plugins_manager:is_valid_plugin", "airflow.plugins_manager:is_valid_plugin")


def part_of_airflow(*paths: str) -> Any:
    """The first of them that this version has."""
    for path in paths[:-1]:
        with contextlib.suppress(ImportError, AttributeError):
            return pkgutil.resolve_name(path)
    return pkgutil.resolve_name(paths[-1])


class FakeTaskInstance:
    """The parts of a running task instance the operators use; XComs are kept in `pushed`."""

    dag_id, run_id, task_id, map_index = "dag", "run", "task", -1

    def __init__(self, try_number: int = 1, states: dict[str, str] | None = None) -> None:
        self.try_number = try_number
        self.states = states or {}
        self.pushed: dict[str, Any] = {}
        self.left: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        assert "\\u0000" not in json.dumps(value, allow_nan=False)  # what cannot be stored must not be pushed
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return self.left.get(task_ids)

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        return {self.run_id: {t: s for t, s in self.states.items() if t in task_ids}}
