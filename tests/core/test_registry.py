"""What the registry keeps of apps, deployments, updates and epochs, beside copies, damage and lost answers; which
checkpoints must stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.update.record import new_deployment
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.errors import (
    AlreadyExistsError,
    FencedError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from airflow_provider_streamupdate.core.registry import hot_standby
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.registry.update import PROMOTED, UpdateRecord
from airflow_provider_streamupdate.core.snapshots.superseded import needed, version_before
from airflow_provider_streamupdate.core.storage import Folder

from .builders import deploy, spec


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    made = Registry(str(tmp_path / "root"))
    deploy(made.app("flights"))
    return made


def test_names_of_apps_and_ids_of_deployments(registry: Registry, tmp_path: Path) -> None:
    registry.app("later").folder.write("lease/1.json", b"{}")
    assert registry.apps() == ["flights"]
    for made, name, told in (
        (registry, "later", r"no app 'later' under .* \(known: flights\); correct the name$"),
        (registry, "fligths", r"\(known: flights\); did you mean 'flights'\?"),
        (Registry(str(tmp_path / "other")), "flights", r"\(known: none\); correct the root, or submit the app first"),
    ):
        with pytest.raises(NotFoundError, match=told):
            made.existing(name)
    # a deployment id is used once
    before = registry.app("flights").spec("v1")
    with pytest.raises(AlreadyExistsError, match="already has a deployment 'v1'; ids are never reused"):
        registry.app("flights").create_deployment(spec("v1", digest="other"))
    assert registry.app("flights").spec("v1") == before


@pytest.mark.parametrize("name", ["a/b", "..", "", "x" * 201])
def test_bad_names_never_reach_the_file_system(registry: Registry, name: str) -> None:
    for use in (registry.existing, registry.app("flights").spec):
        with pytest.raises(InvalidInputError):
            use(name)


def test_updates_are_listed_oldest_first(registry: Registry) -> None:
    app = registry.app("flights")
    for new, year in (("v3", 2003), ("v2", 2002)):
        app.set_update(UpdateRecord(app="flights", old="v1", new=new, started_at=f"{year}-01-01T00:00:00+00:00"))
    assert [u.new for u in app.updates()] == ["v2", "v3"]


@pytest.mark.parametrize("new", ["daily.report-2", "v2.reported", "v2.report", "v2.rehearsal"])
def test_an_id_of_earlier_releases_that_looks_like_a_reports_file(registry: Registry, new: str) -> None:
    """Such an update is listed, unless its file is named as a report's; a new one is refused where it would be."""
    app = registry.app("flights")
    app.set_update(UpdateRecord(app="flights", old="v1", new=new, started_at=clock.now()))
    assert app.update_ids() == ([] if new == "v2.report" else [new])
    if new in ("v2.report", "v2.rehearsal"):
        for refuse in (lambda: app.create_deployment(spec(new)), lambda: new_deployment(app, "d", "x" + new)):
            with pytest.raises(InvalidInputError, match="ends as the files of reports do"):
                refuse()
    else:
        app.create_deployment(spec(new))


def test_copies_made_by_hand_are_nobodys(registry: Registry, tmp_path: Path) -> None:
    app, folder = registry.app("flights"), tmp_path / "root" / "flights"
    app.set_update(UpdateRecord(app="flights", old="v0", new="v1", started_at=clock.now()))
    for copy in ("v1 (copy).json", "v1-copy.json", "v1.bak.json", "v1.json~", "v1.json.bak"):
        shutil.copy(folder / "updates" / "v1.json", folder / "updates" / copy)
    for copy in ("v1 (copy)", "v1-copy"):
        shutil.copytree(folder / "deployments" / "v1", folder / "deployments" / copy)
    last = app.last_update()
    assert [u.new for u in app.updates()] == ["v1"] == app.deployment_ids() and last is not None and last.new == "v1"
    with pytest.raises(NotFoundError):
        app.spec("v1-copy")


def test_records_that_are_gone_when_they_are_looked_at_are_no_fault(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update removes its record when it changed nothing. A link to nothing looks the same."""
    app, modified = registry.app("flights"), Folder.modified
    for new in ("v2", "v3"):
        app.set_update(UpdateRecord(app="flights", old="v1", new=new, started_at=clock.now()))
    (tmp_path / "root" / "flights" / "updates" / "v4.json").symlink_to("/nowhere/x.json")

    def removed_first(folder: Folder, path: str) -> float:
        app.remove_update("v3")
        return modified(folder, path)

    monkeypatch.setattr(Folder, "modified", removed_first)
    assert app.last_update().new == "v2"
    app.check_readable()
    app.remove_update("v2")
    assert app.last_update() is None


def test_a_claim_counts_although_current_json_cannot_be_replaced(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, later = registry.app("flights"), Current(deployment="v2", epoch=2)

    def fails(*_: object) -> None:
        raise StorageError("cannot write current.json")

    with monkeypatch.context() as broken:
        broken.setattr(Folder, "write", fails)
        assert app.claim(later)
    assert app.current() == later
    assert not app.claim(Current(deployment="v3", epoch=2))


def test_a_claim_that_fails_says_whether_it_was_made(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    app, later = registry.app("flights"), Current(deployment="v2", epoch=2)
    create, read = Folder.create, Folder.read

    def fails(*_: object, **more: object) -> None:
        raise StorageError("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(Folder, "create", fails)
        with pytest.raises(StorageError, match="no answer"):
            app.claim(later)
    assert app.current_id() == "v1"

    def late(folder: Folder, path: str, data: bytes, nonce: str) -> bool:
        create(folder, path, data, nonce)
        raise StorageError("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(Folder, "create", late)
        broken.setattr(Folder, "read", fails)
        with pytest.raises(FencedError, match="may commit in epoch 2 of flights is unknown"):
            app.claim(later)
        broken.setattr(Folder, "read", read)
        assert app.claim(later)  # it was made by the call that failed
        assert not app.claim(Current(deployment="v3", epoch=2)), "it is another's"
    assert app.current() == later


def record(old: str, new: str) -> UpdateRecord:
    return UpdateRecord(
        app="flights", old=old, new=new, digest="", strategy="standby", outcome=PROMOTED,
        started_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def test_a_rollback_s_checkpoint_stays_however_many_hot_standbys_took_over() -> None:
    """Found from outside: gc freed it after two or three takeovers."""
    specs = [spec("v0"), attrs.evolve(spec("v1"), parent="v0")]
    for leader, standby in (("v1", "v1-standby-1"), ("v1-standby-1", "v1-standby-2"), ("v1-standby-2", "v1-standby-3")):
        specs.append(attrs.evolve(spec(standby), parent=leader, owner=hot_standby.owner(leader)))
        kept = needed(standby, specs, [record("v0", "v1")])
        assert set(kept) == {"v0", leader, standby} and "rollback" in kept["v0"]
        assert version_before(standby, specs, [record("v0", "v1")]) == "v0"
    assert version_before("v0", specs, []) is None and version_before("v9", specs, []) is None
    assert version_before("v1", specs, []) == "v0"
