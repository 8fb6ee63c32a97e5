"""The code of two versions, compared file by file. Secrets are hidden."""

from __future__ import annotations

import difflib
import io
import zipfile
from collections import Counter
from collections.abc import Callable
from itertools import takewhile
from pathlib import PurePosixPath

import attrs

from ...core.errors import CorruptError
from ...core.redaction import secret_values, without
from ...core.registry.application import Application
from ...core.registry.registry import AppRegistry

TOTAL_BYTES = 20_000_000  # of a version's files, those in archives included
FILE_BYTES = 1_000_000  # of a file that is compared line by line
LINES = 2000  # that differ, of all files together; comparing more takes too long
LONGEST = 2000  # characters of a line: no author wrote a longer one


@attrs.frozen(kw_only=True)
class FileDiff:
    """A file that differs."""

    name: str  # in the new version, or in the old one where it is gone
    before: str | None = None  # its name in the old version, if it had another
    added: int | None = None  # lines; None: they were not compared
    removed: int | None = None
    lines: tuple[str, ...] = ()  # as in a unified diff, without a head
    note: str | None = None  # why there are no lines

    @property
    def summary(self) -> str:
        """The rest of the file's heading: the name it had, the number of lines, the note."""
        was = f" (was {self.before})" if self.before else ""
        counted = f", +{self.added} -{self.removed}" if self.added is not None else ""
        return f"{was}{counted}{f': {self.note}' if self.note else ''}"


@attrs.frozen(kw_only=True)
class CodeDiff:
    """The differences between the code of two versions."""

    old: str
    new: str
    files: tuple[FileDiff, ...] = ()
    same: int = 0  # files that are equal
    notes: tuple[str, ...] = ()  # what was not compared, and why


@attrs.frozen(kw_only=True)
class Version:
    """The code of one version."""

    name: str
    application: Application
    read: Callable[[str, int], bytes | None]  # given a path and the most bytes; None: the file is gone

    @classmethod
    def stored(cls, registry: AppRegistry, deployment: str, application: Application) -> Version:
        """Return a deployment's version. A link is not read: it leads anywhere on this machine."""
        folder = registry.deployment_folder(deployment)

        def read(path: str, most: int) -> bytes | None:
            folder.check_regular(path, set())
            return folder.read(path, most)

        return cls(name=deployment, application=application, read=read)


def compare_code(old: Version, new: Version, most: int = LINES) -> CodeDiff:
    """Compare all files. The application file comes first, whatever its name. Where more than `most` lines differ, the
    sizes of the files are told."""
    notes, files, versions = list[str](), list[FileDiff](), (old.application, new.application)
    before, after = _files(old, notes), _files(new, notes)
    secrets = secret_values(*(part for a in versions for part in (a.params, a.conf, a.env_vars)))
    every = sorted({*before, *after})
    for name in (name for name in every if before.get(name) != after.get(name)):
        lines, note = _compare(before.get(name), after.get(name), secrets, most)
        most -= len(lines or ())
        was, now = (name or PurePosixPath(version.file).name for version in versions)
        added, removed = (sum(line[0] == sign for line in lines) if lines else None for sign in "+-")
        renamed = was if was != now else None
        files.append(FileDiff(name=now, before=renamed, added=added, removed=removed, lines=lines or (), note=note))
    same = len(every) - len(files)
    return CodeDiff(old=old.name, new=new.name, files=tuple(files), same=same, notes=tuple(notes))


def _files(version: Version, notes: list[str]) -> dict[str, bytes]:
    """Return the files by name, those in archives too. The application file is under ``""``: its name may differ.

    notes: receives what was not read
    """
    application, found, left = version.application, dict[str, bytes](), TOTAL_BYTES
    paths = (application.file, *application.py_files, *application.files)
    names = Counter(PurePosixPath(path).name for path in paths)
    for path in paths:
        name = PurePosixPath(path).name
        if names[name] > 1:  # as it is stored: py_files/0/NAME
            name = "/".join(PurePosixPath(path).parts[-3:])
        try:
            data, problem = version.read(path, left + 1), "is gone"
        except CorruptError as error:
            data, problem = None, f"was not compared: {error}"
        if data is not None and len(data) > left:
            data, problem = None, "is too large to be compared"
        if data is None:
            notes.append(f"{version.name}: {name} {problem}")
            continue
        unpacked = _unpacked(name, data, left) if path in application.py_files else None
        files = unpacked or {"" if path == application.file else name: data}
        found.update(files)
        left -= sum(map(len, files.values()))
    return found


def _unpacked(name: str, data: bytes, left: int) -> dict[str, bytes] | None:
    """Return the files of an archive; None for another file, or when they are more than is `left`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [info for info in archive.infolist() if not info.is_dir()]
            if sum(info.file_size + 100 for info in entries) > left:  # an empty file takes room, too
                return None
            # zipfile unpacks no more than an entry states, and raises for one that states too little
            return {f"{name}/{info.filename}": archive.read(info) for info in entries}
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError, EOFError, OSError):
        return None


def _compare(
    old: bytes | None, new: bytes | None, secrets: tuple[str, ...], most: int
) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the lines of a unified diff, or why there are none. One of the files may be missing (None)."""
    a, b = (_lines(data or b"", secrets) for data in (old, new))
    if a is None or b is None:
        sizes = ["not there" if data is None else f"{len(data)} bytes" for data in (old, new)]
        return None, f"no text, or too large: {sizes[0]} before, {sizes[1]} after"
    head = _equal_lines(a, b)
    tail = _equal_lines(a[head:][::-1], b[head:][::-1])
    if max(len(a), len(b)) - head - tail > most:
        return None, f"too much of it differs to be shown: {len(a)} lines before, {len(b)} after"
    lines = tuple(difflib.unified_diff(a, b, lineterm=""))[2:]
    return lines or None, None if lines else "it differs in what is hidden, or in the ends of its lines"


def _equal_lines(a: list[str], b: list[str]) -> int:
    """Return how many lines at the start are equal."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _lines(data: bytes, secrets: tuple[str, ...]) -> list[str] | None:
    """Return the lines of a text; None for anything else, and for a text that is too large."""
    try:
        lines = without(data.decode(), secrets).splitlines() if len(data) <= FILE_BYTES else ["\0"]
    except UnicodeDecodeError:
        return None
    return None if any("\0" in line or len(line) > LONGEST for line in lines) else lines
