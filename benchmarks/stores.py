"""An update whose checkpoint is in a bucket, beside the same one on a local disk: three stages of --keys keys in
--partitions partitions each, and an S3 server (versitygw) that is reached through a network that adds --delay to each
request.

    disk     the root on a local disk, where files are linked
    bucket   the root in the bucket: Spark's state by s3a, this package's files by s3fs

Every row is an update by one strategy. The pause is beside an ordinary batch there, which is what it can be at best.
Each snapshot, check and update is told with its seconds and this package's requests; those of the running driver, which
go on meanwhile, are among them (`a second`). Local files are made without permissions where there is a Java compiler
(tests/spark/local_files.py): else 600 stores start thousands of `chmod` a batch.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import click
import requests
from feed import Feed

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.storage import Folder

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.ground.daemon import daemon, free_port  # noqa: E402
from tests.ground.slow import SlowNetwork, slow_network  # noqa: E402

APP, QUERY = "seen", "q"
APP_FILE = Path(__file__).parent / "apps" / "seen.py"
DISK, BUCKET = "disk", "bucket"
STRATEGIES = ("restart", "standby", "follow")
STAGES = 3
PATIENCE = 3600.0
FILE_SECONDS = 5.0  # from one small file to the next: a batch of hundreds of stores takes 15 s and reads four
BATCHES_BETWEEN = 4  # ordinary ones between two updates
KEY, SECRET = "someone", "something"


@attrs.frozen(kw_only=True)
class Place:
    """Where a root is, and how it is reached. own: the network that this package's requests go through"""

    root: str
    options: dict[str, Any] = attrs.field(factory=dict)
    conf: dict[str, str] = attrs.field(factory=dict)
    env_vars: dict[str, str] = attrs.field(factory=dict)
    own: SlowNetwork | None = None

    @property
    def asked(self) -> int:
        return sum(self.own.asked.values()) if self.own else 0


class Seen:
    """The app, under a root at a place."""

    def __init__(
        self,
        place: Place,
        feed: Feed,
        partitions: int,
        trigger: float,
        threads: int,
        spark_submit: str,
        note: Callable[..., None],
    ) -> None:
        self.place, self.feed, self.partitions, self.trigger = place, feed, partitions, trigger
        launcher = SparkSubmit(spark_submit, master=f"local[{threads}]", env_vars=place.env_vars)
        self.client = StreamUpdateClient(place.root, launcher, place.options)
        self.number, self.note = 0, note
        self.client.submit(self.application(), "v0", app=APP, timeout=PATIENCE)

    def application(self) -> Application:
        params = {"input": self.feed.folder.as_uri(), "partitions": str(self.partitions), "number": str(self.number)}
        params["trigger"] = f"{round(self.trigger * 1000)} milliseconds"
        return Application(file=str(APP_FILE), params=params, conf=self.place.conf)

    def settle(self) -> None:
        """Until every stage has seen every key, and ordinary batches run."""

        def all_seen() -> bool | None:
            return sum(self.query().state_rows.values()) >= STAGES * self.feed.keys or None

        wait_for(all_seen, "every key in every stage", PATIENCE, 1.0)
        self.ordinary_batches()

    def query(self) -> QueryStatus:
        status = self.client.registry.app(APP).status(f"v{self.number}")
        assert status is not None  # it was submitted
        return status.queries[QUERY]

    def ordinary_batches(self) -> None:
        last = self.query().batch + BATCHES_BETWEEN
        wait_for(lambda: self.query().batch >= last or None, "ordinary batches", PATIENCE, 0.5)

    def interval(self) -> float:
        """Seconds of a batch, the median of the last ones."""
        return statistics.median(f.seconds for f in self.query().figures[-BATCHES_BETWEEN:])

    def measured(self, what: str, work: Callable[[], Any], **more: Any) -> Any:
        began, asked = time.monotonic(), self.place.asked
        found = work()
        self.note(what=what, seconds=round(time.monotonic() - began, 3), requests=self.place.asked - asked, **more)
        return found

    def snapshot_and_check(self) -> None:
        self.measured("idle", lambda: time.sleep(10))  # what the running driver asks by itself
        self.measured("snapshot", lambda: self.client.save_snapshot(APP, f"s{self.number}", timeout=PATIENCE))
        self.measured("check", lambda: self.client.check(self.application(), APP))

    def update(self, strategy: str) -> None:
        interval = self.interval()
        began, asked = time.monotonic(), self.place.asked
        old, self.number = self.number, self.number + 1
        options = UpdateOptions(
            application=self.application(), deployment=f"v{self.number}", strategy=strategy, submit_timeout=PATIENCE,
            catch_up_timeout=PATIENCE if strategy == "follow" else None, drain_timeout=PATIENCE,
        )  # fmt: skip
        self.client.update(options)
        record = self.client.registry.app(APP).update(f"v{self.number}")
        assert record is not None and record.pause_seconds is not None, record
        whole, requests = round(time.monotonic() - began, 3), self.place.asked - asked
        self.note(
            what=strategy, seconds=round(record.pause_seconds, 3), interval=round(interval, 3), whole=whole,
            requests=requests, restore=self.restore(), of=f"v{old}",
        )  # fmt: skip
        self.ordinary_batches()

    def restore(self) -> float | None:
        """Seconds from the begin of the restore to its end; None where the new version was there already."""
        text = self.client.registry.app(APP).deployment_folder(f"v{self.number}").read("events.jsonl") or b""
        events = [json.loads(line) for line in text.splitlines()]
        begun = [e["at"] for e in events if e["event"] == "state" and e.get("state") == "restoring"]
        ended = [e["at"] for e in events if e["event"] == "restored"]
        if not begun or not ended:
            return None
        return round(clock.parse(ended[-1]).timestamp() - clock.parse(begun[-1]).timestamp(), 3)

    def end(self) -> None:
        for spec in self.client.registry.app(APP).deployments():
            self.client.drivers(APP).kill(spec.deployment)


