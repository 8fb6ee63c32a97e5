"""The report of a rehearsal, what may be rehearsed, and the scratch folders."""

from __future__ import annotations

import os
import subprocess

import attrs
import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import REFUSED, ReportItem
from airflow_provider_streamupdate.core.difference.figures import BatchFigures
from airflow_provider_streamupdate.core.plan.plan import AppPlan, QueryPlan, SinkPlan, SourcePlan
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import scratch
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.serde import from_json, to_json
from airflow_provider_streamupdate.core.snapshots.rehearsal import (
    ERROR,
    INPUT,
    Rehearsal,
    RehearsalReport,
    RehearsedQuery,
    check_harmless,
)


def query(*batches: tuple[int, int, int], error: str | None = None) -> RehearsedQuery:
    """Of batches (number, rows out, state rows)."""
    made = tuple(
        BatchFigures(batch=n, seconds=0.25, rows_in=9, rows_out=out, state_rows={"daily": kept})
        for n, out, kept in batches
    )
    return RehearsedQuery(name="q", batches=made, ended=ERROR if error else INPUT, error=error)


def report(new: RehearsedQuery | None, old: RehearsedQuery | None = None, *items: ReportItem) -> RehearsalReport:
    def rehearsal(of: RehearsedQuery | None) -> Rehearsal | None:
        rows = {"q": {"daily": 40}}
        return Rehearsal(snapshot="s", deployment="v1", queries=(of,), state_rows=rows) if of else None

    return RehearsalReport(
        app="a",
        snapshot="s",
        newest=True,
        wanted=3,
        compatibility=CompatibilityReport(app="a", source="snapshot s", items=items),
        new=rehearsal(new),
        old=rehearsal(old),
    )


def test_batches_stand_beside_those_of_the_same_number_and_problems_are_told() -> None:
    made = report(query((7, 3, 41), (8, 4, 42)), query((8, 5, 50)))
    assert list(made.batch_rows()) == [
        ("q", 7, 9, None, 3, None, 41, None, 0.25, None),
        ("q", 8, 9, 9, 4, 5, 42, 50, 0.25, 0.25),
    ]
    assert list(made.stage_rows()) == [("q/daily", 40, 42, 50)]
    assert made.passed and made.outcome == "went well"
    assert "| q | 8 | 9 | 9 | 4 | 5 | 42 | 50 | 0.25 | 0.25 |" in made.to_markdown()
    assert from_json(to_json(made), RehearsalReport, "here") == made
    died = report(query((7, 3, 41), error="ValueError: no"))
    assert not died.passed and died.outcome == "failed" and died.problems == ["query q: ValueError: no"]
    assert "- query q: ValueError: no" in died.to_markdown()
    nothing = report(query())
    assert nothing.passed and nothing.outcome == "went well, but there was no input"
    refused = report(None, None, ReportItem(thing="stage", name="q/daily", verdict=REFUSED, reason="other keys"))
    assert not refused.passed and refused.outcome == "not compatible"
    assert "| stage | q/daily | refused | (below) |" in refused.to_markdown()
    assert "stage q/daily: other keys" in refused.to_markdown()


@pytest.mark.parametrize(
    ("format", "options", "reason"),
    [
        ("json", {"path": "/in"}, None),
        ("org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat", {"cleansource": "OFF"}, None),
        ("csv", {"cleansource": "delete"}, "it removes the files it has read"),
        ("kafka", {"subscribe": "t"}, None),
        ("kafka", {"subscribe": "t", "kafka.group.id": "mine"}, "the running app's consumer group"),
        ("rate", {}, None),
        ("socket", {"port": "9"}, "whether reading a source of format socket changes it is unknown"),
    ],
)
def test_a_source_that_reading_changes_is_not_rehearsed(format: str, options: dict[str, str], reason: str) -> None:
    source = SourcePlan(name="in", named=True, format=format, options=options)
    made = QueryPlan(name="q", output_mode="update", sink=SinkPlan(format="noop"), sources=(source,), stages=())
    found = check_harmless(AppPlan(app="a", spark_version="4.3.0", queries=(made,)))
    if reason is None:
        assert found == ()
    else:
        [item] = found
        assert (item.name, item.verdict) == ("q/in", REFUSED) and reason in item.reason


def test_scratch_folders_of_processes_that_are_gone_are_removed(tmp_path) -> None:
    app = Registry(str(tmp_path)).app("a")
    ended = subprocess.Popen(["true"])
    ended.wait()
    own, old = ProcessIdentity.own(), clock.from_epoch_ms(0)
    here = scratch.UsedBy(host=own.host, pid=own.pid, at=clock.now(), process=own)
    reused = attrs.evolve(here, process=attrs.evolve(own, start=1))
    dead = attrs.evolve(here, pid=ended.pid, process=attrs.evolve(own, pid=ended.pid))
    unknown = attrs.evolve(here, process=attrs.evolve(own, boot="another"))
    for name, user, written, kept in (
        ("living", here, 0, True),
        ("dead", dead, None, False),
        ("reused", reused, None, False),
        ("elsewhere", unknown, None, True),
        ("forgotten", attrs.evolve(unknown, at=old), 0, False),
        ("forgotten by this machine's clock only", attrs.evolve(unknown, at=old), None, True),
    ):
        app.folder.write(f"rehearsals/{name}/used-by.json", to_json(user))
        if written is not None:
            os.utime(app.folder.path(f"rehearsals/{name}/used-by.json"), (written, written))
        app.folder.write(f"rehearsals/{name}/q/commits/1", b"")
        folder = scratch.take(app, "mine")
        assert folder.exists("used-by.json")
        assert app.folder.exists(f"rehearsals/{name}/q/commits/1") is kept, name
    scratch.remove(app, "mine")
    scratch.remove(app, "mine")
    assert not app.folder.exists("rehearsals/mine")
