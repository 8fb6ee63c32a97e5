"""Records that go through an app with real drivers, and the oracle: what each sink must hold, counted in plain
Python."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.state.application import Application
from airflow_provider_streamupdate.state.storage import Folder
from tests.e2e.conftest import Ground

PARTS = Path(os.environ.get("STREAMUPDATE_GROUND", ".ground"))
APP = Path(__file__).with_name("app.py")
Record = tuple[int, str, int]


def jars(kind: str) -> str:
    """What scripts/ground.sh fetched for a kind of ground, for ``spark.jars``."""
    return ",".join(str(path.resolve()) for path in sorted((PARTS / kind).glob("*.jar")))


class Records(Ground):
    """A root, a folder that files of records arrive in, and the app. Each file brings new records and some that were
    there before: of the file before, and the very first."""

    app = "records"
    new_in_file = 5
    again = True

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
        self.env: dict[str, str] = {}
        self.records: list[Record] = []  # each once
        self.files: list[list[Record]] = []  # as they came

    def version(self, number: int) -> str:
        file = self.folder / f"v{number}.py"
        text = APP.read_text().replace("VERSION = 1", f"VERSION = {number}")
        file.write_text(text.replace('QUERIES = ("files",)', f"QUERIES = {self.queries!r}"))
        return str(file)

    def of_version(self, number: int) -> Application:
        return Application(file=self.version(number), params=self.given, conf=self.conf, env_vars=self.env)

    @property
    def params(self) -> list[str]:
        """For the command line."""
        found = ["--master", self.client.launcher.master]
        for option, values in (("--set", self.given), ("--conf", self.conf), ("--env", self.env)):
            for key, value in values.items():
                found += [option, f"{key}={value}"]
        return found

    def write(self) -> None:
        first = self.written * self.new_in_file
        new = [(n, f"k{n % 3}", n * 7) for n in range(first, first + self.new_in_file)]
        again = [*self.records[-self.new_in_file :], *self.records[:2]] if self.again else []
        rows = [*new, *again]
        self.put(f"{self.written:05d}.json", rows)
        self.records += new
        self.files.append(rows)
        self.written += 1

    def put(self, name: str, rows: Iterable[Record]) -> None:
        temporary = self.folder / "next.json"
        temporary.write_text(lines(rows))
        stamp = 1_700_000_000 + self.written  # Spark orders files by their time
        os.utime(temporary, (stamp, stamp))
        temporary.rename(self.input / name)

    def wait_for_all(self) -> None:
        """Every file is in a committed batch of every query: each takes a file a batch."""

        def done() -> bool | None:
            status = self.client.status(self.app).status
            found = status.queries if status else {}
            return all(q in found and found[q].batch >= self.written - 1 for q in self.queries) or None

        wait_for(done, "the last file", 300)

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

    def updating(self, strategy: str = "restart") -> list[str]:
        """The arguments of the update to version 2."""
        return ["update", self.version(2), "--deployment", "two", "--strategy", strategy, *self.params]

    def check(self, sink: str, found: Iterable[dict[str, Any]]) -> None:
        """Each record is in a sink once: those of version 1 first, then those of version 2."""
        found = list(found)
        told = Counter((row["id"], row["k"], row["a"]) for row in found)
        expected = Counter(self.records)
        lost, doubled = (expected - told).total(), (told - expected).total()
        print(f"\n{sink}: {len(found)} records, {lost} lost, {doubled} doubled")
        assert (lost, doubled) == (0, 0), (expected - told, told - expected)
        ids = {version: [row["id"] for row in found if row["version"] == version] for version in (1, 2)}
        assert ids[1] and ids[2] and max(ids[1]) < min(ids[2])

    @property
    def file_sink_folder(self) -> Folder:
        return Folder.open(str(self.output / "files"))

    def file_sink(self) -> list[dict[str, Any]]:
        """The rows of the files that the file sink's log has; each file once, because a compacted log names it
        again."""
        sink = self.file_sink_folder
        names = [name for name in sink.names("_spark_metadata") if name.removesuffix(".compact").isdigit()]
        logged = [(sink.read(f"_spark_metadata/{name}") or b"").decode().splitlines()[1:] for name in names]
        files = {json.loads(line)["path"].rpartition("/")[2] for entry in logged for line in entry}
        return [json.loads(line) for file in sorted(files) for line in (sink.read(file) or b"").decode().splitlines()]

    def check_totals(self) -> None:
        """Sums over everything; the count that version 2 adds knows the rows since the snapshot it started from."""
        files = sorted((self.output / "totals").glob("*.json"))
        last = {row["k"]: row for file in files for row in map(json.loads, file.read_text().splitlines())}
        sums: Counter[str] = Counter()
        for _, k, a in chain.from_iterable(self.files):
            sums[k] += a
        since = self.client.snapshot(self.app, "before-two").queries["totals"].batch + 1  # a file a batch
        counts = Counter(k for _, k, _ in chain.from_iterable(self.files[since:]))
        wrong = {k: row for k, row in last.items() if (row["s"], row.get("n")) != (sums[k], counts[k])}
        print(f"\ntotals: {len(last)} sums and counts, {len(wrong)} wrong")
        assert set(last) == set(sums) and not wrong, (wrong, sums, counts)


def lines(rows: Iterable[Record]) -> str:
    return "".join(json.dumps({"id": n, "k": k, "a": a}) + "\n" for n, k, a in rows)
