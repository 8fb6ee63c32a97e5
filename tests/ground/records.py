"""Records that go through an app with real drivers, and the oracle: what each sink must hold, counted in plain
Python."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.storage import Folder
from tests.e2e.ground import SPARK_SUBMIT, Ground

PARTS = Path(os.environ.get("STREAMUPDATE_GROUND", ".ground"))
Record = tuple[int, str, int]


def jars(kind: str) -> str:
    """What scripts/ground.sh fetched for a kind of ground, for ``spark.jars``: of what is there for several versions of
    Spark (``..._4.1_2.13-...``) the one's that runs."""
    [spark] = Path(SPARK_SUBMIT).parents[1].glob("lib/*/site-packages/pyspark-*.dist-info")
    others = re.compile(rf"[-_](?!{re.escape(spark.name.split('-')[1][:3])})\d\.\d_")
    found = (path for path in sorted((PARTS / kind).glob("*.jar")) if not others.search(path.name))
    return ",".join(str(path.resolve()) for path in found)


class Records(Ground):
    """A root, a folder that files of new records arrive in, and the app."""

    app = "records"
    source_file = Path(__file__).with_name("app.py")
    new_in_file = 5
    patience = 300.0  # seconds until the last file is read

    def __init__(self, folder: Path, queries: tuple[str, ...], conf: dict[str, str], **params: str) -> None:
        super().__init__(folder)
        self.queries = queries
        self.conf = {
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.network.timeout": "1800s",
            **conf,
        }
        self.given = {"input": str(self.input), "output": str(self.output), **params}
        self.records: list[Record] = []

    def version(self, number: int) -> str:
        file = self.folder / f"v{number}.py"
        text = self.source_file.read_text().replace("VERSION = 1", f"VERSION = {number}")
        file.write_text(re.sub(r"^QUERIES = .*$", f"QUERIES = {self.queries!r}", text, flags=re.MULTILINE))
        return str(file)

    def of_version(self, number: int) -> Application:
        return Application(file=self.version(number), params=self.given, conf=self.conf)

    def write(self) -> None:
        first = self.written * self.new_in_file
        rows = [(n, f"k{n % 3}", n * 7) for n in range(first, first + self.new_in_file)]
        self.put_file(f"{self.written:05d}.json", rows)
        self.records += rows
        self.written += 1

    def put_file(self, name: str, rows: list[Record]) -> None:
        self.bring(name, lines(rows))

    def wait_for_all(self) -> None:
        """Every file is in a committed batch of every query: each takes a file a batch."""

        def done() -> bool | None:
            status = self.client.status(self.app).status
            found = status.queries if status else {}
            return all(q in found and found[q].batch >= self.written - 1 for q in self.queries) or None

        wait_for(done, "the last file", self.patience)

    def settle(self) -> None:
        self.stop_feeding()
        self.wait_for_all()

    def update(self, deployment: str = "two", number: int = 2, **options: Any) -> UpdateRecord:
        """To another version, under load or not."""
        before = self.written
        asked = UpdateOptions(application=self.of_version(number), deployment=deployment, **options)
        record = self.client.update(asked, print)
        print(f"{record.strategy}: files written meanwhile: {self.written - before}; pause {record.pause_seconds} s")
        assert record.outcome == "promoted"
        assert self._thread is None or self._stop.is_set() or self.written > before
        return record

    def run_version_1(self) -> None:
        self.write()
        self.write()
        self.client.submit(self.of_version(1), "one", app=self.app)
        self.wait_for_all()

    def run_version_2(self) -> None:
        """It runs already: two files more."""
        self.write()
        self.write()
        self.wait_for_all()

    def check(self, sink: str, found: Iterable[dict[str, Any]]) -> None:
        """Each record is in a sink once: those of version 1 first, then those of version 2."""
        found = list(found)
        self.count_up(sink, found)
        ids = {version: [row["id"] for row in found if row["version"] == version] for version in (1, 2)}
        assert ids[1] and ids[2] and max(ids[1]) < min(ids[2])

    def count_up(self, sink: str, rows: Iterable[dict[str, Any]]) -> None:
        """Each record is in a sink once."""
        found = list(rows)
        told = Counter((row["id"], row["k"], row["a"]) for row in found)
        expected = Counter(self.records)
        lost, doubled = (expected - told).total(), (told - expected).total()
        print(f"\n{sink}: {len(found)} records, {lost} lost, {doubled} doubled")
        assert (lost, doubled) == (0, 0), (expected - told, told - expected)

    def sinks(self) -> Folder:
        return Folder.open(self.given["output"])

    def file_sink(self) -> list[dict[str, Any]]:
        """The rows of the files that the file sink's log has; each file once, because a compacted log names it
        again."""
        sink = self.sinks().sub("files")
        names = [name for name in sink.names("_spark_metadata") if name.removesuffix(".compact").isdigit()]
        logged = [(sink.read(f"_spark_metadata/{name}") or b"").decode().splitlines()[1:] for name in names]
        files = {json.loads(line)["path"].rpartition("/")[2] for entry in logged for line in entry}
        return [json.loads(line) for file in sorted(files) for line in (sink.read(file) or b"").decode().splitlines()]


def lines(rows: Iterable[Record]) -> str:
    return "".join(json.dumps({"id": n, "k": k, "a": a}) + "\n" for n, k, a in rows)
