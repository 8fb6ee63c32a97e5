"""Real drivers: spark-submit from the Spark environment, real files, the command line or the client in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.errors import CorruptError
from airflow_provider_streamupdate.core.registry.application import Application

ROOT = Path(__file__).resolve().parents[2]
SPARK_SUBMIT = os.environ.get("STREAMUPDATE_SPARK_SUBMIT") or str(ROOT / ".venv-spark" / "bin" / "spark-submit")
sys.path.insert(0, str(ROOT / "scripts"))

from demolib.comparison import compare, sink_rows  # noqa: E402
from demolib.oracle import expected_alarms, found_alarms, read_rows  # noqa: E402
from demolib.source_log import files_of_snapshot  # noqa: E402

APPS = ROOT / "spark_apps"
GRACE = timedelta(seconds=30)
# Code of an application whose sink is a JSON file a batch, which the same batch replaces. each: one a call, so that
# what is given twice is seen
SINK = """import json, os, uuid
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp, stage, to_table

def sink(folder, each=False):
    def keep(batch, batch_id):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{batch_id:04d}{uuid.uuid4().hex if each else ''}.json")
        with open(path + ".part", "w") as file:
            json.dump([row.asDict() for row in batch.collect()], file)
        os.replace(path + ".part", path)
    return keep

"""
MAIN = """
if __name__ == "__main__":
    app.main()
