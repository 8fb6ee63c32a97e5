"""The commands ``pipeline ...`` where no driver is started: what is recorded, and what is wrong with the request."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.pipelines import record as records
from airflow_provider_streamupdate.pipelines.record import FlowRecord, Phase, PipelineRecord
from tests.core.builders import query_plan

from .conftest import Run, document


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    flow = FlowRecord(plan=query_plan(name="counts"), folder="_checkpoints/counts/counts", version=2, batch=7)
    record = PipelineRecord(pipeline="flights", spark_version="4.3.0", flows={"counts": flow}, phase=Phase.RUNNING)
    records.write(Folder.open(str(tmp_path)), record)
    return tmp_path


def test_status_shows_the_flows_and_what_is_under_way(run: Run, storage: Path) -> None:
    told = run("pipeline", "status", str(storage))
    assert told.exit_code == 0
    lines = [line.split() for line in told.stdout.splitlines()]
    assert ["pipeline", "flights"] in lines and ["phase", "running"] in lines
    assert ["counts", "2", "7", "daily"] in lines
    found = document(run("pipeline", "status", str(storage), "--json"))
    assert found["flows"]["counts"]["version"] == 2


def test_status_of_a_storage_without_a_record_says_what_makes_one(run: Run, tmp_path: Path) -> None:
    told = run("pipeline", "status", str(tmp_path))
    assert told.exit_code == 1
    assert "streamupdate pipeline adopt" in told.stderr


@pytest.mark.parametrize(("command", "code"), [("check", 2), ("adopt", 2), ("run", 2)])
def test_a_spec_that_is_no_file_is_wrong_usage(run: Run, tmp_path: Path, command: str, code: int) -> None:
    told = run("pipeline", command, str(tmp_path / "no.yml"))
    assert told.exit_code == code
    assert "is no file; give the path of spark-pipeline.yml" in told.stderr


def test_two_forms_of_a_report_exclude_each_other(run: Run, tmp_path: Path) -> None:
    told = run("pipeline", "check", str(tmp_path / "no.yml"), "--markdown", "--json")
    assert (told.exit_code, "exclude each other" in told.stdout) == (2, True)
