"""Folders below the system's temporary one, whose names others can guess: what drivers run is taken from none that
somebody else prepared (issue 18)."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.drivers import runtime
from airflow_provider_streamupdate.control.drivers.launch_files import local_folder
from airflow_provider_streamupdate.control.drivers.runtime import private_folder
from airflow_provider_streamupdate.core.errors import EnvironmentProblem
from airflow_provider_streamupdate.core.storage import Folder
from tests.core.builders import spec

Prepare = Callable[[Path], None]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _link(folder: Path) -> None:
    (folder.parent / "theirs").mkdir()
    folder.symlink_to("theirs")


def _of_mode(mode: int) -> Prepare:
    def prepare(folder: Path) -> None:
        folder.mkdir()
        folder.chmod(mode)

    return prepare


def _stranger_s(folder: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to give a folder to another user")
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)


def _use_deployments() -> None:
    root = Folder.open("memory://private-folders/app/deployments/v1")
    root.write("application/v1.py", b"print('mine')")
    local_folder(root, spec("v1"))


USES = {"runtime": runtime.build, "deployments": _use_deployments}
PREPARED = {"link": _link, "writable": _of_mode(0o777), "by the group": _of_mode(0o770), "another's": _stranger_s}


@pytest.mark.parametrize("prepare", PREPARED.values(), ids=PREPARED)
@pytest.mark.parametrize("name", USES)
def test_what_others_can_have_prepared_is_refused(temporary: Path, name: str, prepare: Prepare) -> None:
    folder = temporary / f"streamupdate-{name}-{os.getuid()}"
    prepare(folder)
    with pytest.raises(EnvironmentProblem, match="remove it, or set TMPDIR to a folder of your own"):
        USES[name]()
    assert not any(path.is_file() for path in temporary.rglob("*"))


@pytest.mark.parametrize("name", USES)
def test_it_is_made_private(temporary: Path, name: str) -> None:
    USES[name]()
    folder = temporary / f"streamupdate-{name}-{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert any(path.is_file() for path in folder.rglob("*"))
    USES[name]()  # and used again


def test_one_that_others_could_read_is_closed(temporary: Path) -> None:
    folder = temporary / f"streamupdate-runtime-{os.getuid()}"
    _of_mode(0o755)(folder)
    assert private_folder("runtime") == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
