"""What becomes of tables (Delta Lake or Iceberg) under a running app that reads them: an update finds it before it
stops anything, and goes on once its author has said from where."""

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
from tests.e2e.ground import Ground

from .formats import DELTA, Tables

TABLES = ("fine", "expired", "vacuumed", "replaced", "remade", "schema", "changes", "restored")  # a query reads each
FINE = ("fine",) if DELTA else ("fine", "schema")  # Iceberg knows columns by their ids
REFUSES = tuple(name for name in TABLES if name not in FINE)
START = "startingVersion" if DELTA else "stream-from-timestamp"
SKIPPED = "skipChangeCommits" if DELTA else "streaming-skip-overwrite-snapshots"
COLUMNS = "id long, k string"


class Totals(Ground):
    app = "totals"

    def __init__(self, folder: Path, tables: Tables) -> None:
        super().__init__(folder)
        self.tables, self.sql = tables, tables.sql
        self.expected: dict[str, list[int]] = {name: [] for name in TABLES}  # the ids that a query has to count

    def application(self, version: str | Path = "1 hour", **params: str) -> Application:
        given = {**self.tables.given, "trigger": str(version), **params}
        file = Path(__file__).with_name("table_source_app.py")
        return Application(file=str(file), params=given, conf=self.tables.conf)

    def make(self, name: str) -> None:
        self.tables.make(name, COLUMNS + (", extra string" if name == "schema" else ""))

    def insert(self, name: str, *ids: int, counted: bool = True) -> int:
        """From where the table can be read to begin with them."""
        more = ", 'x'" if any(row[0] == "extra" for row in self.sql.run(f"describe table {name}")) else ""
        rows = ", ".join(f"({n}, 'k{n % 2}'{more})" for n in ids)
        self.sql.run(f"insert into {name} values {rows}")
        self.expected[name] += ids if counted else ()
        return self.history(name)[0]

    def history(self, name: str) -> list[int]:
        """The table's versions (Iceberg: their times), the newest first."""
        if DELTA:
            return [int(row[0]) for row in self.sql.run(f"describe history {name}")]
        time = "unix_millis(made_current_at)"
        return [int(row[0]) for row in self.sql.run(f"select {time} from lake.db.{name}.history order by 1 desc")]

    def clean_log(self, name: str) -> None:
        """As Delta does when the log's retention is over: a checkpoint stays, and what is after it."""
        [last, *_] = self.history(name)
        self.sql.run(f"alter table {name} set tblproperties ('delta.checkpointInterval' = '1')")
        log = self.tables.folder / name / "_delta_log"
        assert list(log.glob(f"{last + 1:020d}.checkpoint*.parquet"))
        for file in log.iterdir():
            number = file.name.lstrip(".").split(".")[0]
            if number.isdigit() and int(number) <= last:
                file.unlink()

    def restore(self, name: str) -> None:
        """The version before the last one."""
        if DELTA:
            self.sql.run(f"restore table {name} to version as of {self.history(name)[1]}")
        else:
            [_, before] = self.sql.run(f"select snapshot_id from lake.db.{name}.snapshots order by committed_at desc")
            self.tables.call("rollback_to_snapshot", name, f"snapshot_id => {before[0]}")

    def found(self, name: str) -> dict[str, tuple[int, int]]:
        return {row["k"]: (row["n"], row["ids"]) for row in self.tables.rows(f"totals_{name}")}

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
def ground(tmp_path: Path) -> Iterator[Totals]:
    tables = Tables(tmp_path)
    with tables.sql:
        made = Totals(tmp_path, tables)
        yield made
        made.end()


@pytest.mark.timeout(1500)
def test_what_became_of_a_table_is_found_before_anything_stops(ground: Totals) -> None:
    for name in TABLES:
        ground.make(name)
        ground.insert(name, 1, 2)
        ground.insert(name, 3)
        ground.tables.make(f"totals_{name}", "k string, n long, ids long")
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


def spoil(ground: Totals) -> dict[str, int]:
    """Everything that may happen to a table, and rows after it; from where each can be read again."""
    ground.insert("fine", 4, 5)
    for name in ("expired", "vacuumed", "schema"):  # rows that come next, and mostly cannot be read any more
        ground.insert(name, 6, 7, counted=name in FINE)
    if DELTA:
        ground.clean_log("expired")
    else:
        ground.tables.expire("expired")
    ground.tables.forget_the_past("vacuumed")
    ground.tables.make("replaced", COLUMNS, "or replace")  # by its name: by its path, Delta 4.4 leaves it (measured)
    ground.sql.run("drop table remade")
    shutil.rmtree(ground.tables.folder / "remade", ignore_errors=True)
    ground.make("remade")
    ground.sql.run("alter table schema drop column extra")
    ground.sql.run("delete from changes where id = 1")
    ground.restore("restored")
    return {name: ground.insert(name, 8, 9) for name in TABLES}


def begin_anew(ground: Totals, start: dict[str, int]) -> None:
    """The next version says from where it goes on: by another name of its source, or by an option."""
    agree = ["changes/changes"]
    params = {"changes": f"changes {SKIPPED}=true"}
    for name in REFUSES:
        if name != "changes":
            params[name] = f"{name}-again {START}={start[name]}"
            agree += [f"{name}/{name}", f"{name}/totals:same=the same columns, from later on"]
    application = ground.application("1 second", **params)
    record = ground.client.update(UpdateOptions(application=application, deployment="three", agree=tuple(agree)), print)
    assert record.outcome == "promoted"
    ground.wait_for_answers()
    print(json.dumps({name: ground.found(name) for name in TABLES}))
