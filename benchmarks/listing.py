"""How long it takes to list many apps: `streamupdate list`, and the list and one app of the page's API in Airflow.

    .venv/bin/python benchmarks/listing.py --apps 5000 --snapshots 10000 --updates 5000 --events 300

Makes a root of small files in a temporary folder (each app: a running deployment and the one before it, an update with
its report, its share of the snapshots), as the library writes them, and removes it afterwards. `--keep DIR` leaves it
there, for looking at it with a real Airflow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))
RUNS = 5
APP = "app-0000"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", type=int, default=1000)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=0, help=f"more update records of {APP}, each with a deployment")
    parser.add_argument("--events", type=int, default=0, help=f"megabytes of events of {APP}'s driver")
    parser.add_argument("--keep", metavar="DIR", help="make the root here and leave it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="streamupdate-listing-") as scratch:
        root = Path(args.keep or f"{scratch}/root")
        began = time.monotonic()
        files = make_root(root, args.apps, args.snapshots)
        make_history(root, args.updates, args.events)
        print(f"{root}: {args.apps} apps, {args.snapshots} snapshots, {files} files", end=" ")
        print(f"({time.monotonic() - began:.1f} s to make)\n")
        rows = [(name, [timed(work) for _ in range(RUNS)]) for name, work in measured(root, Path(scratch))]
    print(f"{'what':44} {'median':>9} {'best':>9} {'worst':>9}   ({RUNS} runs)")
    for name, times in rows:
        print(f"{name:44} {statistics.median(times):8.3f}s {min(times):8.3f}s {max(times):8.3f}s")


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measured(root: Path, scratch: Path) -> list[tuple[str, Callable[[], object]]]:
    """What is measured, by name."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONPYCACHEPREFIX": str(scratch / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled

    def command(*args: str) -> Callable[[], object]:
        code = "from airflow_provider_streamupdate.cli import main; main()"
        argv = [sys.executable, "-c", code, *args, "--root", str(root)]
        return lambda: subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)

    get = api(root, scratch)
    command("list")()  # compiles
    return [
        ("streamupdate --help (start of the command)", command("list", "--help")),
        ("streamupdate list", command("list")),
        ("streamupdate list --json", command("list", "--json")),
        ("GET api/apps", lambda: get("api/apps")),
        ("GET metrics", lambda: get("metrics")),
        (f"GET api/apps/.../{APP}", lambda: get(f"api/apps/streamupdate_default/{APP}")),
    ]


def api(root: Path, scratch: Path) -> Callable[[str], object]:
    """Requests to the page's API, the real application with an Airflow of its own, by an administrator."""
    home = scratch / "airflow"
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "bench:admin",
        "AIRFLOW_CONN_STREAMUPDATE_DEFAULT": json.dumps({"conn_type": "streamupdate", "extra": {"root": str(root)}}),
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
    from airflow.api_fastapi.app import init_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    from airflow_provider_streamupdate.plugins.api import create_app

    token = init_auth_manager().generate_jwt(SimpleAuthManagerUser(username="bench", role="admin"))
    client = TestClient(create_app(), headers={"Authorization": f"Bearer {token}"})

    def get(path: str) -> object:
        answer = client.get(f"/{path}")
        answer.raise_for_status()
        return answer.content

    return get


def make_root(root: Path, apps: int, snapshots: int) -> int:
    """Make one app through the library, copy its files under the other names; the number of files."""
    os.fsync = lambda _: None  # type: ignore[assignment]  # nobody pulls the plug here
    template = root / APP
    each = max(1, snapshots // apps)
    if root.exists():
        shutil.rmtree(root)
    make_app(root, each)
    contents = {path.relative_to(template): path.read_bytes() for path in template.rglob("*") if path.is_file()}
    for number in range(1, apps):
        name = f"app-{number:04}"
        for folder in {(root / name / path).parent for path in contents}:
            folder.mkdir(parents=True, exist_ok=True)
        for path, data in contents.items():
            (root / name / path).write_bytes(renamed(path, data, name))
    return apps * len(contents)


def make_history(root: Path, updates: int, megabytes: int) -> None:
    """Give the first app a long past."""
    folder = root / APP
    spec, record = ((folder / path).read_text() for path in ("deployments/v2/spec.json", "updates/v2.json"))
    for number in range(updates):
        name = f"w{number:05}"
        for path, text in ((f"deployments/{name}/spec.json", spec), (f"updates/{name}.json", record)):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text.replace('"v2"', f'"{name}"'))
    for path in ("deployments/v2/spec.json", "updates/v2.json"):  # it was written last
        os.utime(folder / path)
    line = b'{"event": "command", "epoch": 2, "at": "2025-01-01T00:00:00+00:00", "name": "snapshot", "format": 1}\n'
    with open(folder / "deployments/v2/events.jsonl", "ab") as file:
        for _ in range(megabytes):
            file.write(line * (1_000_000 // len(line)))


def renamed(path: Path, data: bytes, app: str) -> bytes:
    """A file of another app; a snapshot's manifest with the checksum that fits it."""
    data = data.replace(APP.encode(), app.encode())
    if path.name != "snapshot.json":
        return data
    stated = json.loads(data)["checksum"].encode()
    empty = data.replace(stated, b"")
    return data.replace(stated, hashlib.sha256(empty).hexdigest().encode())


def make_app(root: Path, snapshots: int) -> None:
    from airflow_provider_streamupdate.core import clock
    from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
    from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem, Verdict
    from airflow_provider_streamupdate.core.registry.deployment import Current
    from airflow_provider_streamupdate.core.registry.registry import Registry
    from airflow_provider_streamupdate.core.registry.update import PROMOTED, Step, UpdateRecord
    from airflow_provider_streamupdate.core.serde import to_json
    from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
    from tests.core.builders import CheckpointFiles, deploy, set_status, status, take

    before = (datetime.now(timezone.utc) - timedelta(days=2)).isoformat()

    app = Registry(str(root)).app(APP)
    deploy(app)
    files = CheckpointFiles(app.checkpoint("v1", "windows"))
    for number in range(snapshots):
        files.batch(number)
        files.rocksdb(0, 0, number + 1, ["000001.sst"])
        take(app, f"periodic-{number:03}")
    SnapshotStore(app).note_verified(f"periodic-{snapshots - 1:03}", 4)
    deploy(app, "v2", epoch=2, parent="v1", from_snapshot=f"periodic-{snapshots - 1:03}")
    set_status(app, "v2", status(epoch=2, started_at=before))  # long enough for a snapshot to be looked for
    app.claim(Current(deployment="v2", epoch=2, promoted=True))
    app.set_update(
        UpdateRecord(
            app=APP,
            old="v1",
            new="v2",
            started_at=clock.now(),
            step=Step.PROMOTE,
            step_times={Step.PLAN: clock.now(), Step.PROMOTE: clock.now()},
            outcome=PROMOTED,
            pause_seconds=1.25,
        )
    )
    items = (ReportItem(thing="stage", name="windows/daily", verdict=Verdict.CARRIED, reason="same aggregate"),)
    app.folder.write(
        "updates/v2.report.json", to_json(CompatibilityReport(app=APP, source="deployment v1", items=items))
    )


if __name__ == "__main__":
    main()
