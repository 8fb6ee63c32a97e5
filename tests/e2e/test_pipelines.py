"""A Spark Declarative Pipeline whose code changes: real runs of `spark-pipelines` and of `streamupdate pipeline`, and
plain Python says what its tables must hold."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit, spark_environment
from airflow_provider_streamupdate.core.compatibility.report import IncompatibleError
from airflow_provider_streamupdate.core.errors import DriverError, StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.operators.pipeline import StreamPipelineOperator
from airflow_provider_streamupdate.pipelines.operations import (
    Pipeline,
    adopt_pipeline,
    check_pipeline,
    pipeline_record,
    run_pipeline,
)
from airflow_provider_streamupdate.pipelines.record import Phase
from tests.e2e.ground import SPARK_SUBMIT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

SPEC = """
name: flights
storage: file://{folder}/storage
configuration:
  spark.sql.shuffle.partitions: "2"
libraries:
  - glob:
      include: flows/**
"""
# The tables are of JSON, so that they can be read without Spark.
CODE = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()
rows = "origin string, delay long, at timestamp, id string"


def arriving():
    made = spark.readStream.format("json").schema(rows).option("mode", "FAILFAST").load("{folder}/in")
    return made{filter}


@dp.temporary_view
def flights():
    return arriving()


@dp.table(format="json")
def delays():
    made = arriving().withWatermark("at", "10 seconds")  # of no view: Spark Connect analyzes this at once
    counted = made.groupBy({key}, F.window("at", "1 minute").alias("w")).agg({aggregate})
    return counted.selectExpr("origin", "n", "late", "w.start AS start")


@dp.table(format="json")
def ids():
    return spark.readStream.table("flights").dropDuplicates(["id"]).select("id", "origin")


@dp.table(format="json")
def airports():
    return spark.readStream.table("ids"){of_ids}.dropDuplicates(["origin"]).select("origin")


@dp.materialized_view
def by_origin():
    return spark.read.table("ids").groupBy("origin").count()
"""
VALUES = {
    "filter": "", "key": "'origin'", "aggregate": 'F.count("*").alias("n"), F.sum("delay").alias("late")',
    "of_ids": "", "suffix": "'!'", "least": "0", "flow": "origins_of_all",
}  # fmt: skip
# Flows of every kind that has a checkpoint.
KINDS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import StringType

spark = SparkSession.active()


def arriving():
    made = spark.readStream.format("json").schema("origin string, delay long, id string").load("{folder}/in")
    return made{filter}


@F.udf(StringType())
def shout(text):
    return text.upper() + {suffix}


@dp.table(format="json")
def udfs():
    return arriving().withColumn("origin", shout("origin")).dropDuplicates(["origin"]).select("origin")


dp.create_streaming_table("fed", format="json", schema="id string, half long")


@dp.append_flow(target="fed", name="feeds", spark_conf={"spark.sql.ansi.enabled": "false"})
def feeds():
    return arriving().dropDuplicates(["id"]).selectExpr("id", "cast(delay / 2 as long) AS half")


dp.create_sink("out", "json", {"path": "{folder}/sinks/out"})


@dp.append_flow(target="out", name="sunk")
def sunk():
    return arriving().dropDuplicates(["id"]).select("id")


@dp.table(format="json", partition_cols=["origin"])
def parts():
    return arriving().dropDuplicates(["id"]).select("id", "origin")
-- SQL
CREATE STREAMING TABLE written USING JSON AS SELECT id FROM STREAM fed WHERE half >= {least};
"""
# A flow whose first batch may fail, and one that may get another name.
COMING = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.active()
rows = "origin string, delay long, at timestamp, id string"


def arriving():
    return spark.readStream.format("json").schema(rows).load("{folder}/in")


@dp.table(format="json")
def ids():
    return arriving().withColumn("n", F.expr("{n}")).dropDuplicates(["id", "n"]).select("id", "n")


dp.create_streaming_table("origins", format="json")


@dp.append_flow(target="origins")
def {flow}():
    return arriving().dropDuplicates(["origin"]).select("origin")
"""
PREFIX = "spark_catalog.default."


class Project:
    """A pipeline's folder, its input, and what it must make of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.spec = folder, folder / "spark-pipeline.yml"
        (folder / "flows").mkdir()
        (folder / "in").mkdir()
        self.spec.write_text(SPEC.format(folder=folder))
        (folder / "conf").mkdir()
        settings = {  # static ones: spark-pipelines does not hand on those of its command line to its server
            "spark.ui.enabled": "false",
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(folder / "tables"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
            "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/derby.log",
            "spark.sql.session.timeZone": "UTC",
        }
        text = "".join(f"{key} {value}\n" for key, value in settings.items())
        (folder / "conf" / "spark-defaults.conf").write_text(text)
        self.env_vars = {"SPARK_CONF_DIR": str(folder / "conf")}
        self.launcher = SparkSubmit(SPARK_SUBMIT, master="local[2]", env_vars=self.env_vars)
        self.asked = Pipeline(self.launcher, Application(file=str(self.spec)))
        self.lines: list[str] = []
        self.arrived: list[dict[str, Any]] = []

    def code(self, text: str = CODE, **values: str) -> None:
        for name, value in {**VALUES, **values, "folder": str(self.folder)}.items():
            text = text.replace(f"{{{name}}}", value)
        python, _, sql = text.partition("-- SQL\n")
        (self.folder / "flows" / "flows.py").write_text(python)
        (self.folder / "flows" / "flows.sql").write_text(sql)

    def arrive(self, *rows: tuple[str, int, str, str]) -> None:
        made = [dict(zip(("origin", "delay", "at", "id"), row, strict=True)) for row in rows]
        part = self.folder / f"part-{len(self.arrived)}.json"
        part.write_text("".join(json.dumps(row) + "\n" for row in made))
        part.rename(self.folder / "in" / part.name)
        self.arrived += made

    def spark_pipelines(self) -> None:
        """Run it without this package."""
        command = [str(Path(SPARK_SUBMIT).with_name("spark-pipelines")), "--remote", "local[2]"]
        done = subprocess.run(
            [*command, "run", "--spec", str(self.spec)],
            env=spark_environment(SPARK_SUBMIT, self.env_vars),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def run(self, **options: Any) -> Any:
        return run_pipeline(attrs.evolve(self.asked, **options), self.lines.append)

    def run_killed(self, due: Callable[[str], bool]) -> None:
        """Run it, and kill its driver once a line of it is due."""

        def kill(line: str) -> None:
            self.lines.append(line)
            for child in psutil.Process().children(recursive=True) if due(line) else ():
                with contextlib.suppress(psutil.Error):
                    child.kill()

        with pytest.raises(DriverError, match="said nothing; run the command again"):
            run_pipeline(self.asked, kill)

    def table(self, name: str, top: str = "tables") -> Counter[tuple[tuple[str, Any], ...]]:
        """The rows that its sink's log names, each as often as it is there."""
        folder, found = self.folder / top / name, Counter()
        for entry in sorted((folder / "_spark_metadata").glob("[0-9]*")):
            for line in entry.read_text().splitlines()[1:]:
                for row in Path(json.loads(line)["path"].removeprefix("file://")).read_text().splitlines():
                    found[tuple(sorted(json.loads(row).items()))] += 1
        return found

    def versions(self) -> dict[str, tuple[int, int]]:
        flows = pipeline_record(f"{self.folder}/storage").flows
        return {name.removeprefix(PREFIX): (flow.version, flow.batch) for name, flow in flows.items()}

    def files(self) -> dict[str, float]:
        """Everything in its storage, but for who works on it, and its tables."""
        found = [p for top in ("storage", "tables") for p in (self.folder / top).rglob("*") if p.is_file()]
        return {str(p): p.stat().st_mtime for p in found if "lease" not in p.parts}


def rows(*made: dict[str, Any]) -> Counter[tuple[tuple[str, Any], ...]]:
    return Counter(tuple(sorted(row.items())) for row in made)


def windows(arrived: Iterable[dict[str, Any]], watermark: str) -> Counter[tuple[tuple[str, Any], ...]]:
    """The windows of a minute that end by the watermark, which is 10 s behind the newest row."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in arrived:
        found.setdefault((row["origin"], row["at"][:16]), []).append(row["delay"])
    limit = datetime.fromisoformat(watermark)
    return rows(
        *(
            {"origin": origin, "n": len(delays), "late": sum(delays), "start": f"{minute}:00.000Z"}
            for (origin, minute), delays in found.items()
            if datetime.fromisoformat(minute) + timedelta(minutes=1) <= limit
        )
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return Project(tmp_path)


def test_a_pipeline_goes_on_from_its_state_when_its_code_changes(project: Project) -> None:
    """From spark-pipelines to this package, a change that is carried, one that is refused, a run that fails before it
    uses a new checkpoint, and one after."""
    project.code()
    project.arrive(("JFK", 5, "2026-01-01T10:00:10", "a"), ("JFK", 7, "2026-01-01T10:00:20", "b"))
    project.arrive(("LGA", 1, "2026-01-01T10:02:00", "c"))
    project.spark_pipelines()
    untouched = project.files()

    # Nothing tells whose the checkpoints are.
    with pytest.raises(IncompatibleError, match=r"not which code wrote it.*streamupdate pipeline adopt"):
        project.run()
    assert project.files() == untouched
    project.code(key="'origin', 'id'")  # not the code that ran
    with pytest.raises(IncompatibleError, match="were not written by the code of"):
        adopt_pipeline(project.asked)
    project.code()
    adopt_pipeline(project.asked)
    assert set(project.versions()) == {"delays", "ids", "airports"}

    # A filter below the state: two flows go on, in new versions of their checkpoints; the third is what it was. One now
    # reads a column more, so that other records would fail it: that is agreed to.
    kept = project.arrived[:]
    project.code(filter='.where("delay < 1000")')
    project.arrive(("LGA", 2, "2026-01-01T10:02:10", "c"), ("LGA", 5000, "2026-01-01T10:02:20", "d"))
    project.arrive(("JFK", 3, "2026-01-01T10:05:00", "e"))
    with pytest.raises(IncompatibleError, match=r"only columns that are read decide"):
        project.run()
    answer = project.run(agree=[f"{PREFIX}ids/source-1"])
    assert [name.removeprefix(PREFIX) for name in answer.carried] == ["delays", "ids"]
    assert project.lines[-1] == "Run is COMPLETED.", "\n".join(project.lines)
    counted = [row for row in project.arrived if row["delay"] < 1000]
    assert kept == counted[:3]
    assert project.table("delays") == windows(counted, "2026-01-01T10:04:50")
    assert project.table("ids") == rows(
        *({"id": i, "origin": o} for i, o in zip("abce", ("JFK", "JFK", "LGA", "JFK"), strict=True))
    )
    assert project.table("airports") == rows({"origin": "JFK"}, {"origin": "LGA"})
    assert {name: version for name, (version, _) in project.versions().items()} == {
        "delays": 1,
        "ids": 1,
        "airports": 0,
    }

    # Another key: Spark would refuse it, or add to rows of another meaning. Nothing is written.
    before = project.files()
    project.code(filter='.where("delay < 1000")', key="F.upper('origin').alias('origin')")
    with pytest.raises(IncompatibleError, match=r"stage spark_catalog\.default\.delays/aggregate-1"):
        project.run()
    assert check_pipeline(project.asked).compatible is False
    assert project.files() == before

    # The flow that reads another one's table has changed, and the other one fails first: no way forward, and back.
    project.code(filter='.where("delay < 1000")', of_ids=".where(\"origin != 'XXX'\")")
    (project.folder / "in" / "broken.json").write_text("no json\n")
    with pytest.raises(StreamUpdateError, match=r"no flow used its new checkpoint.*in use again \(.*airports\)"):
        project.run()
    assert project.versions()["airports"] == (0, before_batch := project.versions()["airports"][1])
    assert before_batch >= 0
    folder = project.folder / "storage" / "_checkpoints" / "spark_catalog" / "default" / "airports" / "airports"
    assert sorted(path.name for path in folder.iterdir()) == ["0"]

    # The batch that failed runs again when the input is whole, and the change is carried.
    (project.folder / "in" / "broken.json").write_text("")
    project.arrive(("XXX", 1, "2026-01-01T10:06:00", "f"), ("BOS", 1, "2026-01-01T10:06:10", "g"))
    assert [name.removeprefix(PREFIX) for name in project.run().carried] == ["airports"]
    assert project.table("airports") == rows({"origin": "JFK"}, {"origin": "LGA"}, {"origin": "BOS"})
    counted = [row for row in project.arrived if row["delay"] < 1000]
    assert project.table("delays") == windows(counted, "2026-01-01T10:06:00")

    # Who runs it without this package has run code that nobody knows.
    project.arrive(("BOS", 1, "2026-01-01T10:07:10", "h"))
    project.spark_pipelines()
    with pytest.raises(IncompatibleError, match="has run outside of `streamupdate pipeline run`"):
        project.run()


def test_flows_of_every_kind_go_on_though_the_driver_is_killed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python functions, several ways to define a flow, a sink, partitions, SQL. The driver dies once their checkpoints
    are carried, and whoever comes next, here an Airflow task, goes on from there."""
    project.code(KINDS)
    project.arrive(("jfk", 2, "", "a"), ("lga", 4, "", "b"))
    assert sorted(n.removeprefix(PREFIX) for n in project.run().new) == ["feeds", "parts", "sunk", "udfs", "written"]
    assert project.run().carried == ()  # the same code
    first = {"a": ("jfk", 1), "b": ("lga", 2)}
    assert project.table("fed") == rows(*({"id": i, "half": half} for i, (_, half) in first.items()))

    project.code(KINDS, suffix="'?'")  # the function that makes a key of the state
    with pytest.raises(IncompatibleError, match=r"stage spark_catalog\.default\.udfs/deduplicate-1"):
        project.run()

    project.code(KINDS, filter='.where("delay < 100")', least="2")
    project.arrive(("jfk", 20, "", "a"), ("bos", 500, "", "c"), ("ord", 6, "", "d"))
    project.run_killed(lambda line: "its state goes on" in line)
    assert {version for version, _ in project.versions().values()} == {1}
    connection = {"spark_submit": SPARK_SUBMIT, "root": "/nowhere"}
    for name, kind, fields in (
        ("STREAMUPDATE_DEFAULT", "streamupdate", {"extra": connection}),
        ("SPARK_DEFAULT", "spark", {"host": "local[2]"}),
    ):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps({"conn_type": kind, **fields}))
    task = StreamPipelineOperator(task_id="run", pipeline_spec=str(project.spec), env_vars=project.env_vars)
    answer = task.execute({})
    assert answer["carried"] == []  # they were
    assert answer["flows"]["sunk"] == {"version": 1, "batch": 1}
    assert project.table("udfs") == rows(*({"origin": o} for o in ("JFK!", "LGA!", "ORD!")))
    assert project.table("fed") == rows(*({"id": i, "half": h} for i, h in (("a", 1), ("b", 2), ("d", 3))))
    assert project.table("out", "sinks") == rows(*({"id": i} for i in "abd"))
    origins = {"a": "jfk", "b": "lga", "d": "ord"}
    assert project.table("parts") == rows(*({"id": i, "origin": o} for i, o in origins.items()))
    assert project.table("written") == rows(*({"id": i} for i in "abd"))  # a was read by the old code


def test_a_first_batch_that_fails_and_a_flow_that_is_renamed(project: Project) -> None:
    project.code(COMING, n="if(delay < 0, raise_error('below zero'), delay)")
    project.arrive(("JFK", 5, "2026-01-01T10:00:10", "a"), ("JFK", -1, "2026-01-01T10:00:20", "b"))
    with pytest.raises(StreamUpdateError, match="below zero"):
        project.run()
    assert project.versions()["ids"] == (0, 0)

    # It holds nothing, so that its code may be another one.
    project.code(COMING, n="delay")
    assert project.run().carried == (f"{PREFIX}ids",)
    assert project.table("ids") == rows({"id": "a", "n": 5}, {"id": "b", "n": -1})
    assert project.versions()["ids"] == (1, 0)

    # Code that is recorded stays: a mistaken adopt changes nothing.
    recorded = pipeline_record(f"{project.folder}/storage").flows
    project.code(COMING, n="delay * 2")
    adopt_pipeline(project.asked)
    assert pipeline_record(f"{project.folder}/storage").flows == recorded

    # The files of `origins` have batches, which those of a flow with another name would be taken for.
    project.code(COMING, n="delay", flow="origins_anew")
    with pytest.raises(IncompatibleError, match=r"rows would be lost"):
        project.run(agree=[f"{PREFIX}origins_of_all"])


def test_the_code_of_a_first_run_that_was_killed_is_known(project: Project) -> None:
    project.code(COMING, n="delay")
    project.arrive(("JFK", 5, "2026-01-01T10:00:10", "a"), ("LGA", 7, "2026-01-01T10:00:20", "b"))
    project.run_killed(lambda _: any((project.folder / "storage").rglob("ids/**/offsets/0")))
    assert pipeline_record(f"{project.folder}/storage").phase == Phase.RUNNING

    project.code(COMING, n="delay * 2")
    # It has committed its first batch by then, or not.
    with pytest.raises(IncompatibleError, match=r"stage \S+ids/deduplicate-1|run it once with the code of that batch"):
        project.run()
    project.code(COMING, n="delay")
    project.arrive(("BOS", 9, "2026-01-01T10:00:30", "c"))
    project.run()
    assert project.table("ids") == rows(*({"id": i, "n": n} for i, n in (("a", 5), ("b", 7), ("c", 9))))
    assert project.table("origins") == rows(*({"origin": o} for o in ("BOS", "JFK", "LGA")))