@contextmanager
def bucket(folder: Path, delay: float, parts: Path) -> Iterator[Place]:
    """A bucket on a server of this machine, behind a network for Spark and one for this package, which counts."""
    store, port = folder / "store", free_port()
    (store / "bucket").mkdir(parents=True)
    command = [str(parts / "bin" / "versitygw"), "--access", KEY, "--secret", SECRET, "--port", f"127.0.0.1:{port}"]
    command += ["--quiet", "posix", "--sidecar", str(folder / "sidecar"), str(store)]
    (folder / "sidecar").mkdir()
    with ExitStack() as stack:
        stack.enter_context(daemon(command, folder / "versitygw.log", ""))
        wait_for(lambda: _listens(port), "the S3 server", 60.0)
        own, sparks = stack.enter_context(slow_network(port)), stack.enter_context(delayed(folder, port, delay, parts))
        own.delay = (delay, delay)
        options = {"key": KEY, "secret": SECRET, "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{own.port}"}}
        yield Place(
            root="s3://bucket/root",
            options=options,
            conf=s3a(parts, f"http://127.0.0.1:{sparks}"),
            env_vars={"PYTHONPATH": str(parts / "python")},
            own=own,
        )


@contextmanager
def delayed(folder: Path, server: int, delay: float, parts: Path) -> Iterator[int]:
    """The port that passes on what it gets, so late. Spark has some connections for each of its stores: for them a
    proxy in Python needed more of a CPU than the S3 server, and let the rest of this process wait (measured)."""
    port, ruled = free_port(), free_port()
    known = [{"name": "s3", "listen": f"127.0.0.1:{port}", "upstream": f"127.0.0.1:{server}", "enabled": True}]
    (folder / "proxies.json").write_text(json.dumps(known))
    command = [str(parts / "bin" / "toxiproxy"), "-host", "127.0.0.1", "-port", str(ruled)]
    command += ["-config", str(folder / "proxies.json")]
    with daemon(command, folder / "toxiproxy.log", "", {**os.environ, "LOG_LEVEL": "warn"}):
        wait_for(lambda: _listens(ruled) and _listens(port), "the proxy", 60.0)
        slow: dict[str, Any] = {"type": "latency", "stream": "upstream", "attributes": {"latency": round(delay * 1000)}}
        address = f"http://127.0.0.1:{ruled}/proxies/s3/toxics"
        requests.post(address, json=slow, timeout=10).raise_for_status()
        yield port


def s3a(parts: Path, address: str) -> dict[str, str]:
    options = {
        "path.style.access": "true",
        "access.key": KEY,
        "secret.key": SECRET,
        "endpoint": address,
        "endpoint.region": "us-east-1",
        "optimized.copy.from.local.enabled": "false",
        # The other kind (analytics) starts 96 threads for each client that reads, and each store has a client.
        "input.stream.type": "classic",
    }
    manager = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    return {
        "spark.jars": ",".join(map(str, sorted(parts.glob("*.jar")))),
        "spark.sql.streaming.checkpointFileManagerClass": manager,
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in options.items()},
    }


def without_permissions(spark_submit: str) -> dict[str, str]:
    """Settings for local files that need no `chmod`, asked of the environment that has Spark."""
    code = "import json; from tests.spark.local_files import local_files; print(json.dumps(local_files()))"
    python = [str(Path(spark_submit).with_name("python")), "-c", code]
    found = subprocess.run(python, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(found))


