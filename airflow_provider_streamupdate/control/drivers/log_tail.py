"""Read the end of a driver's log without reading the rest of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

BLOCK = 65_536
MOST = 8_000_000  # bytes of a file, however many lines are wanted and however long they are


def tail(log: Path, lines: int) -> str:
    """Return the last lines of a log and of its rotated files (output_log.py); a note when there is no log."""
    if not log.exists():
        return f"(no log at {log})"
    found: list[str] = []
    for file in (log, *_older(log)):
        with contextlib.suppress(OSError):  # it is being rotated at this moment
            found = [*_last_lines(file, lines - len(found)), *found]
        if len(found) >= lines:
            break
    return "\n".join(found) or "(the log is empty)"


def _older(log: Path) -> Iterator[Path]:
    for number in count(1):
        older = log.with_name(f"{log.name}.{number}")
        if not older.exists():
            return
        yield older


def _last_lines(file: Path, lines: int) -> list[str]:
    with open(file, "rb") as source:
        begin, read = source.seek(0, os.SEEK_END), b""
        while begin > 0 and read.count(b"\n") <= lines and len(read) < MOST:
            step = min(BLOCK, begin)
            begin = source.seek(begin - step)
            read = source.read(step) + read
    return read.decode(errors="replace").splitlines()[-lines:]
