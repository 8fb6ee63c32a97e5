"""Read the end of a driver's log without reading the rest of it, and what is written to it from then on."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from ...core import clock

BLOCK = 65_536
_TRACEBACK = "Traceback (most recent call last)"
_JVM_FRAME = re.compile(r"\s+(?:at [\w.$/@]+\S*\(|\.\.\. \d+ more)")
_FRAMES = "\t(frames of the JVM's stack are left out)"
_ERROR = re.compile(r"^\S*(?:Error|Exception)\b|\bERROR\b|^Exception in thread")
_BEHIND = 5  # lines behind the error's own: its message may have several
FOLLOW_SECONDS = 0.5  # between two looks
MOST = 8_000_000  # bytes of a file, however many lines are wanted and however long they are


def tail(log: Path, lines: int) -> str:
    """Return the last lines of a log and of its rotated files (output_log.py); a note when there is no log."""
    if not os.path.exists(log):
        return f"(no log at {log})"
    found: list[str] = []
    file, rotated = log, count(1)
    while len(found) < lines and os.path.exists(file):  # False, too, where another user may not look
        with contextlib.suppress(OSError), open(file, "rb", opener=_opener) as source:  # it may be rotated just now
            found = [*_lines_before(source, source.seek(0, os.SEEK_END), lines - len(found)), *found]
        file = log.with_name(f"{log.name}.{next(rotated)}")
    return "\n".join(found) or "(the log is empty)"


def follow(log: Path, lines: int, ended: Callable[[], bool]) -> Iterator[str]:
    """Yield the last lines of a log, and each later one, until nothing is written any more after `ended`."""
    with open(log, "rb", opener=_opener) as source:
        end, text = source.seek(0, os.SEEK_END), b""
        found = _lines_before(source, end, lines)
        source.seek(max(end - 1, 0))
        begun = end > 0 and source.read(1) != b"\n"  # the last line is being written
        if found and begun:
            text = found.pop().encode()
        yield from found
        half = begun and lines <= 0  # its first part may hold half of a secret
        while True:
            over = ended()  # before the look: what was written until then is read
            if os.fstat(source.fileno()).st_size < end:  # rotated (output_log.py)
                end = 0
            source.seek(end)
            read = source.read()
            end = source.tell()
            *whole, text = (text + read).split(b"\n")
            if half and whole:
                whole, half = whole[1:], False
            yield from (line.decode(errors="replace") for line in whole)
            if over:
                yield from [text.decode(errors="replace")] if text and not half else []
                return
            clock.sleep(FOLLOW_SECONDS)


def around_error(lines: list[str], count: int) -> list[str]:
    """Return so many lines of a log's end, without the frames of the JVM's stacks: the last ones, or, where the last
    error stands before them, those before and behind its own line. A query that fails leaves hundreds of lines behind
    what Python says."""
    kept: list[str] = []
    for line in lines:
        if not _JVM_FRAME.match(line):
            kept.append(line)
        elif kept[-1:] != [_FRAMES]:
            kept.append(_FRAMES)
    error = _error_line(kept)
    end = len(kept) if error is None else min(error + 1 + _BEHIND, len(kept))
    if error is None or error >= len(kept) - count:
        return kept[-count:]
    return [*kept[max(end - count, 0) : end], f"... ({len(kept) - end} more lines)"]


def _error_line(lines: list[str]) -> int | None:
    """Return where the last Python traceback says what happened, or else the last line that names an error."""
    heads = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    for number in range(heads[-1] + 1 if heads else len(lines), len(lines)):
        if lines[number][:1].strip():
            return number
    named = [number for number, line in enumerate(lines) if not heads and _ERROR.search(line)]
    return named[-1] if named else None


def _opener(path: str, flags: int) -> int:
    """Open no link, which may lead anywhere, and wait for no pipe."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return descriptor


def _lines_before(source: BinaryIO, end: int, lines: int) -> list[str]:
    begin, read = end, b""
    while begin > 0 and read.count(b"\n") <= lines and len(read) < MOST:
        step = min(BLOCK, begin)
        begin = source.seek(begin - step)
        read = source.read(step) + read
    return read.decode(errors="replace").splitlines()[-lines:] if lines > 0 else []
