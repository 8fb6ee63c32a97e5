"""python -m tests.golden.root FOLDER VERSION: a root with every format this package has, and the driver that made it.

``root-VERSION.tar.xz`` is a root after a whole life of an app, with the stand-in for Spark; ``driver-VERSION.tar.xz``
is that stand-in with the state library it ran on, so that a later version can be tried with a driver of this one. Made
for each release whose formats differ from the last one's, and never changed afterwards. 0.0 is the last commit before
formats had versions.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

from click.testing import CliRunner

from airflow_provider_streamupdate.cli import main as command_line
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.history.history import sum_up
from airflow_provider_streamupdate.core.registry import scratch
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.snapshots import pending_exports as exports
from tests.standin import REPOSITORY, STANDIN, java_home, spark_submit

from . import FOLDER

PACKAGE = "airflow_provider_streamupdate"
APP = "alarm"
# What the stand-in imports, below the repository.
DRIVER = (
    f"{PACKAGE}/__init__.py",
    f"{PACKAGE}/core",
    f"{PACKAGE}/streaming",
    str(STANDIN),
    "tests/airflow/fake_engine.py",
)
LEFT_OUT = ("runtime.zip", "__pycache__")  # a megabyte of libraries; made again where it is missing


def application(folder: Path, version: str, **constants: object) -> str:
    """An application file for the stand-in."""
    file = folder / f"{version}.py"
    content = {"APP": APP, "VERSION": version, "STATE": True, "RELOADABLE": ["threshold"], **constants}
    file.write_text("".join(f"{name} = {value!r}\n" for name, value in content.items()))
    return str(file)


def live(run: Callable[..., object], folder: Path) -> None:
    """Everything that makes files: submit, snapshots, a rehearsal, updates by four strategies, a change in flight, a
    rollback, gc, a look of a supervisor, a hot standby."""
    five, seven = ("--set", "threshold=5"), ("--set", "threshold=7")
    run("submit", application(folder, "v1"), "--deployment", "v1", *five)
    StreamUpdateClient(os.environ["STREAMUPDATE_ROOT"]).wait_healthy(APP)  # s1 is of a batch that was committed
    run("save-snapshot", APP, "s1")
    run("verify-snapshot", APP, "s1")
    run("save-snapshot", APP, "s2")
    run("update", application(folder, "v2"), "--deployment", "v2", "--rehearse", "2", *five)
    run("update", application(folder, "v3"), "--deployment", "v3", "--strategy", "restart", *five)
    run("rollback", APP)
    run("update", application(folder, "v2"), "--strategy", "in_flight", "--deployment", "c1", *seven)
    run("update", application(folder, "v4"), "--deployment", "v4", "--strategy", "follow", "--diff", "events", *seven)
    run("gc", APP, "--keep-deployments", "0")
    run("supervise", APP, "--once")
    run("supervise", APP, "--on")
    run("supervise", APP, "--off", "the golden root is made")
    run("standby", "on", APP)
    run("cancel", APP)
    drivers = StreamUpdateClient(os.environ["STREAMUPDATE_ROOT"]).drivers(APP)
    wait_for(lambda: drivers.gone("v4-standby-1") or None, "the end of the hot standby", 60.0)


def rest(app: AppRegistry) -> None:
    """What one that was killed leaves, and what an hour brings."""
    with exports.begun(app.folder, "s9", "v4") as export:
        app.folder.write(f"snapshots/_{export.export}/alive.json", clock.now().encode())
    scratch.take(app, "killed")
    sum_up(app.folder, datetime.now(timezone.utc) + timedelta(hours=1))


@contextmanager
def environment(folder: Path) -> Iterator[None]:
    before = dict(os.environ)
    os.environ |= {
        "STREAMUPDATE_ROOT": str(folder / "root"),
        "STREAMUPDATE_VERIFY_FOR": "0",
        "STREAMUPDATE_SPARK_SUBMIT": str(spark_submit(folder / "spark")),
        "JAVA_HOME": str(java_home(folder / "java")),
    }
    (folder / "root").mkdir()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def command(*arguments: str) -> None:
    result = CliRunner().invoke(command_line, list(arguments), catch_exceptions=False)
    print(f"{' '.join(arguments[:2])}: {result.exit_code}", flush=True)
    assert result.exit_code == 0, result.output


def pack(top: Path, names: tuple[str, ...], target: Path) -> None:
    with tarfile.open(target, "w:xz") as archive:
        for name in names:
            paths = [top / name] if (top / name).is_file() else sorted((top / name).rglob("*"))
            for path in paths:
                relative = path.relative_to(top)
                if path.is_file() and not any(part.startswith(".") or part in LEFT_OUT for part in relative.parts):
                    archive.add(path, str(relative))
    print(f"{target}: {target.stat().st_size} bytes", flush=True)


def unpack(name: str, target: Path) -> Path:
    """`root` or `driver` of a version, e.g. ``root-0.1``."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target


def main(target: Path, version: str) -> None:
    with tempfile.TemporaryDirectory(prefix="streamupdate-golden-") as scratch_folder:
        folder = Path(scratch_folder)
        with environment(folder):
            live(command, folder)
            rest(StreamUpdateClient(str(folder / "root")).registry.app(APP))
        pack(folder / "root", (APP,), target / f"root-{version}.tar.xz")
    pack(REPOSITORY, DRIVER, target / f"driver-{version}.tar.xz")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