def _listens(port: int) -> bool | None:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0 or None


@click.command(help=__doc__)
@click.option("--keys", default=1_000_000, show_default=True, help="Of each stage.")
@click.option("--partitions", default=200, show_default=True, help="Of each stage.")
@click.option(
    "--trigger",
    default=0.5,
    show_default=True,
    help="Seconds from batch to batch. Two versions need two batches' work in that time, or `follow` never catches up.",
)
@click.option("--threads", default=16, show_default=True, help="Tasks at once; those of a bucket mostly wait.")
@click.option("--delay", default=0.02, show_default=True, help="Seconds added to each request.")
@click.option("--places", default=f"{DISK},{BUCKET}", show_default=True)
@click.option("--only", default=",".join(STRATEGIES), show_default=True, help="Strategies, by commas.")
@click.option("--repeats", default=3, show_default=True, help="Updates by each strategy; 0: only report.")
@click.option("--spark-submit", default=str(ROOT / ".venv-spark" / "bin" / "spark-submit"), show_default=True)
@click.option("--results", type=click.Path(path_type=Path), default=Path("stores.jsonl"), show_default=True)
def main(
    keys: int,
    partitions: int,
    trigger: float,
    threads: int,
    delay: float,
    places: str,
    only: str,
    repeats: int,
    spark_submit: str,
    results: Path,
) -> None:
    parts = Path(os.environ.get("STREAMUPDATE_GROUND", ROOT / ".ground")).resolve() / "s3"
    strategies = only.split(",")
    if unknown := set(strategies) - set(STRATEGIES):
        raise click.BadParameter(f"there is no strategy {', '.join(sorted(unknown))}: {', '.join(STRATEGIES)}")
    for where in places.split(",") if repeats else ():

        def note(where: str = where, **more: Any) -> None:
            record = {"at": clock.now(), "place": where, "keys": keys, "partitions": partitions}
            record |= {"threads": threads, "trigger": trigger, **more}
            record |= {"delay": delay if where == BUCKET else 0.0, "load": round(os.getloadavg()[0], 2)}
            with open(results, "a") as file:
                file.write(json.dumps(record) + "\n")
            print(f"{where}, {record['what']}: {record['seconds']:.2f} s", file=sys.stderr)

        with tempfile.TemporaryDirectory(prefix="streamupdate-stores-", ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch)
            with ExitStack() as stack:
                feed = stack.enter_context(Feed(folder / "in", keys, every=max(FILE_SECONDS, trigger / 4)))
                place = Place(root=str(folder / "root"))
                local = without_permissions(spark_submit)
                if where == BUCKET:
                    place = stack.enter_context(bucket(folder, delay, parts))
                    Folder.open("s3://bucket", place.options)  # s3fs is there
                place = attrs.evolve(place, conf={**local, **place.conf})
                app = Seen(place, feed, partitions, trigger, threads, spark_submit, note)
                try:
                    app.settle()
                    for _ in range(repeats):
                        app.snapshot_and_check()
                        for strategy in strategies:
                            app.update(strategy)
                finally:
                    app.end()
    if not results.exists():
        raise click.ClickException(f"{results} does not exist; measure first")
    report([json.loads(line) for line in results.read_text().splitlines()])


def report(records: list[dict[str, Any]]) -> None:
    """Medians, with ranges."""
    found = {key: [r for r in records if (r["place"], r["what"]) == key] for key in
             dict.fromkeys((r["place"], r["what"]) for r in records)}  # fmt: skip
    columns = ("place", "strategy", "pause, s", "ordinary batch, s", "pause / batch", "restore, s", "whole, s")
    print(f"| {' | '.join(columns)} | requests |")
    print("|---|---|---|---|---|---|---|---|")
    for (place, what), rows in found.items():
        if what in STRATEGIES:
            share = statistics.median(r["seconds"] / r["interval"] for r in rows)
            cells = [_shown(rows, name) for name in ("seconds", "interval")]
            print(f"| {place} | {what} | {' | '.join(cells)} | {share:.2f} | {_shown(rows, 'restore')} | "
                  f"{_shown(rows, 'whole')} | {_shown(rows, 'requests')} |")  # fmt: skip
    print("\n| place | what | seconds | requests |\n|---|---|---|---|")
    for (place, what), rows in found.items():
        if what not in STRATEGIES:
            print(f"| {place} | {what} | {_shown(rows, 'seconds')} | {_shown(rows, 'requests')} |")


def _shown(rows: list[dict[str, Any]], name: str) -> str:
    values = [r[name] for r in rows if r.get(name) is not None]
    if not values:
        return ""
    return f"{statistics.median(values):g} ({min(values):g}-{max(values):g}; {len(values)})"


if __name__ == "__main__":
    main()
