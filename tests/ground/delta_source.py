"""What becomes of Delta tables under a running app that reads them: an update finds it before it stops anything, and
goes on once its author has said from where."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.compatibility.report import IncompatibleError
from airflow_provider_streamupdate.core.compatibility.verdict import REFUSED
from airflow_provider_streamupdate.core.registry.application import Application
from tests.e2e.ground import SPARK_SUBMIT, Ground

from .delta import CONF as DELTA
from .delta import delta_rows
from .sql_session import SqlSession

CONF = {
    **DELTA,
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # VACUUM lists with 10,000 tasks else
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
}
REFUSES = ("expired", "vacuumed", "replaced", "remade", "schema", "changes")
TABLES = ("fine", *REFUSES)  # of the app's queries


class Tables(Ground):
    app = "totals"

    def __init__(self, folder: Path, sql: SqlSession) -> None:
        super().__init__(folder)
        self.sql = sql
        self.tables = folder / "tables"
        self.expected: dict[str, list[int]] = {name: [] for name in TABLES}  # the ids that a query has to count

    def application(self, version: str | Path = "1 hour", **params: str) -> Application:
        given = {"tables": str(self.tables), "output": str(self.output), "trigger": str(version), **params}
        return Application(file=str(Path(__file__).with_name("delta_source_app.py")), params=given, conf=CONF)

    def table(self, name: str) -> str:
        return f"delta.`{self.tables / name}`"

    def make(self, name: str) -> None:
        extra, mapping = (", extra string", " tblproperties ('delta.columnMapping.mode' = 'name')")
        columns = "id long, k string" + (extra if name == "schema" else "")
        given = mapping if name == "schema" else ""
        self.sql.run(f"create table {name} ({columns}) using delta location '{self.tables / name}'{given}")

    def insert(self, name: str, *ids: int, counted: bool = True) -> int:
        """The version of the table that has them."""
        shown = self.sql.run(f"describe table {self.table(name)}")
        more = ", 'x'" if any(row[0] == "extra" for row in shown) else ""
        rows = ", ".join(f"({n}, 'k{n % 2}'{more})" for n in ids)
        self.sql.run(f"insert into {self.table(name)} values {rows}")
        self.expected[name] += ids if counted else ()
        return self.version(name)

    def version(self, name: str) -> int:
        return int(self.sql.run(f"describe history {self.table(name)} limit 1")[0][0])

    def clean_log(self, name: str) -> None:
        """As Delta does when the log's retention is over: a checkpoint stays, and what is after it."""
        last = self.version(name)
        self.sql.run(f"alter table {self.table(name)} set tblproperties ('delta.checkpointInterval' = '1')")
        log = self.tables / name / "_delta_log"
        assert list(log.glob(f"{last + 1:020d}.checkpoint*.parquet"))
        for file in log.iterdir():
            number = file.name.lstrip(".").split(".")[0]
            if number.isdigit() and int(number) <= last:
                file.unlink()

    def found(self, name: str) -> dict[str, tuple[int, int]]:
        return {row["k"]: (row["n"], row["ids"]) for row in delta_rows(self.output / name)}

    def right(self, name: str) -> dict[str, tuple[int, int]]:
        """The oracle: counted in plain Python."""
        groups: dict[str, list[int]] = {}
        for number in self.expected[name]:
            groups.setdefault(f"k{number % 2}", []).append(number)
        return {key: (len(ids), sum(ids)) for key, ids in groups.items()}

    def wait_for_answers(self) -> None:
        def done() -> bool | None:
            return all(self.found(name) == self.right(name) for name in TABLES) or None

        try:
            wait_for(done, "the right answers", 300)
        except TimeoutError:
            assert {n: self.found(n) for n in TABLES} == {n: self.right(n) for n in TABLES}
            raise


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Tables]:
    python = Path(SPARK_SUBMIT).with_name("python")
    with SqlSession(python, {**CONF, "spark.sql.warehouse.dir": str(tmp_path / "wh")}, tmp_path / "sql.log") as sql:
        made = Tables(tmp_path, sql)
        yield made
        made.end()


@pytest.mark.timeout(1500)
def test_what_became_of_a_table_is_found_before_anything_stops(ground: Tables) -> None:
    for name in TABLES:
        ground.make(name)
        ground.insert(name, 1, 2, 3)
    ground.client.submit(ground.application(), "one", app=ground.app)
    ground.wait_for_answers()  # of the first batch; the next one is in an hour
    start = spoil(ground)
    before = ground.client.status(ground.app)
    with pytest.raises(IncompatibleError) as refused:
        ground.client.update(UpdateOptions(application=ground.application("1 second"), deployment="two"), print)
    told = {i.name: i for i in refused.value.report.items if i.verdict == REFUSED}
    print("\n".join(refused.value.report.problems))
    assert {f"{name}/{name}:next": ("input.refused",) for name in REFUSES} == {n: i.rules for n, i in told.items()}
    after = ground.client.status(ground.app)
    assert before.current is not None and before.current.deployment == "one"
    assert (after.current, after.state) == (before.current, before.state) == (before.current, "running")
    begin_anew(ground, start)


def spoil(ground: Tables) -> dict[str, int]:
    """Everything that may happen to a table, and rows after it; the version from which each can be read again."""
    ground.insert("fine", 4, 5)
    for name in ("expired", "vacuumed", "schema"):
        ground.insert(name, 6, 7, counted=False)  # rows that come next, and cannot be read any more
    ground.clean_log("expired")
    ground.sql.run(f"optimize {ground.table('vacuumed')}", f"vacuum {ground.table('vacuumed')} retain 0 hours")
    place = ground.tables / "replaced"  # by its name: by its path, Delta 4.4 leaves a table as it is (measured)
    ground.sql.run(f"create or replace table replaced (id long, k string) using delta location '{place}'")
    ground.sql.run("drop table remade")
    shutil.rmtree(ground.tables / "remade")
    ground.make("remade")
    ground.sql.run(f"alter table {ground.table('schema')} drop column extra")
    ground.sql.run(f"delete from {ground.table('changes')} where id = 1")
    return {name: ground.insert(name, 8, 9) for name in TABLES}


def begin_anew(ground: Tables, start: dict[str, int]) -> None:
    """The next version says from where it goes on: by another name of its source, or by an option."""
    agree = ["changes/changes"]
    params = {"changes": "changes skipChangeCommits=true"}
    for name in REFUSES:
        if name != "changes":
            params[name] = f"{name}-again startingVersion={start[name]}"
            agree += [f"{name}/{name}", f"{name}/totals:same=the same columns, from later on"]
    application = ground.application("1 second", **params)
    record = ground.client.update(UpdateOptions(application=application, deployment="three", agree=tuple(agree)), print)
    assert record.outcome == "promoted"
    ground.wait_for_answers()
    print(json.dumps({name: ground.found(name) for name in TABLES}))
