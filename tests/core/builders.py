"""What the tests start from: plans, specs and statuses; a registry with a running app; checkpoints, hand-made
(`CheckpointFiles`) or as Spark wrote them (`golden`)."""

from __future__ import annotations

import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot, Snapshot, SnapshotKind
from airflow_provider_streamupdate.core.history.history import Minutes, hour_of, write_minutes
from airflow_provider_streamupdate.core.history.span import Span
from airflow_provider_streamupdate.core.plan.expressions import (
    Branch,
    Call,
    Column,
    Expression,
    Literal,
    Output,
    Python,
    SessionWindow,
    Unknown,
    Window,
    field_of,
    fold,
    named,
)
from airflow_provider_streamupdate.core.plan.plan import (
    AggregateBuffer,
    Aggregation,
    AppPlan,
    Deduplication,
    Join,
    Limit,
    NotUnderstood,
    PandasFunction,
    Processor,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StagePlan,
    StateSchema,
    StateVariable,
    Step,
    Watermark,
)
from airflow_provider_streamupdate.core.plan.plan import Path as RowPath
from airflow_provider_streamupdate.core.plan.visitors import union
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import Current, DeploymentSpec, Launch, QueryStatus, Status
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.storage import Folder

DATA = Path(__file__).parent / "data"
CONF = {"spark.sql.shuffle.partitions": "2"}
KEY = {"type": "struct", "fields": [{"name": "origin", "type": "string", "nullable": True, "metadata": {}}]}
VALUE = {"type": "struct", "fields": [{"name": "count", "type": "long", "nullable": False, "metadata": {}}]}


_TOKEN = re.compile(r"\s*('(?:\\.|[^'\\])*'|\[λ\d+\]|[⟨⟩(),=|∪]|#?[^\s⟨⟩(),=|∪']+)")
_UNITS = {"minutes": 60_000_000, "minute": 60_000_000, "hours": 3_600_000_000}


def expression(text: str) -> Expression:
    """The tree of an expression as `Expression.text` writes it, for what tests need: a column is ``source.path``, one
    of a source that has passed a stage ``stage>source.path``."""
    found = _Parser(_TOKEN.findall(text))
    made = found.whole()
    assert not found.left, f"{text}: {found.left}"
    return made


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens

    def take(self, *wanted: str) -> str:
        if wanted and self.left[:1] not in [[w] for w in wanted]:
            return ""
        return self.left.pop(0)

    def whole(self) -> Expression:
        """An operand, or two with a sign between them."""
        if self.left[0] in ("left", "right", "by", "distinct"):
            return Call(self.take(), (self.whole(),))
        if self.left[:2] == ["event", "time"]:
            self.left = self.left[2:]
            return Call("event time", (self.whole(),))
        if self.left[:2] == ["lookup", "by"]:
            self.left = self.left[2:]
            condition = self.whole()
            table = (("table", Literal(self.take())),) if self.take(",") else ()
            return Call("lookup", (Call("rows", (condition,), table),))
        first = self.operand()
        if self.take("="):
            return Call("equalto", (first, self.operand()))
        if self.take("filter"):
            return Call("filter", (first, self.operand()))
        return first

    def operand(self) -> Expression:
        token = self.take()
        if token == "⟨":
            branches = [self.branch()]
            while self.take("∪"):
                branches.append(self.branch())
            assert self.take("⟩")
            return union(branches)
        if token == "(":
            parts = [self.whole()]
            while self.take("|"):
                parts.append(self.whole())
            assert self.take(")")
            return Call("either", tuple(parts)) if len(parts) > 1 else parts[0]
        made = self.call(token) if self.take("(") else _leaf(token)
        return field_of(made, self.take()[1:]) if self.left and self.left[0].startswith(".") else made

    def branch(self) -> Branch:
        sources = (self.take()[:-1],) if self.left[0].endswith(":") else ()
        value = self.whole()
        return Branch(value, sources=sources, stages=(self.take()[:-1],) if self.take("after") else ())

    def call(self, name: str) -> Expression:
        arguments: list[Expression] = []
        options: list[tuple[str, Literal]] = []
        while not self.take(")"):
            if name in ("window", "session_window") and arguments:
                options.append((" ".join(self.left[: (end := self.end())]), Literal("")))
                self.left = self.left[end:]
            elif self.left[1:2] == ["="] and "." not in self.left[0]:
                key, _ = self.take(), self.take()
                options.append((key, Literal(self.take())))
            else:
                arguments.append(self.whole())
            self.take(",")
        return _call(name, tuple(arguments), tuple(options))

    def end(self) -> int:
        return next(n for n, token in enumerate(self.left) if token in (",", ")"))


def _leaf(token: str) -> Expression:
    if token.startswith("?"):
        return Unknown(token[1:])
    literal = token.startswith(("'", "#")) or token[0].isdigit() or token.isupper() or "." not in token
    if literal:
        value, _, kind = token.partition(":") if not token.startswith("'") else (token, "", "")
        return Literal(value, kind)
    stage, of, column = token.rpartition(">")
    source, _, path = column.partition(".")
    return Output(stage, Column(source, path)) if of else Column(source, path)


