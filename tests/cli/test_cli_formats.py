"""Formats, with the stand-in for Spark: a whole life leaves only files that the table of formats knows; an app whose
files a newer release wrote is left alone."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.formats import EVENT, FILES, File, files_of
from airflow_provider_streamupdate.core.history.history import sum_up
from airflow_provider_streamupdate.core.registry import scratch
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.serde import from_json
from airflow_provider_streamupdate.core.snapshots import pending_exports as exports
from airflow_provider_streamupdate.core.snapshots.snapshots import DELETED

from .conftest import Site, document

OF_A_PIPELINE = {"_streamupdate/pipeline.json"}  # in its storage, not below a root
OF_A_DELETION = {"deletion.json"}  # an app that has it is none any more
APP = "alarm"


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
    run("supervise", APP, "--off", "nobody watches it")
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


def kind_of(path: str) -> File:
    found = files_of(path)
    assert len(found) == 1, f"{path} is of {len(found)} kinds: {[file.path for file in found]}"
    return found[0]


def documents(app: Path) -> Iterator[tuple[str, File, dict[str, Any]]]:
    """Every file with a format of ours, and what it holds, by its kind."""
    for path in sorted(p for p in app.rglob("*") if p.is_file()):
        name = str(path.relative_to(app))
        kind = kind_of(name)
        if kind.format is not None and path.read_bytes() != DELETED:
            for line in path.read_bytes().splitlines() if kind.format is EVENT else [path.read_bytes()]:
                yield name, kind, json.loads(line)


def read(kind: File, found: dict[str, Any], where: str) -> object:
    """A file as the package reads it."""
    assert kind.format is not None
    if kind.format is EVENT:
        return EVENT.understood(found, where)
    module, _, name = kind.format.holds.rpartition(".")
    holds = getattr(importlib.import_module(f"airflow_provider_streamupdate.{module}"), name)
    return from_json(json.dumps(found).encode(), holds, where)


def ok(site: Site, *args: str) -> str:
    result = site.run(*args)
    assert result.exit_code == 0, (args, result.output)
    return result.stdout


def app_of(site: Site) -> AppRegistry:
    return site.client.registry.app(APP)


@pytest.mark.slow
def test_a_life_leaves_only_files_of_known_kinds_in_today_s_formats(site: Site) -> None:
    live(lambda *args: ok(site, *args), site.folder)
    rest(app_of(site))
    seen = set()
    for path, kind, found in documents(site.folder / "root" / APP):
        assert kind.format is not None
        assert (found["format"], found["format_since"]) == (kind.format.version, kind.format.since), path
        read(kind, found, path)
        seen.add(kind.path)
    assert {file.path for file in FILES if file.format} - OF_A_PIPELINE - OF_A_DELETION == seen


# The last one is read by the running driver, too, which ends: it cannot tell any more who may commit.
NEWER = ("deployments/v1/spec", "deployments/v1/launch", "deployments/v1/plan", "updates/v2", "lease/*", "rollbacks/1",
         "snapshots/before-v2/snapshot", "current")  # fmt: skip


def still(app: Path) -> dict[Path, bytes]:
    """All that no running driver writes by itself."""
    own = {"checkpoint", "history"}
    files = (p for p in app.rglob("*") if p.is_file() and own.isdisjoint(p.parts) and "status.json" not in p.name)
    return {p: p.read_bytes() for p in files if p.suffix != ".log" and p.name != "events.jsonl"}


def test_what_a_newer_version_has_written_is_told_before_anything_is_stopped(site: Site) -> None:
    five = ("--set", "threshold=5")
    ok(site, "submit", application(site.folder, "v1"), "--deployment", "v1", *five)
    ok(site, "update", application(site.folder, "v2"), "--deployment", "v2", "--strategy", "restart", *five)
    ok(site, "rollback", APP)
    new = application(site.folder, "v5")
    with open(new, "a") as file:
        file.write(f"def app():\n    return StreamingApp({APP!r})\n")  # so that its app is known before it is planned
    top = site.folder / "root" / APP
    for name in NEWER:
        [path] = top.glob(f"{name}.json")
        whole = path.read_bytes()
        path.write_bytes(json.dumps({**json.loads(whole), "format": 2, "format_since": "0.9.0"}).encode())
        before = still(top)
        args = ("update", new, "--set", "threshold=7", "--deployment", "v5", "--json")
        if name.startswith("snapshots"):
            args += ("--strategy", "restart", "--snapshot", "before-v2")
        result = site.run(*args)
        assert result.exit_code == 1, name
        error = document(result)["error"]
        assert error["type"] == "NewerFormatError", (name, error)
        assert "use airflow-provider-streamupdate >= 0.9.0" in error["message"] and path.name in error["message"]
        assert name == "current" or still(top) == before, name
        if name == "current":
            wait_for(lambda: None if site.alive() else True, "the end of v1's driver", 60)
        path.write_bytes(whole)
        assert name == "current" or site.alive() == ["v1"], name
    assert "NewerFormatError" in str(app_of(site).status("v1"))
    ok(site, "restart", APP)
    ok(site, "update", new, "--set", "threshold=7", "--deployment", "v5")
