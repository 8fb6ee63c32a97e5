"""StreamPipelineOperator, with a stand-in for the pipeline's driver, which Spark would start (tests/e2e has it)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow_site import FakeTaskInstance, Site

from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import REFUSED, ReportItem
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.plan_answer import PlanError
from airflow_provider_streamupdate.operators.pipeline import StreamPipelineOperator
from airflow_provider_streamupdate.pipelines.record import FlowRecord, PipelineAnswer, PipelineRecord
from tests.core.builders import query_plan

FLOW = FlowRecord(plan=query_plan(name="counts"), folder="_checkpoints/counts/counts", version=1, batch=7)
RECORD = PipelineRecord(pipeline="flights", spark_version="4.3.0", flows={"counts": FLOW})
DRIVER = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
(here / "asked.json").write_text(json.dumps(sys.argv[1:]))
print("26/01/01 00:00:00 INFO SparkContext: something else")
told = open(sys.argv[sys.argv.index("--progress") + 1], "a", buffering=1)
told.write("Flow counts is RUNNING.\\nRun is ")
told.flush()
answer = here / "answer.json"
if answer.exists():
    pathlib.Path(sys.argv[sys.argv.index("--out") + 1]).write_bytes(answer.read_bytes())
told.write("COMPLETED.")
"""


@pytest.fixture
def spec(site: Site) -> Path:
    site.spark_submit.write_text(DRIVER.format(python=sys.executable))
    path = site.folder / "spark-pipeline.yml"
    path.write_text("name: flights\n")
    return path


def run(site: Site, spec: Path | str, answer: PipelineAnswer | None, **more: Any) -> Any:
    if answer is not None:
        (site.spark_submit.parent / "answer.json").write_bytes(to_json(answer))
    return StreamPipelineOperator(task_id="t", pipeline_spec=str(spec), **more).execute({"ti": FakeTaskInstance()})


@pytest.mark.processes
def test_it_returns_the_flows_and_tells_what_spark_tells(
    site: Site, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(
        site,
        spec,
        PipelineAnswer(record=RECORD, carried=("counts",)),
        conf='{"spark.a": "b"}',
        agree="x/y, z",
        renames={"old": "new"},
    )
    assert told == {"flows": {"counts": {"version": 1, "batch": 7}}, "new": [], "carried": ["counts"]}
    asked = json.loads((site.spark_submit.parent / "asked.json").read_text())
    assert [asked[asked.index("run") + 1], asked[asked.index("run") + 2]] == ["--spec", str(spec)]
    assert {"--agree=x/y", "--agree=z", "--rename=old=new"} <= set(asked)
    assert "spark.a=b" in asked
    logged = capsys.readouterr().out
    assert 0 < logged.find("Flow counts is RUNNING.  ") < logged.find("Run is COMPLETED.  ")
    assert "something else" not in logged


@pytest.mark.processes
def test_a_refusal_fails_for_good_and_a_failed_run_is_tried_again(site: Site, spec: Path) -> None:
    item = ReportItem(thing="stage", name="counts/aggregate-1", verdict=REFUSED, reason="another key")
    report = CompatibilityReport(app="flights", source="the checkpoints in /s", items=(item,))
    with pytest.raises(AirflowFailException, match="was not run, and nothing was written"):
        run(site, spec, PipelineAnswer(report=report))
    error = PlanError(type="ApplicationError", message="out of disk")
    for answer, words in (
        (PipelineAnswer(record=RECORD, error=error), "correct it and run the command again"),
        (
            PipelineAnswer(record=RECORD, error=error, carried=("counts",)),
            "state of counts belongs to the new code",
        ),
        (PipelineAnswer(record=RECORD, error=error, carried=("counts",), went_back=True), "are in use again"),
    ):
        with pytest.raises(AirflowException, match=words) as raised:
            run(site, spec, answer)
        assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.processes
def test_a_driver_that_says_nothing_and_a_spec_that_is_none(site: Site, spec: Path) -> None:
    with pytest.raises(AirflowException, match="ended with exit code 0 and said nothing"):
        run(site, spec, None)
    with pytest.raises(AirflowFailException, match="is no file; give the path of"):
        run(site, site.folder / "no.yml", None)
