"""A Spark Declarative Pipeline whose flows come and go: what has not run yet, and what runs no more."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil
import pytest
from test_pipelines import PREFIX, Project, rows

from airflow_provider_streamupdate.core.compatibility.report import IncompatibleError
from airflow_provider_streamupdate.core.errors import DriverError, StreamUpdateError
from airflow_provider_streamupdate.pipelines.operations import adopt_pipeline, pipeline_record, run_pipeline
from airflow_provider_streamupdate.pipelines.record import Phase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

CODE = """
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


def code(project: Project, n: str, flow: str = "origins_of_all") -> None:
    text = CODE
    for name, value in {"n": n, "flow": flow, "folder": str(project.folder)}.items():
        text = text.replace(f"{{{name}}}", value)
    (project.folder / "flows" / "flows.py").write_text(text)


def test_a_first_batch_that_fails_and_a_flow_that_is_renamed(tmp_path: Path) -> None:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    project = Project(tmp_path)
    code(project, "if(delay < 0, raise_error('below zero'), delay)")
    project.arrive(("JFK", 5, "2026-01-01T10:00:10", "a"), ("JFK", -1, "2026-01-01T10:00:20", "b"))
    with pytest.raises(StreamUpdateError, match="below zero"):
        project.run()
    assert project.versions()["ids"] == (0, 0)

    # It holds nothing, so that its code may be another one.
    code(project, "delay")
    assert project.run().carried == (f"{PREFIX}ids",)
    assert project.table("ids") == rows({"id": "a", "n": 5}, {"id": "b", "n": -1})
    assert project.versions()["ids"] == (1, 0)

    # Code that is recorded stays: a mistaken adopt changes nothing.
    recorded = pipeline_record(f"{project.folder}/storage").flows
    code(project, "delay * 2")
    adopt_pipeline(project.asked)
    assert pipeline_record(f"{project.folder}/storage").flows == recorded

    # The files of `origins` have batches, which those of a flow with another name would be taken for.
    code(project, "delay", flow="origins_anew")
    with pytest.raises(IncompatibleError, match=r"rows would be lost"):
        project.run(agree=[f"{PREFIX}origins_of_all"])


def test_the_code_of_a_first_run_that_was_killed_is_known(tmp_path: Path) -> None:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    project = Project(tmp_path)
    code(project, "delay")
    project.arrive(("JFK", 5, "2026-01-01T10:00:10", "a"), ("LGA", 7, "2026-01-01T10:00:20", "b"))
    told = project.lines.append

    def kill(line: str) -> None:
        told(line)
        if any((project.folder / "storage").rglob("ids/**/offsets/0")):
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()

    with pytest.raises(DriverError, match="said nothing; run the command again"):
        run_pipeline(project.asked, kill)
    assert pipeline_record(f"{project.folder}/storage").phase == Phase.RUNNING

    code(project, "delay * 2")
    # It has committed its first batch by then, or not.
    with pytest.raises(IncompatibleError, match=r"stage \S+ids/deduplicate-1|run it once with the code of that batch"):
        project.run()
    code(project, "delay")
    project.arrive(("BOS", 9, "2026-01-01T10:00:30", "c"))
    project.run()
    assert project.table("ids") == rows(*({"id": i, "n": n} for i, n in (("a", 5), ("b", 7), ("c", 9))))
    assert project.table("origins") == rows(*({"origin": o} for o in ("BOS", "JFK", "LGA")))
