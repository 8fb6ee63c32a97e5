"""The runtime zip of a deployment whose root is elsewhere: kept there, and copied to each machine that starts it."""

from __future__ import annotations

import uuid
import zipfile
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.drivers import runtime
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.storage import Folder


def elsewhere() -> Folder:
    return Folder.open(f"memory://{uuid.uuid4().hex}/app/deployments/v1")


def test_a_rollback_on_another_machine_runs_what_the_deployment_was_made_with(tmp_path: Path) -> None:
    root = elsewhere()
    root.write(runtime.NAME, b"of the release that made it")
    made = runtime.of_deployment(root, tmp_path / "another", str(root.address))
    assert made.read_bytes() == b"of the release that made it"


def test_what_lies_here_of_another_root_is_not_run(tmp_path: Path) -> None:
    """A root that was removed and made again has the same address, and its deployments the same ids."""
    (tmp_path / runtime.NAME).write_bytes(b"of an old release")
    root = elsewhere()
    made = runtime.of_deployment(root, tmp_path, str(root.address))
    with zipfile.ZipFile(made) as archive:
        assert "airflow_provider_streamupdate/core/formats.py" in archive.namelist()
    assert root.read(runtime.NAME) == made.read_bytes()


def test_it_is_written_once(tmp_path: Path) -> None:
    """A driver that runs reads its code from it."""
    root = elsewhere()
    made = runtime.of_deployment(root, tmp_path, str(root.address))
    written = made.stat()
    assert runtime.of_deployment(root, tmp_path, str(root.address)).stat().st_ino == written.st_ino
    other = runtime.of_deployment(root, tmp_path / "another", str(root.address))
    assert other.read_bytes() == made.read_bytes()


def test_two_machines_at_once_use_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, build = elsewhere(), runtime.build

    def beaten(target: Path | None = None, root_: str = "", **given: str) -> Path:
        root.write(runtime.NAME, b"of the other")
        return build(target, given.get("root", root_))

    monkeypatch.setattr(runtime, "build", beaten)
    assert runtime.of_deployment(root, tmp_path, str(root.address)).read_bytes() == b"of the other"


def test_one_that_vanishes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = elsewhere()
    monkeypatch.setattr(Folder, "create", lambda *_, **__: False)
    with pytest.raises(StorageError, match="was removed while it was looked for"):
        runtime.of_deployment(root, tmp_path, str(root.address))
