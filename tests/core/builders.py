"""What the tests start from: plans, specs and statuses; a registry with a running app; checkpoints, hand-made
(`CheckpointFiles`) or as Spark wrote them (`golden`)."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot, Snapshot, SnapshotKind
from airflow_provider_streamupdate.core.plan.plan import (
    AggregateBuffer,
    AppPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StagePlan,
    StateSchema,
)
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Current, DeploymentSpec, Launch, QueryStatus, Status
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.storage import Folder

DATA = Path(__file__).parent / "data"
CONF = {"spark.sql.shuffle.partitions": "2"}
KEY = {"type": "struct", "fields": [{"name": "origin", "type": "string", "nullable": True, "metadata": {}}]}
VALUE = {"type": "struct", "fields": [{"name": "count", "type": "long", "nullable": False, "metadata": {}}]}


def stage_plan(name: str = "daily", operator_id: int = 0, **changes: Any) -> StagePlan:
    values: dict[str, Any] = {
        "name": name,
        "named": True,
        "kind": "aggregate",
        "operator": "stateStoreSave",
        "operator_id": operator_id,
        "definition": {"keys": ["source-1.origin"], "aggregates": ["count(1)"]},
        "schemas": (StateSchema(name="default", key=KEY, value=VALUE),),
    }
    return StagePlan(**{**values, **changes})


def aggregation(*functions: str, **changes: Any) -> StagePlan:
    """An aggregation with the buffers of these functions of one column, a column each."""
    [column] = VALUE["fields"]
    value = {"type": "struct", "fields": [column] * len(functions)}
    values: dict[str, Any] = {
        "definition": {"keys": ["source-1.k"], "aggregates": [f"{name.lower()}(source-1.x)" for name in functions]},
        "buffers": tuple(AggregateBuffer(function=name, columns=1, initial=("0L",)) for name in functions),
        "schemas": (StateSchema(name="default", key=KEY, value=value),),
    }
    return stage_plan(**{**values, **changes})


def query_plan(*stages: StagePlan, name: str = "windows", **changes: Any) -> QueryPlan:
    values: dict[str, Any] = {
        "name": name,
        "output_mode": "append",
        "sink": SinkPlan(format="noop"),
        "sources": (SourcePlan(name="source-1", named=False, format="json", location="/in"),),
        "stages": stages or (stage_plan(),),
    }
    return QueryPlan(**{**values, **changes})


def app_plan(*queries: QueryPlan, app: str = "flights", spark_version: str = "4.3.0") -> AppPlan:
    return AppPlan(app=app, spark_version=spark_version, queries=queries or (query_plan(),))


def spec(deployment: str = "v1", app: str = "flights", **changes: Any) -> DeploymentSpec:
    values: dict[str, Any] = {
        "app": app,
        "deployment": deployment,
        "application": Application(file="application/v1.py", params={"input": "/in"}),
        "digest": "d" * 64,
        "submitted_at": clock.now(),
    }
    return DeploymentSpec(**{**values, **changes})


def status(state: str = "running", epoch: int = 1, **changes: Any) -> Status:
    query = QueryStatus(
        batch=7,
        first_batch=0,
        last_commit_at=clock.now(),
        processed_rows_per_second=120.5,
        state_rows={"daily": 42},
    )
    values: dict[str, Any] = {
        "state": state,
        "epoch": epoch,
        "heartbeat_at": clock.now(),
        "started_at": clock.now(),
        "queries": {"windows": query},
        "host": "elsewhere",
        "pid": 4711,
        "spark_ui": "http://elsewhere:4040",
    }
    return Status(**{**values, **changes})


def deploy(
    registry: AppRegistry, deployment: str = "v1", epoch: int = 1, state: str | None = "running", **changes: Any
) -> None:
    """A current deployment with a plan and, unless `state` is None, a driver. The driver is on another machine, so that
    its heartbeat decides what is made of it."""
    registry.create_deployment(spec(deployment, registry.name, **changes))
    registry.set_current(Current(deployment=deployment, epoch=epoch, promoted=True))
    write_json(registry, f"deployments/{deployment}/plan.json", app_plan(app=registry.name))
    if state is not None:
        launch = Launch(epoch=epoch, host="elsewhere", pid=4711, log="/nowhere.log", launched_at=clock.now())
        registry.set_launch(deployment, launch)
        set_status(registry, deployment, status(state, epoch))


def set_status(registry: AppRegistry, deployment: str, value: Status) -> None:
    write_json(registry, f"deployments/{deployment}/status.json", value)


def write_json(registry: AppRegistry, path: str, value: Any) -> None:
    from airflow_provider_streamupdate.core.serde import to_json

    registry.folder.write(path, to_json(value))


def app_with_snapshots(root: Path, names: Iterable[str] = ("s1",), app: str = "flights") -> AppRegistry:
    """A running app on a hand-made checkpoint, with one batch more before each snapshot."""
    registry = Registry(str(root)).app(app)
    deploy(registry)
    files = CheckpointFiles(registry.checkpoint("v1", "windows"))
    for number, name in enumerate(names):
        files.batch(number)
        files.rocksdb(0, 0, number + 1, [f"{n:06}-{app}.sst" for n in range(number + 1)])
        take(registry, name)
    return registry


def take(registry: AppRegistry, name: str, cancelled: bool = False) -> Snapshot:
    plan = registry.plan("v1")
    assert plan is not None
    return export(registry, "v1", name, plan, cancelled, {})


def golden(kind: str, folder: Path) -> Folder:
    """A checkpoint as Spark wrote it: ``rocksdb`` or ``default-store`` (data/README.md)."""
    with tarfile.open(DATA / f"{kind}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return Folder.open(str(folder / "ck"))


class CheckpointFiles:
    """Writes files as Spark lays them out in a query's checkpoint."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        folder.write("metadata", b'{"id":"11111111-2222-3333-4444-555555555555"}')

    def batch(
        self, number: int, sources: Iterable[str] = ("-",), commit: bool = True, conf: Mapping[str, str] = CONF
    ) -> None:
        entry = {"batchWatermarkMs": 1000 * number, "batchTimestampMs": 0, "conf": dict(conf)}
        self.folder.write(f"offsets/{number}", "\n".join(["v1", json.dumps(entry), *sources]).encode())
        if commit:
            self.folder.write(f"commits/{number}", b'v1\n{"nextBatchWatermarkMs":%d}' % (1000 * number + 500))

    def rocksdb(self, operator: int, partition: int, version: int, ssts: Iterable[str] = ()) -> None:
        """A version's zip and the SSTs it refers to (each once: they are immutable)."""
        ssts = list(ssts)
        metadata = {"sstFiles": [{"localFileName": s[:6], "dfsSstFileName": s, "sizeBytes": 9} for s in ssts]}
        where = f"state/{operator}/{partition}"
        self.folder.write(f"{where}/{version}.zip", rocksdb_zip(metadata, padding=version))
        for name in ssts:
            self.folder.create(f"{where}/SSTs/{name}", f"rows of {operator}/{partition}/{name}".encode())

    def state(self, path: str, data: bytes | None = None) -> None:
        self.folder.write(f"state/{path}", data if data is not None else f"bytes of {path}".encode())

    def operator(self, number: int, stores: Iterable[str] = ("default",), schemas: Iterable[str] = ()) -> None:
        """Spark's description of an operator (OperatorStateMetadataV2): `schemas` are absolute paths."""
        described = {
            "operatorInfo": {"operatorId": number, "operatorName": "stateStoreSave"},
            "stateStoreInfo": [{"storeName": s, "stateSchemaFilePaths": list(schemas)} for s in stores],
            "operatorPropertiesJson": "",
        }
        self.folder.write(f"state/{number}/_metadata/v2/0", f"v2\n{json.dumps(described)}".encode())

    def source_log(self, name: str, *entries: tuple[str, int], position: int = 0) -> None:
        """A file source's log entry or compaction; `entries` are (path, batch)."""
        lines = [json.dumps({"path": path, "timestamp": 1000 + batch, "batchId": batch}) for path, batch in entries]
        self.folder.write(f"sources/{position}/{name}", "\n".join(["v1", *lines]).encode())


def rocksdb_zip(metadata: Mapping[str, Any], padding: int = 0) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("MANIFEST-000005", "m" * padding)
        archive.writestr("metadata", "v1\n" + json.dumps(metadata))
    return data.getvalue()


def live_snapshot(**changes: Any) -> Snapshot:
    """Of query ``windows`` after batch 9, while v1 runs; `changes` to its QuerySnapshot."""
    query = QuerySnapshot(batch=9, query_id="id", files=())
    return Snapshot(
        name="s1",
        app="flights",
        deployment="v1",
        created_at="2026-11-24",
        kind=SnapshotKind.LIVE,
        plan=app_plan(),
        queries={"windows": attrs.evolve(query, **changes)},
    )
