"""An app of one user, and commands of others. The users have no entry in the list of users."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from subprocess import CompletedProcess

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.coordination import commands
from airflow_provider_streamupdate.core.coordination.commands import CommandBox
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from tests.users import GROUP, OTHER, UNKNOWN, only_root, streamupdate

from .conftest import Site

pytestmark = [only_root, pytest.mark.processes]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """One that others can look into, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="streamupdate-users-") as made:
        os.chmod(made, 0o755)
        os.chown(made, UNKNOWN, UNKNOWN)
        yield Path(made)


@pytest.fixture
def root(root: Path) -> Path:
    """One that belongs to a user without a name."""
    os.chown(root, UNKNOWN, UNKNOWN)
    return root


def as_user(site: Site, user: int, *arguments: str | Path) -> CompletedProcess[str]:
    result = streamupdate(user, *arguments, environment={"TMPDIR": str(site.folder)})
    assert "Traceback" not in result.stderr, result.stderr
    return result


def submitted(site: Site) -> AppRegistry:
    result = as_user(site, UNKNOWN, "submit", site.application(), "--deployment", "v1")
    assert result.returncode == 0, result.stderr
    return site.app


def entries(folder: Path) -> Iterator[os.stat_result]:
    """The folder's and those of all in it, but of links. A running driver renames its files meanwhile."""
    for path in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):
            if not path.is_symlink():
                yield path.lstat()


def owners(folder: Path) -> set[int]:
    return {entry.st_uid for entry in entries(folder)}


def beat(app: AppRegistry) -> int:
    status = app.status("v1")
    assert status is not None
    return status.beat


def test_what_root_asks_for_is_its_owner_s(site: Site, root: Path) -> None:
    submitted(site)
    site.ok("save-snapshot", "alarm", "by-root")
    assert owners(root) == {UNKNOWN}
    result = as_user(site, UNKNOWN, "cancel", "alarm")
    assert result.returncode == 0, result.stderr


@pytest.mark.processes
def test_a_folder_that_another_user_made_ends_no_driver(site: Site, root: Path) -> None:
    """As a command of root did: its folder is closed to the driver, which has done what it was asked for."""
    app = submitted(site)
    folder = root / "alarm" / "deployments" / "v1"
    box = CommandBox(app.deployment_folder("v1"), 1)
    name = box.issue(commands.SNAPSHOT, snapshot="s1")
    for path in (folder / "commands", *(folder / "commands").rglob("*")):
        os.chown(path, 0, 0)
    before = beat(app)
    wait_for(lambda: (SnapshotStore(app).names() == ["s1"] and beat(app) > before + 10) or None, "the snapshot", 60)
    status = app.status("v1")
    assert status is not None and status.state == "running" and box.result(name) is None
    found = site.run("doctor").stdout
    assert f"{folder}/commands and 1 more belongs to root" in found
    assert f"chown -R {UNKNOWN}:{UNKNOWN} {root}/alarm" in found
    command = ["chown", "-R", f"{UNKNOWN}:{UNKNOWN}", root / "alarm"]
    subprocess.run(command, check=False, capture_output=True)  # it reports files that the driver renames meanwhile
    wait_for(lambda: box.result(name), "its answer", 60)
    assert "belongs to" not in site.run("doctor").stdout
    assert as_user(site, UNKNOWN, "cancel", "alarm").returncode == 0


def test_in_a_shared_root_everything_is_its_group_s(site: Site, root: Path) -> None:
    os.chown(root, UNKNOWN, GROUP)
    root.chmod(0o2770)
    submitted(site)
    made = list(entries(root))
    assert {entry.st_gid for entry in made} == {GROUP}
    assert {oct(entry.st_mode & 0o2777) for entry in made if S_ISDIR(entry.st_mode)} == {"0o2770"}
    assert {oct(entry.st_mode & 0o777) for entry in made if S_ISREG(entry.st_mode)} == {"0o660"}
    result = as_user(site, OTHER, "cancel", "alarm")
    assert result.returncode == 0, result.stderr


def test_who_cannot_write_an_app_s_folders_is_told_what_mends_it(site: Site, root: Path) -> None:
    """And nothing is stopped: neither by an update, which needs the next epoch, nor by a cancellation."""
    app, mend = submitted(site), f"as root, run chown -R {UNKNOWN}:{UNKNOWN} {root}/alarm"
    os.chown(root / "alarm" / "epochs", 0, 0)
    for command in (["update", site.application("v2"), "--strategy", "restart"], ["cancel", "alarm"]):
        before = beat(app)
        result = as_user(site, UNKNOWN, *command)
        assert result.returncode == 1 and f"{root}/alarm/epochs belongs to root" in result.stderr
        assert mend in result.stderr
        assert beat(app) > before
    assert app.cancellation() is None and app.deployment_ids() == ["v1"]
