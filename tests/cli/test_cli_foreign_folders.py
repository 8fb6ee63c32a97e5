"""Folders of an app that belong to another user: nothing is stopped for what could not be started then."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.registry import registry
from airflow_provider_streamupdate.core.registry.registry import WRITTEN
from airflow_provider_streamupdate.core.storage import Folder

from .conftest import Site, document


@pytest.fixture
def close(monkeypatch: pytest.MonkeyPatch, root: Path) -> list[str]:
    """The folders of app alarm that this user cannot write to: add to it. (Root can write to all.)"""
    closed: list[str] = []

    def unwritable(folders: Iterable[Path]) -> Path | None:
        return next((each for each in folders if str(each.relative_to(root / "alarm")) in closed), None)

    monkeypatch.setattr(registry, "unwritable", unwritable)
    return closed


@pytest.mark.parametrize("folder", [name or "." for name in WRITTEN])
def test_an_update_that_could_not_start_stops_nothing(running: Site, root: Path, close: list[str], folder: str) -> None:
    (root / "alarm" / folder).mkdir(exist_ok=True)
    close.append(folder)
    for strategy in ("restart", "standby", "in_flight"):
        told = running.update("v2", "--strategy", strategy, code=1).stderr
        named = root / "alarm" if folder == "." else root / "alarm" / folder
        assert f"{named} belongs to " in told and f" {root}/alarm && chmod -R u+rwX" in told
    assert running.app.deployment_ids() == running.alive() == ["v1"]
    assert running.current.epoch == 1


def test_a_rollback_that_could_not_start_the_old_version_stops_nothing(
    running: Site, root: Path, close: list[str]
) -> None:
    running.update("v2", "--strategy", "restart")
    close.append("epochs")
    assert f"{root}/alarm/epochs belongs to " in running.refused("rollback", "alarm")
    assert running.alive() == ["v2"] and running.app.rollbacks() == []


def test_who_cannot_claim_an_epoch_is_told_what_mends_it(
    running: Site, root: Path, close: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    close.append("epochs")
    refuse_claims(monkeypatch)
    for how in ([], ["--drain"]):
        told = running.refused("cancel", "alarm", *how)
        assert f"{root}/alarm/epochs belongs to " in told and "as root, run chown -R " in told
    assert running.alive() == ["v1"]


def test_an_app_that_is_down_because_nothing_could_be_started_needs_somebody(
    running: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder was closed after the checks."""
    refuse_claims(monkeypatch)
    assert "starting v1 again" in running.update("v2", "--strategy", "restart", code=1).stderr
    assert running.alive() == []
    (app,) = document(running.run("list", "--json"))
    assert [need["kind"] for need in app["needs"]] == ["update-interrupted"]
    assert "streamupdate rollback alarm" in running.run("status", "alarm").stdout


def refuse_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Folder.create

    def refuse(folder: Folder, relative: str, data: bytes, nonce: str | None = None) -> bool:
        if relative.startswith("epochs/"):
            raise StorageError("cannot create it")
        return create(folder, relative, data, nonce)

    monkeypatch.setattr(Folder, "create", refuse)


def test_what_another_user_closed_is_named_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder.open(str(tmp_path))

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(folder.backend), "write", refuse)
    with pytest.raises(StorageError, match=f"; {tmp_path} belongs to .* runs as .*; streamupdate doctor names"):
        folder.write("commands/1/drain.json", b"")
