"""One bad file of one app (issue 18): whatever is wrong with it, all other apps are listed, no command ends with a
traceback, and what cannot be read is never called running. Every JSON file of an app, every field of each. An app whose
files a newer release wrote is left alone."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.supervision import watch
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.errors import CorruptError, StreamUpdateError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.registry import supervision
from airflow_provider_streamupdate.core.registry.deployment import Launch, QueryStatus
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.registry.supervision import Supervision
from airflow_provider_streamupdate.core.registry.update import RollbackRecord, UpdateRecord
from tests.core.builders import app_with_snapshots, deploy, set_status, status

from .conftest import Run, Site, document

DEEP = b"[" * 100_000
# What a whole file may be instead.
FILES = {
    "empty": b"", "cut": b'{"state": "run', "bytes": b"\xff\xfe\x00\x01", "deep": DEEP, "null": b"null",
    "true": b"true", "number": b"7", "text": b'"running"', "list": b"[]", "nothing in it": b"{}",
}  # fmt: skip
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
    registry.set_launch("v1", Launch(epoch=1, host="h", pid=1, log="/l", launched_at=now))
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


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value inside a document."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from _places(value[key], (*path, key))


def _with(document: Any, path: tuple[Any, ...], value: Any) -> bytes:
    """A document with another value at a place."""
    made = json.loads(json.dumps(document))
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(made).encode()


def _strict(text: str) -> Any:
    """What everybody takes for JSON: Python alone knows NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def _all_is_shown(root: Path, run: Run, name: str) -> None:
    listed = {each["app"]: each for each in _strict(run("list", "--json").stdout)}
    assert "state" in listed["other"], name
    assert "other" in run("list").stdout, name
    for command in (("status", "flights"), ("doctor",), ("log", "flights")):
        run(*command)
    with contextlib.suppress(StreamUpdateError):
        _strict(json.dumps(StreamUpdateClient(str(root)).app_document("flights")))


def test_a_number_that_is_none_is_no_number(app: Path, root: Path, run: Run) -> None:
    """Python reads and writes NaN and Infinity as JSON. The page's server does not: one such rate of one app would take
    the list of all with it."""
    path = app / "deployments" / "v1" / "status.json"
    whole, tried = json.loads(path.read_text()), 0
    for place, value in zip(_places(whole), itertools.cycle((float("nan"), float("inf"), -float("inf"))), strict=False):
        path.write_bytes(_with(whole, place, value))
        _all_is_shown(root, run, f"{place}={value}")
        tried += 1
    path.write_text(json.dumps(whole).replace('"batch": 3', '"batch": 3, "lag": 1e999'))
    _all_is_shown(root, run, "1e999")
    assert tried > 20


@pytest.mark.parametrize(
    "line", [b"7", b"null", b'"x"', b"[]", b'{"epoch": [1]}', b'{"epoch": {}}', b"{", b"NaN", DEEP]
)
def test_an_event_that_is_none_is_told(app: Path, root: Path, run: Run, line: bytes) -> None:
    (app / "deployments" / "v1" / "events.jsonl").write_bytes(b'{"event": "state", "epoch": 1}\n' + line + b"\n")
    _all_is_shown(root, run, repr(line[:20]))
    with pytest.raises(CorruptError, match=r"events\.jsonl"):
        StreamUpdateClient(str(root)).app_document("flights")


@pytest.mark.slow
@pytest.mark.parametrize("dead", [False, True])
def test_one_bad_file_is_that_app_s_alone(app: Path, root: Path, run: Run, dead: bool) -> None:
    """dead: its driver failed, and a supervisor has left its files."""
    if dead:
        registry, now = Registry(str(root)).app("flights"), clock.now()
        set_status(registry, "v1", status("failed", error="x"))
        gave_up = {"limit": 3, "gave_up": "x", "gave_up_at": now}
        known = Supervision(attempts=2, epoch=1, started_at=now, next_start_at=now, **gave_up)
        supervision.write(registry.folder, known)
        supervision.switch(registry.folder, "because")
        watch.take(registry)
    files, tried = [path for path in _files(app) if ("superv" in str(path.relative_to(app))) is dead], 0
    for path in files:
        whole = path.read_bytes()
        for what, data in _spoilt(path):
            path.write_bytes(data)
            name = f"{path.relative_to(app)}: {what}"
            _all_is_shown(root, run, name)
            listed = {each["app"]: each for each in document(run("list", "--json"))}
            assert listed["other"]["state"] in ("running", "silent", "lost"), name
            for command in (("list",), ("status", "flights")):
                assert "\x1b]" not in run(*command, color=True).output, name
            if path.name == "current.json" and (what in FILES or what == "UTF-16" or what.startswith("epoch=")):
                assert listed["flights"].get("state") not in ("running", "starting"), name
            tried += 1
        path.write_bytes(whole)
    assert len(files) >= (3 if dead else 8) and tried > (60 if dead else 400)
    print(f"{tried} bad files of {len(files)}")


def test_a_file_without_an_end_is_that_app_s_alone(app: Path, run: Run) -> None:
    """A pipe that nobody writes to, a device that goes on for ever."""
    for path in _files(app):
        whole = path.read_bytes()
        for make in (os.mkfifo, lambda at: os.symlink("/dev/zero", at)):
            path.unlink()
            make(path)
            listed = {each["app"]: each for each in document(run("list", "--json"))}
            assert listed["other"]["state"] in ("running", "silent", "lost"), path
            if path.name == "current.json":
                assert listed["flights"].get("state") not in ("running", "starting"), path
            run("status", "flights")
        path.unlink()
        path.write_bytes(whole)
    assert "flights" in run("status", "flights").stdout


def still(app: Path) -> dict[Path, bytes]:
    """All that no running driver writes by itself."""
    own = {"checkpoint", "history"}
    files = (p for p in app.rglob("*") if p.is_file() and own.isdisjoint(p.parts) and "status.json" not in p.name)
    return {p: p.read_bytes() for p in files if p.suffix != ".log" and p.name != "events.jsonl"}


def test_what_a_newer_version_has_written_is_told_before_anything_is_stopped(site: Site) -> None:
    """Which files it may be is in tests/core/test_formats.py. The running driver reads current.json, too, and ends: it
    cannot tell any more who may commit."""
    site.submit()
    new, top = site.application("v2", named=True), site.folder / "root" / "alarm"  # its app is known without a plan
    for path in (top / "deployments" / "v1" / "plan.json", top / "current.json"):
        whole = path.read_bytes()
        path.write_bytes(json.dumps({**json.loads(whole), "format": 2, "format_since": "0.9.0"}).encode())
        before = still(top)
        error = site.error("update", new)
        assert error["type"] == "NewerFormatError", error
        assert "use airflow-provider-streamupdate >= 0.9.0" in error["message"] and path.name in error["message"]
        if path.name == "current.json":
            wait_for(lambda: None if site.alive() else True, "the end of v1's driver", 60)
        else:
            assert still(top) == before and site.alive() == ["v1"]
        path.write_bytes(whole)
    assert "NewerFormatError" in str(site.app.status("v1"))
    site.ok("restart", "alarm")
    site.ok("update", new)