def _call(name: str, arguments: tuple[Expression, ...], options: tuple[tuple[str, Literal], ...]) -> Expression:
    told = [text for text, _ in options]
    if name == "window":
        size = int(told[0].split()[0]) * _UNITS[told[0].split()[1]]
        slide = next((int(t.split()[1]) * _UNITS[t.split()[2]] for t in told if t.startswith("every")), size)
        return Window(arguments[0], size, slide, 0, told[-1][1:])
    if name == "session_window":
        return SessionWindow(arguments[0], Literal(told[0].removeprefix("gap ")), told[-1][1:])
    if name.startswith("python#"):
        return Python(name.removeprefix("python#"), "", arguments, options)
    if name.startswith("python:"):
        return Python("", name.removeprefix("python:"), arguments, options)
    return Unknown(name[1:], arguments) if name.startswith("?") else Call(name, arguments, options)


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
    return StagePlan(**in_trees({**values, **changes}))


def evolve(stage: StagePlan, **changes: Any) -> StagePlan:
    """`attrs.evolve`, with texts in place of expressions."""
    return attrs.evolve(stage, **in_trees({"kind": stage.kind, **changes}))


def in_trees(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a stage or a query with expressions in place of texts. types: of the columns of a definition"""
    types = values.pop("types", {})
    made = dict(values)
    if isinstance(values.get("definition"), dict):
        made["definition"] = definition(values["kind"], values["definition"], types)
    for name in ("filters", "hidden", "arrivals", "late_rows", "aggregated"):
        if name in values:
            made[name] = tuple(expression(each) if isinstance(each, str) else each for each in values[name])
    if values.get("paths"):
        made["paths"] = tuple(path(*each) if isinstance(each, tuple) else each for each in values["paths"])
    if "watermarks" in values:
        made["watermarks"] = tuple(watermark(w) if isinstance(w, str) else w for w in values["watermarks"])
    return made


def path(*texts: str) -> RowPath:
    """``("from a.", "after daily.", "after the watermark: f(a.x)", "g(a.x)")``"""
    late = "after the watermark: "
    [source] = [text[5:-1] for text in texts if text.startswith("from ")]
    stages = [t[6:-1] for t in texts if t.startswith("after ") and not t.startswith(late)]
    steps = [t for t in texts if t.startswith(late) or not t.startswith(("from ", "after "))]
    return RowPath(source, stages, [Step(expression(t.removeprefix(late)), t.startswith(late)) for t in steps])


def watermark(text: str) -> Watermark:
    """``a.t delayed by 10 ms``"""
    column, _, delay = text.partition(" delayed by ")
    return Watermark(delay_ms=int(delay.split()[0]), column=expression(column))


DEFINITIONS: dict[str, type] = {
    "aggregate": Aggregation,
    "session-window": Aggregation,
    "deduplicate": Deduplication,
    "deduplicate-within-watermark": Deduplication,
    "join": Join,
    "limit": Limit,
    "apply-in-pandas-with-state": PandasFunction,
    "transform-with-state": Processor,
}


def definition(kind: str, parts: Mapping[str, Any], types: Mapping[str, str] = {}) -> Any:
    """The definition of a stage with its parts as texts."""

    def made(text: str) -> Expression:
        return fold(expression(text), typed)

    def typed(node: Any, children: list[Expression]) -> Expression:
        node = node.with_children(children)
        return attrs.evolve(node, type=types.get(node.text, "")) if isinstance(node, Column) else node

    def part(name: str, value: Any) -> Any:
        if name == "code":
            return Python(value[1:]) if value.startswith("#") else Python("", value.removeprefix("python:"))
        if name == "input":
            return tuple(named(text.partition(" = ")[0], made(text.partition(" = ")[2])) for text in value)
        if name == "state_variables":
            return tuple(variable(text) for text in value)
        if name in ("join_type", "timeout", "time_mode", "initial_state"):
            return value
        return tuple(map(made, value)) if isinstance(value, (list, tuple)) else made(value)

    given = {name.replace(" ", "_"): value for name, value in parts.items()}
    kept = DEFINITIONS.get(kind, NotUnderstood)
    required = {"join_type": "Inner", "code": "#1", "rows": "5"}
    known = {name: value for name, value in {**required, **given}.items() if name in attrs.fields_dict(kept)}
    return kept(**{name: part(name, value) for name, value in known.items()})


def variable(text: str) -> StateVariable:
    name, _, kind = text.partition(": ")
    return StateVariable(name=name, kind=kind.removesuffix(" with TTL"), ttl=kind.endswith(" with TTL"))


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
    return QueryPlan(**in_trees({**values, **changes}))


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
        batch=7, first_batch=0, last_commit_at=clock.now(), processed_rows_per_second=120.5, state_rows={"daily": 42}
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


def write_spans(registry: AppRegistry, *spans: Span, deployment: str = "v1", epoch: int = 1, query: str = "q") -> None:
    """The minutes of a driver, in the files of their hours."""
    hours: dict[datetime, list[Span]] = {}
    for one in spans:
        hours.setdefault(hour_of(clock.parse(one.at)), []).append(one)
    for hour, found in hours.items():
        write_minutes(registry.folder, hour, Minutes(deployment=deployment, epoch=epoch, spans={query: tuple(found)}))


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
