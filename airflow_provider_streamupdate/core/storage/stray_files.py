"""Temporary files that were left behind: normally each is written, then renamed into its place at once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .. import clock
from . import Folder

STRAY_SECONDS = 3600.0  # no file of ours takes so long to write; a driver's files are checked once it is gone
_OURS = re.compile(r"\..+\.[0-9a-f]{32}|_probe-[0-9a-f]{32}")  # Folder.write and create, HDFS; Folder.check_writable
_SPARKS = re.compile(r"\..+\.tmp(\.crc)?")  # CheckpointFileManager


def find(folder: Folder, apart: Sequence[str] = (), top: str = "") -> list[str]:
    """Return the paths of stray temporary files below `top`. Spark's own are searched in checkpoints only, and nothing
    below the paths `apart`, whose writer may be alive."""
    found = []
    for path in (f"{top}/{below}" if top else below for below in folder.files(top, hidden=True)):
        name = path.rpartition("/")[2]
        sparks = "/checkpoint/" in path and _SPARKS.fullmatch(name)
        if not (sparks or _OURS.fullmatch(name)) or path.startswith(tuple(apart)):
            continue
        try:
            at = clock.from_epoch_ms(folder.modified(path) * 1000)
        except FileNotFoundError:
            continue
        if clock.age(at) > STRAY_SECONDS:
            found.append(path)
    return sorted(found)
