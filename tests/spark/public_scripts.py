"""Public PySpark scripts, where they are kept, and their outside world in files.

The scripts are not in this repository: they are other people's. STREAMUPDATE_PUBLIC_REPOSITORIES names a folder with a
clone of each repository (``owner+name``, or ``owner+name/repo``), from which a commit's files are taken as they are.
What a script reads of Kafka, a socket, Kinesis or a clock is a folder of JSON files here, and what it writes to Kafka,
BigQuery or a database is files or a list, by patches of this process alone: no line of a script is changed.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from bench import deploy
from pyspark import SparkContext
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

from airflow_provider_streamupdate.control.operations.version import copy_application
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.core.registry.application import Application, Script
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.engine.queries import RunningQueries
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from airflow_provider_streamupdate.streaming.restore.restorer import restore_app
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
from airflow_provider_streamupdate.streaming.scripts import calls
from airflow_provider_streamupdate.streaming.scripts.app import ScriptApp

CLONES = os.environ.get("STREAMUPDATE_PUBLIC_REPOSITORIES", "")


@attrs.frozen(kw_only=True)
class Public:
    """One script of a repository, and one change of it that a team may make.

    files: what else of the repository it needs
    beside: stand-ins, by their paths in the repository: what it has outside of it (a secret, a configuration, a module
        of an installed package)
    replaced: texts in the script that name its outside world, and cannot be given otherwise (a path)
    change: a text in a file of the repository, and what is put in its place
    verdict: of the change (`verdict_of`)
    """

    repository: str
    commit: str
    licence: str
    script: str
    files: tuple[str, ...] = ()
    beside: dict[str, str] = attrs.field(factory=dict)
    arguments: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    seen_batch: dict[str, str] = attrs.field(factory=dict)
    path: str = ""  # in the repository, on PYTHONPATH, and given with --py-files
    started_in: str = ""  # the folder of the repository that it is started in
    changed: str = ""  # the file that the change is made in (empty: the script)
    change: tuple[str, str] = ("", "")
    verdict: str = "carried"
    why_not: str = ""  # it is no app, and what is said of it


def clone(repository: str) -> Path | None:
    """Return the git directory of a repository's clone."""
    place = Path(CLONES) / repository.replace("/", "+")
    places = (place / "repo" / ".git", place / "repo", place / ".git", place)
    return next((p for p in places if (p / "HEAD").is_file()), None) if CLONES else None


# What a source gives, where it is read of JSON files.
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
SOURCES = {
    "kafka": KAFKA,
    "socket": "value string",
    "rate": "timestamp timestamp, value bigint",
    "aws-kinesis": "data binary, streamName string, partitionKey string, sequenceNumber string, "
    "approximateArrivalTimestamp timestamp",
}
SINKS = {"kafka": "json", "bigquery": "json"}  # a stream's, as files


