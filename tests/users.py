"""Run commands as another user, which only root can do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.standin import REPOSITORY

UNKNOWN = 12345  # has no entry in the list of users
OTHER = 12346
GROUP = 12347  # of both
only_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root can run a command as another user (and it takes setpriv of util-linux)",
)
_CLI = "from airflow_provider_streamupdate.cli import main; main()"


def streamupdate(
    user: int, *arguments: str | Path, environment: Mapping[str, str], timeout: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line as a user. Of root's rights it keeps that of reading everything, since this
    Python may lie in root's home."""
    reads = "dac_read_search"
    rights = [
        f"--reuid={user}",
        f"--regid={user}",
        f"--groups={GROUP}",
        f"--inh-caps=+{reads}",
        f"--ambient-caps=+{reads}",
    ]
    command = ["setpriv", *rights, sys.executable, "-c", _CLI, *map(str, arguments)]
    home = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME")
    }
    return subprocess.run(
        command,
        env={**home, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
