"""One bad file of one app (issue 18): whatever is wrong with it, all other apps are listed, no command ends with a
traceback, and what cannot be read is never called running. Every JSON file of an app, every field of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry.deployment import Launch, QueryStatus
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.registry.rollback import RollbackRecord
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from tests.core.builders import app_with_snapshots, deploy, set_status, status

from .conftest import Run, document

DEEP = b"[" * 100_000
# What a whole file may be instead.
FILES = {
    "empty": b"",
    "cut": b'{"state": "run',
    "bytes": b"\xff\xfe\x00\x01",
    "deep": DEEP,
    "null": b"null",
    "true": b"true",
    "number": b"7",
    "text": b'"running"',
    "list": b"[]",
    "nothing in it": b"{}",
}
# What a field may hold instead.
VALUES: tuple[Any, ...] = (None, True, -1, 10**30, "", "\x1b]0;../../x\x07", [], {"a": 1})


@pytest.fixture
def app(root: Path) -> Path:
    """`flights` has a file of each kind; `other` is whole."""
    registry = app_with_snapshots(root)
    now = clock.now()
    deploy(Registry(str(root)).app("other"), "v1")
    set_status(Registry(str(root)).app("other"), "v1", status())
    query = QueryStatus(
        batch=3, last_commit_at=now, first_commit_at=now, source_lag={"a": 1.0}, state_rows={"daily": 2}
    )
    set_status(registry, "v1", status(queries={"windows": query}))
    registry.set_launch("v1", Launch(epoch=1, host="h", pid=1, pid_started=None, log="/l", launched_at=now))
    registry.set_update(UpdateRecord(app="flights", old="v0", new="v1", started_at=now, strategy="standby"))
    registry.set_rollback(RollbackRecord(number=1, app="flights", left="v2", back_to="v1", started_at=now))
    lease.acquire(registry.folder, "v1", ProcessIdentity.own())
    return Path(registry.folder.base)


def _files(app: Path) -> list[Path]:
    return sorted(p for p in app.rglob("*.json") if "checkpoint/" not in str(p))


def _spoilt(path: Path) -> Iterator[tuple[str, bytes]]:
    """What may be there instead of a file, with a word for it."""
    text = path.read_text()
    yield from FILES.items()
    yield "UTF-16", text.encode("utf-16")
    described = json.loads(text)
    for field in described:
        for value in VALUES:
            if value != described[field]:
                yield f"{field}={value!r}", json.dumps({**described, field: value}).encode()


def test_one_bad_file_is_that_app_s_alone(app: Path, run: Run) -> None:
    tried = 0
    for path in _files(app):
        whole = path.read_bytes()
        for what, data in _spoilt(path):
            path.write_bytes(data)
            name = f"{path.relative_to(app)}: {what}"
            listed = {each["app"]: each for each in document(run("list", "--json"))}
            assert listed["other"]["state"] in ("running", "silent", "lost"), name
            shown = run("list", color=True)
            assert "other" in shown.stdout and "\x1b]" not in shown.output, name
            one = run("status", "flights", color=True)
            assert "\x1b]" not in one.output, name
            if path.name == "current.json" and (what in FILES or what == "UTF-16" or what.startswith("epoch=")):
                assert listed["flights"].get("state") not in ("running", "starting"), name
            tried += 1
        path.write_bytes(whole)
    assert tried > 400 and len(_files(app)) >= 8
    print(f"{tried} bad files of {len(_files(app))}")