def encoded(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.b64encode(text.encode()).decode()


class World:
    """Where one script is, with its outside world, and what its versions have written.

    tables: by name, the rows of a database
    shown: by query, batch id and its rows, of a sink that shows them (console) or gives them away (foreach)
    """

    def __init__(self, spark: SparkSession, folder: Path, public: Public) -> None:
        self.spark, self.folder, self.public = spark, folder, public
        self.repository = folder / "repository"
        self.registry = Registry(str(folder / "root")).app("public")
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.shown: dict[str, dict[int, list[dict[str, Any]]]] = {}
        self.files = self.deployments = self.copies = self._rates = 0
        self._unpack()

    def _unpack(self) -> None:
        given = clone(self.public.repository)
        assert given is not None
        command = ["git", f"--git-dir={given}", "archive", self.public.commit, self.public.script, *self.public.files]
        packed = subprocess.run(command, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(self.repository, filter="data")
        for name, text in self.public.beside.items():
            assert not (self.repository / name).exists()
            (self.repository / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repository / name).write_text(text.replace("{folder}", str(self.folder)))
        for old, new in self.public.replaced:
            self.replace(self.public.script, old, new.replace("{folder}", str(self.folder)))

    @property
    def file(self) -> Path:
        return self.repository / self.public.script

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.repository / name).read_text()
        assert old in text, f"{name} has no {old!r}"
        (self.repository / name).write_text(text.replace(old, new))

    def make_change(self) -> None:
        self.replace(self.public.changed or self.public.script, *self.public.change)

    def input(self, name: str) -> Path:
        (self.folder / "in" / name).mkdir(parents=True, exist_ok=True)
        return self.folder / "in" / name

    def write(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Write one file of a source: of a topic, a stream, or ``socket``."""
        path = self.input(name) / f"{self.files:04d}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + self.files,) * 2)
        self.files += 1

    def say(self, topic: str, values: list[Any], at: str = "2026-01-01T00:00:00Z") -> None:
        """Write messages of a topic of Kafka."""
        known = {"topic": topic, "partition": 0, "timestamp": at, "timestampType": 0, "key": encoded("k")}
        self.write(topic, [{**known, "value": encoded(value), "offset": n} for n, value in enumerate(values)])

    def app(self) -> ScriptApp:
        """Return the script as a driver has it: in a copy, with what goes along."""
        arguments = tuple(a.format(folder=self.folder) for a in self.public.arguments)
        script = Script(app="public", arguments=arguments, seen_batch=self.public.seen_batch)
        self.copies += 1
        place = self.folder / f"copy-{self.copies}"
        kept = copy_application(Application(file=str(self.file), script=script), Folder.scratch(place))
        return ScriptApp(place / kept.file, script)

    def build(self) -> tuple[ScriptApp, AppPlan, dict[str, DataStreamWriter]]:
        self._rates = 0
        forget_modules(self.folder)
        # Of the version before, in a driver of its own.
        self.spark.sparkContext._python_includes.clear()
        self.spark.sparkContext.environment.pop("PYTHONPATH", None)
        if self.public.path:
            sys.path.insert(0, str(self.repository / self.public.path))
            packed = shutil.make_archive(
                str(self.folder / f"py-{self.files}-{time.monotonic_ns()}"), "zip", sys.path[0]
            )
            self.spark.sparkContext.addPyFile(packed)
        app = self.app()
        writers = app.build(self.spark, {})
        return app, plan_app(self.spark, app.declarations(), writers), writers

    def plan(self) -> AppPlan:
        return self.build()[1]

    # What it reads and writes

    def read(self, reader: DataStreamReader, path: str | None, form: str, options: dict[str, str]) -> DataFrame:
        name = options.get("subscribe") or options.get("kinesis.streamname") or form
        if form == "rate":
            self._rates += 1
            name = f"rate-{self._rates}"
        made = self.spark.readStream.schema(SOURCES[form]).option("maxFilesPerTrigger", 1)
        return made.json(str(self.input(name)))

    def run(self, snapshot: str | None = None, agree: tuple[str, ...] = ()) -> str:
        """Deploy the script as it is now, fresh or from a snapshot, and let it read all. Return its last snapshot."""
        app, plan, writers = self.build()
        self.deployments += 1
        deployment = f"d{self.deployments}"
        deploy(self.registry, deployment, self.deployments, from_snapshot=snapshot)
        self.registry.deployment_folder(deployment).write("plan.json", to_json(plan))
        if snapshot:
            saved = SavedState.find(self.registry, f"snapshot:{snapshot}")
            report = saved.compare(plan, agree)
            assert report.compatible, report.problems
            restore_app(saved, plan, writers, self.registry, deployment, {})
        sinks = {query.name: query.sink.format for query in plan.queries}
        for name, writer in writers.items():
            writer.trigger(processingTime="0 seconds")  # the clock's
            if sinks[name] == "console":
                writer.foreachBatch(self._keep(name))
        checkpoints = {name: self.registry.checkpoint(deployment, name) for name in writers}
        queries = RunningQueries(self.spark, writers, checkpoints, plan)
        app.begin()
        queries.start()
        try:
            for query in queries._queries.values():
                query.processAllAvailable()
                if error := query.exception():
                    raise error
            queries.drain()
        finally:
            queries.stop()
            app.finish()
        app.check()
        export(self.registry, deployment, f"s{self.deployments}", plan, True, queries.progress())
        return f"s{self.deployments}"

    def check(self, snapshot: str) -> CompatibilityReport:
        return SavedState.find(self.registry, f"snapshot:{snapshot}").compare(self.plan(), ())

    def _keep(self, query: str) -> Callable[[DataFrame, int], None]:
        kept = self.shown.setdefault(query, {})

        def keep(batch: DataFrame, batch_id: int) -> None:
            kept[batch_id] = [row.asDict(recursive=True) for row in batch.collect()]

        return keep

    def rows(self, query: str = "query-1") -> list[dict[str, Any]]:
        """Return all rows that a query has shown, in their order."""
        return [row for _, rows in sorted(self.shown.get(query, {}).items()) for row in rows]

    def last(self, query: str = "query-1") -> list[dict[str, Any]]:
        """Return the rows of a query's last batch with rows."""
        return next((rows for _, rows in sorted(self.shown[query].items(), reverse=True) if rows), [])


def forget_modules(folder: Path) -> None:
    """Make the next script import its own modules, where two have some of the same name."""
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
        if "/repository/" in str(origin) or (origin and str(origin).startswith(str(folder))):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., World]]:
    """Makes a script's world. One in a test."""
    made: list[World] = []
    if not calls._installed:  # what is patched here lies above
        calls._install()
        calls._installed.append(True)
    load, given = DataStreamReader.load, {n: getattr(DataStreamReader, n) for n in ("format", "option", "options")}

    def format_(reader: DataStreamReader, source: str) -> DataStreamReader:
        if source in SOURCES:
            vars(reader)["_public"] = (source, {})
            return reader
        return given["format"](reader, source)

    def options(reader: DataStreamReader, **more: Any) -> DataStreamReader:
        if "_public" in vars(reader):
            vars(reader)["_public"][1].update({key.lower(): str(value) for key, value in more.items()})
            return reader
        return given["options"](reader, **more)

    def load_(reader: DataStreamReader, path: str | None = None, *args: Any, **more: Any) -> DataFrame:
        if "_public" in vars(reader):
            return made[-1].read(reader, path, *vars(reader)["_public"])
        return load(reader, path, *args, **more)

    def jdbc(writer: DataFrameWriter, url: str, table: str, mode: str | None = None, properties: Any = None) -> None:
        rows = [row.asDict(recursive=True) for row in writer._df.collect()]
        known = made[-1].tables.setdefault(table, [])
        if mode == "overwrite":
            known.clear()
        known += rows

    form, slept = DataStreamWriter.format, time.sleep

    def sink(writer: DataStreamWriter, source: str) -> DataStreamWriter:
        writer = form(writer, SINKS.get(source, source))
        return writer if source not in SINKS else writer.option("path", str(made[-1].folder / "out" / source))

    monkeypatch.setattr(DataStreamReader, "format", format_)
    monkeypatch.setattr(DataStreamReader, "option", lambda reader, key, value: options(reader, **{key: value}))
    monkeypatch.setattr(DataStreamReader, "options", options)
    monkeypatch.setattr(DataStreamReader, "load", load_)
    monkeypatch.setattr(DataStreamWriter, "format", sink)
    monkeypatch.setattr(DataFrameWriter, "jdbc", jdbc)
    monkeypatch.setattr(SparkContext, "setLogLevel", lambda context, level: None)
    monkeypatch.setattr(time, "sleep", lambda seconds: slept(min(seconds, 0.05)))
    monkeypatch.chdir(tmp_path)
    for name in ("PYSPARK_SUBMIT_ARGS",):  # scripts set it
        monkeypatch.setenv(name, "")
    jvm = spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsparkSession.sessionState().newHadoopConf())
    before = files.getWorkingDirectory()
    workers = spark.sparkContext._jsc.sc().conf()
    workers.set("spark.python.worker.reuse", "false")  # the next version's driver has workers of its own
    main, argv, path, handler = sys.modules["__main__"], sys.argv, [*sys.path], signal.getsignal(signal.SIGTERM)

    def make(public: Public) -> World:
        if clone(public.repository) is None:
            pytest.skip(f"STREAMUPDATE_PUBLIC_REPOSITORIES has no clone of {public.repository}")
        made.append(World(spark, tmp_path, public))
        where = made[-1].repository / public.started_in
        monkeypatch.chdir(where)
        files.setWorkingDirectory(jvm.org.apache.hadoop.fs.Path(str(where)))  # a driver is started there
        return made[-1]

    yield make
    files.setWorkingDirectory(before)
    workers.set("spark.python.worker.reuse", "true")
    sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, path
    signal.signal(signal.SIGTERM, handler)
    forget_modules(tmp_path)


def verdict_of(report: CompatibilityReport) -> str:
    """Return what becomes of a change: carried, migrated, asked (an agreement is needed), or refused."""
    blocking = [item for item in report.items if item.blocks]
    if not blocking:
        return "migrated" if any(str(item.verdict) == "migrated" for item in report.items) else "carried"
    return "asked" if all(item.needs_agreement or item.offer for item in blocking) else "refused"


def verdicts(world: World) -> tuple[str, str, CompatibilityReport | None]:
    """Return the verdict of the script against itself, of its change, and the change's report."""
    try:
        old = world.plan()
    except StreamUpdateError as error:
        return f"no app: {error}", "", None
    itself = compare(old, world.plan(), "itself")
    world.make_change()
    changed = compare(old, world.plan(), "the change")
    return "; ".join(itself.problems) or "carried", verdict_of(changed), changed
