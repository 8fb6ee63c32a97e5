"""Snapshots through the command line; the app runs elsewhere, its snapshots are real."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from tests.core.builders import app_with_snapshots, take

from .conftest import Run, document, table


@pytest.fixture
def app(root: Path) -> AppRegistry:
    """Snapshots s1 (after batch 0) and s2 (after batch 1)."""
    return app_with_snapshots(root, ["s1", "s2"])


def test_list_snapshots_begins_with_the_four_columns(run: Run, root: Path, app: AppRegistry) -> None:
    app_with_snapshots(root, ["other"], app="alarm")
    result = run("list-snapshots")
    assert result.exit_code == 0 and result.stderr == ""
    header, *rows = table(result)
    assert " ".join(header).startswith("TIME SIZE APP SNAPSHOT NAME ")
    assert [(row[3], row[4], row[5], row[6], row[7]) for row in rows] == [
        ("flights", "s1", "v1", "live", "0"),
        ("flights", "s2", "v1", "live", "1"),
        ("alarm", "other", "v1", "live", "0"),
    ]
    assert all(row[0].endswith("Z") and row[2] in ("bytes", "kB") for row in rows)
    take(app, "s3", cancelled=True)
    snapshot, found = SnapshotStore(app).get("s3"), document(run("list-snapshots", "flights", "--json"))
    assert [s["name"] for s in found] == ["s1", "s2", "s3"]
    assert (found[-1]["kind"], found[-1]["size"], found[-1]["created_at"]) == (
        "cancelled",
        snapshot.size,
        snapshot.created_at,
    )
    query = found[-1]["queries"]["windows"]
    assert (query["batch"], query["files"]) == (1, len(snapshot.queries["windows"].files))


@pytest.mark.parametrize("command", ["verify-snapshot", "delete-snapshot"])
def test_an_unknown_snapshot_is_1(run: Run, app: AppRegistry, command: str) -> None:
    result = run(command, "flights", "s9")
    assert result.exit_code == 1 and "app flights has no snapshot 's9' (known: s1, s2)" in result.stderr


# verify


def test_verify_counts_the_files(run: Run, app: AppRegistry) -> None:
    files = len(SnapshotStore(app).get("s2").queries["windows"].files)
    result = run("verify-snapshot", "flights", "s2")
    assert result.exit_code == 0 and result.stdout == f"snapshot s2 of flights is intact: {files} files verified\n"
    assert result.stderr == "[   0 s] verifying snapshot s2 of flights\n"
    found = document(run("verify-snapshot", "flights", "s2", "--json"))
    assert found == {"app": "flights", "name": "s2", "files": files, "valid": True}


def test_verify_of_a_damaged_snapshot_is_1_and_names_the_file(run: Run, app: AppRegistry) -> None:
    file = SnapshotStore(app).get("s2").queries["windows"].files[0]
    os.unlink(app.folder.path(file.object))
    result = run("verify-snapshot", "flights", "s2")
    assert result.exit_code == 1 and f"{file.object}) is missing" in result.stderr
    assert document(run("verify-snapshot", "flights", "s2", "--json"))["error"]["type"] == "CorruptError"


def damage(app: AppRegistry, name: str) -> None:
    app.folder.write(f"snapshots/{name}/snapshot.json", b'{"app": "fli')


def test_a_damaged_snapshot_is_listed_beside_the_others_and_told(run: Run, app: AppRegistry) -> None:
    damage(app, "s1")
    result = run("list-snapshots")
    assert result.exit_code == 1
    assert [row[-4:] for row in table(result)[1:]] == [["s2", "v1", "live", "1"], ["s1", "-", "damaged", "-"]]
    assert "Error: snapshot s1 of flights is damaged: " in result.stderr
    assert "snapshots/s1/snapshot.json is not valid JSON" in result.stderr
    as_json = run("list-snapshots", "flights", "--json")
    whole, damaged = document(as_json)
    assert as_json.exit_code == 1
    assert (whole["name"], damaged["name"], damaged["kind"]) == ("s2", "s1", "damaged")
    assert damaged["error"]["type"] == "CorruptError"
    verified = run("verify-snapshot", "flights", "s1")
    assert verified.exit_code == 1 and "snapshot s1 of flights is damaged: " in verified.stderr


# delete


def test_delete_says_what_was_freed(run: Run, app: AppRegistry) -> None:
    result = run("delete-snapshot", "flights", "s1")
    assert result.exit_code == 0 and result.stdout.startswith("deleted snapshot s1 of flights: ")
    assert SnapshotStore(app).names() == ["s2"]
    held = lease.read(app.folder)
    assert held is not None and not lease.held(app.folder, held), "the lease is given back"
    refused = document(run("delete-snapshot", "flights", "s2", "--json"))
    assert refused["error"]["type"] == "InUseError", "it is the last one"


def test_two_that_delete_the_same_snapshot_do_not_work_side_by_side(
    run: Run, app: AppRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete, second = SnapshotStore.delete, list[Any]()

    def meanwhile(self: SnapshotStore, name: str, *args: Any) -> int:
        if not second:
            second.append(None)
            second[0] = document(run("delete-snapshot", "flights", name, "--json"))
        return delete(self, name, *args)

    monkeypatch.setattr(SnapshotStore, "delete", meanwhile)
    assert run("delete-snapshot", "flights", "s1").exit_code == 0
    assert second[0]["error"]["type"] == "LeaseHeldError"
