"""`doctor`, on what is in order and on what is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.serde import to_json
from tests.standin import REPOSITORY

from .conftest import Run, Site, document, table


def found(result: Any) -> dict[str, tuple[str, str]]:
    return {f["thing"]: (f["outcome"], f["found"]) for f in document(result)}


def jar(spark: Path, version: str) -> None:
    folder = spark.parent.parent / "jars"
    folder.mkdir()
    (folder / f"spark-core_2.13-{version}.jar").touch()


def test_all_is_well(site: Site, spark: Path, tmp_path: Path) -> None:
    jar(spark, "4.3.0")
    site.submit()
    result = site.ok("doctor", "--json")
    findings = found(result)
    assert {outcome for outcome, _ in findings.values()} == {"ok"}
    assert list(findings) == ["python", "spark-submit", "java", "root", "clock", "app alarm"]
    assert findings["spark-submit"] == ("ok", f"Spark 4.3 ({spark})")
    assert findings["java"][1].startswith("Java 17 (") and findings["app alarm"][1] == "v1 is running"
    assert os.listdir(tmp_path / "root") == ["alarm"]
    assert table(site.run("doctor"))[0] == ["CHECK", "RESULT", "FOUND"]


def test_what_is_wrong_is_said_and_the_rest_is_looked_at(
    site: Site, spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.submit()
    registry = site.app
    site.crash("v1")
    status = registry.status("v1")
    assert status is not None
    later = clock.from_epoch_ms((clock.parse(clock.now()).timestamp() + 100) * 1000)
    registry.folder.write("deployments/v1/status.json", to_json(attrs.evolve(status, heartbeat_at=later)))
    shutil.copytree(site.folder / "root" / "alarm", site.folder / "root" / "broken")
    (site.folder / "root" / "broken" / "current.json").write_text("{")
    jar(spark, "3.5.1")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = site.run("doctor", "--json")
    assert result.exit_code == 1
    findings = found(result)
    assert findings["spark-submit"][0] == "failed" and "belongs to Spark 3.5, which is not supported" in str(findings)
    assert "supported are 4.0, 4.1, 4.2, 4.3" in str(findings)
    assert findings["java"][0] == "failed" and "no Java was found (JAVA_HOME=/nowhere)" in findings["java"][1]
    assert findings["root"][0] == findings["clock"][0] == "ok"
    assert findings["app alarm"][0] == "failed" and "s in the future" in findings["app alarm"][1]
    assert findings["app broken"][0] == "failed"


def test_a_spark_submit_that_is_none(run: Run, spark: Path, tmp_path: Path) -> None:
    """What it is, it says itself where its jars are not beside it."""
    assert found(run("doctor", "--json"))["spark-submit"] == ("ok", f"Spark 4.3 ({spark})")
    for text, told in (("exit 1", "exit code 1, last line: nothing"), ("echo hello", "last line: hello")):
        other = tmp_path / "other"
        other.write_text(f"#!/bin/sh\n{text}\n")
        other.chmod(0o755)
        result = run("doctor", "--spark-submit", str(other), "--json")
        outcome, said = found(result)["spark-submit"]
        assert result.exit_code == 1 and outcome == "failed" and told in said and "--spark-submit" in said
    other.write_text("#!/bin/sh\necho '  /___/ .__/   version 4.2.0' >&2\n")
    assert found(run("doctor", "--spark-submit", str(other), "--json"))["spark-submit"][1].startswith("Spark 4.2")


def test_a_connection(site: Site, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"root": str(tmp_path / "elsewhere"), "spark_submit": str(spark)}
    monkeypatch.setenv("AIRFLOW_CONN_STREAMS", json.dumps({"conn_type": "streamupdate", "extra": extra}))
    findings = found(site.run("doctor", "--conn-id", "streams", "--json"))
    assert findings["connection"][0] == "failed" and "Spark connection spark_default" in findings["connection"][1]
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    findings = found(site.run("doctor", "--conn-id", "streams", "--json"))
    assert findings["connection"][0] == "ok" and str(tmp_path / "elsewhere") in findings["root"][1]


PIPELINE = "name: flights\nlibraries: []\nstorage: /nowhere\n"


@pytest.mark.parametrize(
    "command",
    [
        ("submit", "FILE", "--deployment", "v2"),
        ("plan", "FILE"),
        ("check", "FILE"),
        ("update", "FILE"),
        ("update", "FILE", "--strategy", "parallel"),
        ("update", "FILE", "--strategy", "restart"),
        ("adopt", "/nowhere", "--app", "alarm", "--plan-from", "FILE"),
        ("rehearse", "FILE"),
        ("pipeline", "check", "PIPELINE"),
        ("supervise", "alarm", "--once"),
    ],
)
def test_an_unsupported_spark_is_refused_before_anything_else(
    site: Site, spark: Path, command: tuple[str, ...]
) -> None:
    """It ended with an AttributeError of the driver's, after its start."""
    site.submit()
    before = set((site.folder / "root" / "alarm").rglob("*.json"))
    jar(spark, "3.5.1")
    (site.folder / "spark-pipeline.yml").write_text(PIPELINE)
    paths = {"FILE": str(site.application("v2")), "PIPELINE": str(site.folder / "spark-pipeline.yml")}
    result = site.run(*(paths.get(word, word) for word in command))
    assert result.exit_code in (1, 2), result.output
    assert f"{spark} belongs to Spark 3.5, which is not supported; supported are 4.0, 4.1, 4.2, 4.3" in result.stderr
    made = set((site.folder / "root" / "alarm").rglob("*.json")) - before
    assert {path.name for path in made} <= {"supervision.json"} and site.alive() == ["v1"]


PACKAGE = "airflow_provider_streamupdate"


@pytest.mark.parametrize(
    "started",
    [("-c", f"from {PACKAGE}.streaming import StreamingApp"), ("-m", f"{PACKAGE}.pipelines.driver.entry_point")],
)
def test_a_driver_with_another_pyspark_says_so_before_it_imports_anything(
    tmp_path: Path, started: tuple[str, str]
) -> None:
    """A wrapper of spark-submit has no jars beside it, so that only its driver knows."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "3.5.0"\n')
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}
    ended = subprocess.run(
        [sys.executable, *started], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert (
        "EnvironmentProblem: pyspark 3.5.0 of" in last and "is not supported; supported are 4.0, 4.1, 4.2, 4.3" in last
    )
