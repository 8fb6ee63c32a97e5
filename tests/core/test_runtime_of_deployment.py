"""The runtime zip of a deployment whose root is elsewhere: kept there, and copied to each machine that starts it."""

from __future__ import annotations

import tempfile
import uuid
import zipfile
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers import runtime
from airflow_provider_streamupdate.control.drivers.launch_files import local_folder
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.storage import Folder
from tests.core.builders import spec


def elsewhere() -> Folder:
    return Folder.open(f"memory://{uuid.uuid4().hex}/app/deployments/v1")


def test_a_rollback_on_another_machine_runs_what_the_deployment_was_made_with(tmp_path: Path) -> None:
    root = elsewhere()
    root.write(runtime.NAME, b"of the release that made it")
    made = runtime.of_deployment(root, tmp_path / "another", str(root.address))
    assert made.read_bytes() == b"of the release that made it"


def test_one_without_it_gets_that_of_this_release(tmp_path: Path) -> None:
    root = elsewhere()
    made = runtime.of_deployment(root, tmp_path / "here", str(root.address))
    with zipfile.ZipFile(made) as archive:
        assert "airflow_provider_streamupdate/core/formats.py" in archive.namelist()
    assert root.read(runtime.NAME) == made.read_bytes()


def test_a_root_made_again_has_other_files_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the same address, and its deployments the same ids; so has one of the same name on another server, whose
    drivers read their code from here while they run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root, made = elsewhere(), spec("v1")
    root.write("application/a.py", b"1")
    again = attrs.evolve(made, submitted_at="2026-11-28T09:46:00+00:00")
    here = local_folder(root, made)
    assert local_folder(root, made) == here != local_folder(root, again)
    assert (local_folder(root, again) / "application" / "a.py").read_bytes() == b"1"
    assert local_folder(root, attrs.evolve(made, digest="changed in flight")) == here


def test_its_files_are_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root, made = elsewhere(), spec("v1")
    for name in ("a.py", "lib/b.py"):
        root.write(f"application/{name}", b"1")
    read = (local_folder(root, made) / "application" / "lib" / "b.py").open("rb")
    with read:
        root.write("application/lib/b.py", b"2")
        here = local_folder(root, made)
        assert read.read() == b"1" and (here / "application" / "lib" / "b.py").read_bytes() == b"2"
    assert sorted(p.name for p in here.rglob("*") if p.is_file()) == ["a.py", "b.py"]


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