"""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """What such a sink has written, batch by batch."""
    return [row for path in sorted(folder.glob("*.json")) for row in json.loads(path.read_text())]


class Ground:
    """A root, a folder events arrive in, and motion-alarm to run on it."""

    app = "motion-alarm"
    cli_seconds = 280.0  # of one command, at most
    feed_seconds = 1.0  # between two files: more than a batch takes on a slow machine, so that no backlog grows
    least_files = 20  # until `settle`: the oracle has 31 alarms for them, however fast the machine is

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.input, self.output = folder / "in", folder / "out"
        self.input.mkdir()
        self.client = StreamUpdateClient(str(self.root), SparkSubmit(SPARK_SUBMIT, master="local[2]"))
        self.written = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def application(self, version: str | Path, **params: str) -> Application:
        file = version if isinstance(version, Path) else APPS / "motion_alarm" / f"{version}.py"
        return Application(file=str(file), params={"input": str(self.input), "output": str(self.output), **params})

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", "from airflow_provider_streamupdate.cli import main; main()", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ, "PYTHONPATH": str(ROOT), "STREAMUPDATE_ROOT": str(self.root),
            "STREAMUPDATE_SPARK_SUBMIT": SPARK_SUBMIT, "STREAMUPDATE_VERIFY_FOR": "1",
        }  # fmt: skip

    def cli(self, *arguments: str, code: int = 0) -> str:
        """Run `streamupdate`; its standard output. The exit code must be `code`."""
        done = subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=self.cli_seconds,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.cli(*arguments, "--json"))

    @property
    def params(self) -> list[str]:
        return ["--set", f"input={self.input}", "--set", f"output={self.output}", "--master", "local[2]"]

    @property
    def agreed(self) -> list[str]:
        """Version 2 has other code in its state function, which reads what version 1 has kept."""
        return ["--agree", "alarms/rooms"]

    def write(self) -> None:
        """One more file of events, 8 s after the one before. Room n is activated once in a while and stays so."""
        second = self.written * 8
        events = []
        for room in range(4):
            at = datetime(2024, 5, 1, tzinfo=timezone.utc) + timedelta(seconds=second + room)
            step = (self.written + room * 3) % 20
            kind = "activate" if step == 0 else "deactivate" if step == 17 else "motion"
            events.append({"room": f"r{room}", "event": kind, "ts": at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"})
        self.put(events)

    def put(self, rows: Iterable[dict[str, Any]]) -> None:
        """One more input file, of these rows."""
        self.bring(f"{self.written:05d}.json", "".join(json.dumps(row) + "\n" for row in rows))
        self.written += 1

    def bring(self, name: str, text: str) -> None:
        """An input file, which nobody sees before it is whole and has its time."""
        temporary = self.folder / "next.json"
        temporary.write_text(text)
        stamp = 1_700_000_000 + self.written  # Spark orders files by their time
        os.utime(temporary, (stamp, stamp))
        temporary.rename(self.input / name)

    def feed(self) -> None:
        """Go on writing in the background until `settle`."""

        def work() -> None:
            while not self._stop.wait(self.feed_seconds):
                self.write()

        self._stop.clear()
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def stop_feeding(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def settle(self) -> None:
        """Stop writing, after `least_files` at the earliest, and wait until every file is in a committed batch."""
        self.stop_feeding()
        while self.written < self.least_files:
            self.write()

        def read_all() -> bool | None:
            with suppress(CorruptError):  # the source's log was compacted between two looks: Spark keeps it 10 minutes
                return len(self.read_by(self.client.status(self.app).spec.deployment)) >= self.written or None
            return None

        wait_for(read_all, "the last file", 400)

    def read_by(self, deployment: str) -> set[str]:
        """The files in a deployment's committed batches (its whole checkpoint's, also carried ones)."""
        from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint

        checkpoint = Checkpoint(self.client.registry.app(self.app).checkpoint(deployment, "alarms"))
        batch = checkpoint.committed_batch()
        if batch is None:
            return set()
        last = json.loads(checkpoint.offsets(batch).sources[0])["logOffset"]
        return {Path(e["path"]).name for e in checkpoint.source_file_log(0, last)}

    def batch(self) -> int:
        """The last batch the current deployment has committed; -1 before it has told."""
        query = self.client.status(self.app).status.queries.get("alarms")
        return query.batch if query else -1

    def current(self) -> str | None:
        """The deployment that may commit."""
        return self.client.registry.app(self.app).current_id()

    def wait_for_batches(self, count: int) -> None:
        self.client.wait_healthy(self.app, batches=count, timeout=120)

    def check_answer(self, cut: str | None) -> None:
        """Every alarm exactly as the oracle has it: files in snapshot `cut` under version 1, the others under 2."""
        names = sorted(f.name for f in self.input.glob("*.json"))
        before = names
        if cut is not None:
            snapshot = self.client.snapshot(self.app, cut)
            folder = self.client.registry.app(self.app).folder
            before = files_of_snapshot(snapshot.queries["alarms"], lambda path: folder.read(path) or b"")
            assert 0 < len(before) < len(names)
        after = [n for n in names if n not in set(before)]
        expected = expected_alarms(read_rows(self.input, before), read_rows(self.input, after), GRACE)
        comparison = compare(expected, found_alarms(sink_rows(self.output / "alarms")))
        assert comparison.differences == 0, comparison.examples()
        assert comparison.expected > 10

    def drivers(self, deployment: str | None = None) -> list[psutil.Process]:
        """The Python processes of drivers under this root (not their workers), of one deployment or of all."""
        found = []
        for process in psutil.process_iter(["name", "cmdline", "status"]):
            line = process.info["cmdline"] or []
            ours = str(self.root) in line and "run" in line and deployment in (None, *line)
            if ours and "python" in process.info["name"] and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def end(self) -> None:
        self.stop_feeding()
        for app in self.client.apps():
            for spec in self.client.deployments(app):
                self.client.drivers(app).kill(spec.deployment)


class Sums(Ground):
    """Values of keys arrive; `total` is the sum of each key. `code`: the application's, between SINK and MAIN."""

    code = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.total: Counter[str] = Counter()

    @property
    def params(self) -> list[str]:
        return [*super().params, "--conf", "spark.sql.shuffle.partitions=2"]

    def version(self, name: str, **words: object) -> str:
        """The application file of a version, with these words of the code replaced."""
        file, text = self.folder / f"{name}.py", SINK + self.code + MAIN
        for word, value in words.items():
            text = text.replace(word, str(value))
        file.write_text(text)
        return str(file)

    def write(self) -> None:
        rows = [(f"k{self.written % 3}", self.written), ("all", 1), (f"new{self.written}", 2)]
        self.put({"k": k, "a": a} for k, a in rows)
        for k, a in rows:
            self.total[k] += a
