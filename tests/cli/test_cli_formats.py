"""Formats from one release to the next, with the stand-in for Spark: a whole life leaves only files that the table of
formats knows; roots of earlier releases (tests/golden/root.py) are read, verified and updated; an app whose files a
newer release wrote is left alone."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.formats import EVENT, FILES, File, files_of
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.serde import from_json
from airflow_provider_streamupdate.core.snapshots import pending_exports as exports
from airflow_provider_streamupdate.core.snapshots.snapshots import DELETED
from tests.golden import FOLDER
from tests.golden.root import APP, application, live, rest, unpack

from .conftest import Site, document

OF_A_PIPELINE = {"_streamupdate/pipeline.json"}  # in its storage, not below a root
OF_A_DELETION = {"deletion.json"}  # an app that has it is none any more
ROOTS = sorted(path.name.split(".tar")[0] for path in FOLDER.glob("root-*"))


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


# What there was not before formats had versions.
LATER = {
    "deployments/<deployment>/planned.json",
    "supervision.json",
    "supervision-off.json",
    "supervisor/lease/<number>.json",
    "hot-standby.json",
    "differences/<deployment>.json",
    "deployments/<deployment>/diff/asked.json",
    "deployments/<deployment>/diff/expected.json",
    "deployments/<deployment>/diff/found.json",
    "history/minutes/<hour>-<epoch>-<deployment>.json",
    "history/months/<month>.json",
}


@pytest.fixture(params=ROOTS)
def golden(request: pytest.FixtureRequest, site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A root of an earlier release: the app was cancelled, and an export killed."""
    monkeypatch.setattr(exports, "WATCH_SECONDS", 0.5)
    unpack(request.param, site.folder / "root")
    return site


def test_every_file_of_a_golden_root_is_read(root: Path) -> None:
    assert len(ROOTS) == 2
    for name in ROOTS:
        seen = set()
        for path, kind, found in documents(unpack(name, root.parent / name) / APP):
            assert read(kind, found, path) is not None
            assert found.get("format", 0) == (0 if name == "root-0.0" else 1), path
            seen.add(kind.path)
        later = LATER if name == "root-0.0" else set()
        assert {file.path for file in FILES if file.format} - later - OF_A_PIPELINE - OF_A_DELETION == seen, name


def test_a_golden_root_is_listed_shown_verified_restarted_updated_and_rolled_back(golden: Site) -> None:
    [listed] = document(golden.run("list", "--json"))
    assert (listed["app"], listed["state"], listed["deployment"]) == (APP, "cancelled", "v4")
    shown = document(golden.run("status", APP, "--json"))
    assert shown["current"]["deployment"] == "v4"
    assert document(golden.run("check", application(golden.folder, "v5"), "--json"))["compatible"]
    names = {s["name"] for s in document(golden.run("list-snapshots", APP, "--json"))}
    assert names == {"s1", "s2", "before-v2", "before-v3", "before-v4"}
    for name in names:
        ok(golden, "verify-snapshot", APP, name)
    before = golden.client.status(APP).status
    assert before is not None
    ok(golden, "restart", APP)
    ok(golden, "update", application(golden.folder, "v5"), "--deployment", "v5", "--set", "threshold=7")
    after = golden.client.wait_healthy(APP).status
    assert after is not None and after.queries["events"].batch > before.queries["events"].batch
    ok(golden, "rollback", APP)
    assert golden.client.status(APP).current.deployment == "v4" and golden.alive() == ["v4"]
    ok(golden, "gc", APP, "--keep-deployments", "0")
    assert golden.client.verify_snapshot(APP, "s1") > 0


# The last one is read by the running driver, too, which ends: it cannot tell any more who may commit.
NEWER = ("deployments/v4/spec", "deployments/v4/launch", "deployments/v4/plan", "updates/v4", "lease/*", "rollbacks/1",
         "snapshots/before-v4/snapshot", "current")  # fmt: skip


def still(app: Path) -> dict[Path, bytes]:
    """All that no running driver writes by itself."""
    own = {"checkpoint", "history"}
    files = (p for p in app.rglob("*") if p.is_file() and own.isdisjoint(p.parts) and "status.json" not in p.name)
    return {p: p.read_bytes() for p in files if p.suffix != ".log" and p.name != "events.jsonl"}


def test_what_a_newer_version_has_written_is_told_before_anything_is_stopped(site: Site) -> None:
    unpack(ROOTS[-1], site.folder / "root")
    ok(site, "restart", APP)
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
            args += ("--strategy", "restart", "--snapshot", "before-v4")
        result = site.run(*args)
        assert result.exit_code == 1, name
        error = document(result)["error"]
        assert error["type"] == "NewerFormatError", (name, error)
        assert "use airflow-provider-streamupdate >= 0.9.0" in error["message"] and path.name in error["message"]
        assert name == "current" or still(top) == before, name
        if name == "current":
            wait_for(lambda: None if site.alive() else True, "the end of v4's driver", 60)
        path.write_bytes(whole)
        assert name == "current" or site.alive() == ["v4"], name
    assert "NewerFormatError" in str(app_of(site).status("v4"))
    ok(site, "restart", APP)
    ok(site, "update", new, "--set", "threshold=7", "--deployment", "v5")
