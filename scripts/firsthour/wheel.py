"""The wheel that a user is given, built from a copy of the sources, so that nothing is left in them."""

from __future__ import annotations

import shutil
from pathlib import Path

from firsthour.shell import Shell

REPOSITORY = Path(__file__).resolve().parents[2]
UV = REPOSITORY / ".uv" / "bin" / "uv"
LEFT_OUT = (".*", "node_modules", "build", "*.egg-info", "__pycache__", "tests", "site")


def build(shell: Shell, folder: Path) -> Path:
    """The wheel, in `folder`."""
    source = folder / "source"
    shutil.copytree(REPOSITORY, source, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    shell.run(f"'{UV}' build --quiet --wheel --no-build-isolation --python '{REPOSITORY}/.venv/bin/python' "
              f"--out-dir '{folder}' '{source}'")  # fmt: skip
    [wheel] = folder.glob("*.whl")
    return wheel
