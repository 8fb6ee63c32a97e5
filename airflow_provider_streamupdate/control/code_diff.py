"""The code of two versions, compared file by file. Secrets are hidden."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

import attrs

from ..core.errors import CorruptError
from ..core.redaction import secret_values, without
from ..core.registry.application import Application
from ..core.storage import Folder

TOTAL_BYTES = 20_000_000  # of a version's files, those in archives included
# What is larger, or no text, is told by its size and digest. Comparing longer files takes too long.
FILE_BYTES, FILE_LINES, LINE = 1_000_000, 5000, 2000  # bytes and lines of a file, characters of a line
SHOWN_LINES = 2000  # of all files together


@attrs.frozen(kw_only=True)
class FileDiff:
    """A file that differs."""

    name: str  # in the new version, or in the old one where it is gone
    before: str | None = None  # its name in the old version, if it had another
    added: int  # lines
    removed: int
    lines: tuple[str, ...]  # as in a unified diff, without a head
    note: str | None = None  # why there are no lines, or not all

    def __str__(self) -> str:
        was, note = f" (was {self.before})" if self.before else "", f": {self.note}" if self.note else ""
        return f"{self.name}{was}, +{self.added} -{self.removed}{note}"


@attrs.frozen(kw_only=True)
class CodeDiff:
    """The differences between the code of two versions."""

    old: str
    new: str
    files: tuple[FileDiff, ...] = ()
    same: int = 0  # files that are equal
    notes: tuple[str, ...] = ()  # what was not compared, and why


@attrs.frozen
class Version:
    """The code of one version."""

    name: str
    application: Application
    folder: Folder | None = None  # the deployment's, with the files of its application; None: they lie on this machine

    def read(self, path: str, most: int) -> bytes | None:
        """Return at most so many bytes of a file; None: it is gone. CorruptError for a link in a deployment: it leads
        anywhere on this machine."""
        if self.folder is not None:
            self.folder.check_regular(path, set())
            return self.folder.read(path, most)
        with contextlib.suppress(FileNotFoundError), Path(path).open("rb") as file:
            return file.read(most)
        return None

    def files_beside(self) -> dict[str, str]:
        """Return the files beside a script: their paths by their names, which are within its folder."""
        script = PurePosixPath(self.application.file)
        if self.application.script is None:
            return {}
        if self.folder is None:
            return {name: str(script.parent / name) for name in self.application.files_beside()}
        names = (name for name in self.folder.files(str(script.parent)) if name != script.name)
        own = (n for n in names if PurePosixPath(n).parts[0] not in ("py_files", "files", "__pycache__"))
        return {name: str(script.parent / name) for name in own if "__pycache__" not in name}


def compare_code(old: Version, new: Version, most: int = SHOWN_LINES) -> CodeDiff:
    """Compare all files, and show at most so many lines. The application file comes first, whatever its name."""
    notes, files, applications = list[str](), list[FileDiff](), (old.application, new.application)
    before, after = _files(old, notes), _files(new, notes)
    secrets = secret_values(*(part for a in applications for part in a.settings))
    every = sorted({*before, *after})
    for name in (name for name in every if before.get(name) != after.get(name)):
        a, b = (_lines(side.get(name, b""), secrets) for side in (before, after))
        lines = list(difflib.unified_diff(a, b, lineterm=""))[2:]
        note = None if lines else "it differs in what is hidden, or in the ends of its lines"
        if len(lines) > most:
            note = f"{len(lines) - most} more lines are not shown"
        was, now = (name or PurePosixPath(a.file).name for a in applications)
        added, removed = (sum(line[0] == sign for line in lines) for sign in "+-")
        shown, renamed = tuple(lines[:most]), was if was != now else None
        files.append(FileDiff(name=now, before=renamed, added=added, removed=removed, lines=shown, note=note))
        most -= len(shown)
    same = len(every) - len(files)
    return CodeDiff(old=old.name, new=new.name, files=tuple(files), same=same, notes=tuple(notes))


def python_files(old: Version, new: Version) -> list[dict[str, list[str]]]:
    """Return the lines of both versions' Python files, as `compare_code` compares them. The application's is ``""``."""
    secrets = secret_values(*(part for v in (old, new) for part in v.application.settings))
    files = [_files(version, []).items() for version in (old, new)]
    return [{name: _lines(data, secrets) for name, data in each if not name or name.endswith(".py")} for each in files]


def _files(version: Version, notes: list[str]) -> dict[str, bytes]:
    """Return the files by name, those in archives too. The application file is under ``""``: its name may differ.

    notes: receives what was not read
    """
    application, found, left = version.application, dict[str, bytes](), TOTAL_BYTES
    beside = {path: name for name, path in version.files_beside().items()}
    paths = (application.file, *beside, *application.py_files, *application.files)
    names = Counter(PurePosixPath(path).name for path in paths)
    for path in paths:
        name = beside.get(path) or PurePosixPath(path).name
        if names[name] > 1 and path not in beside:  # as it is stored: py_files/0/NAME
            name = "/".join(PurePosixPath(path).parts[-3:])
        data, problem = None, "is gone"
        try:
            data = version.read(path, left + 1)
        except CorruptError as error:
            problem = f"was not compared: {error}"
        if data is None or len(data) > left:
            notes.append(f"{version.name}: {name} {problem if data is None else 'is too large to be compared'}")
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


def _lines(data: bytes, secrets: tuple[str, ...]) -> list[str]:
    """Return the lines of a file, or one line about it when it is no text, or too large."""
    with contextlib.suppress(UnicodeDecodeError):
        lines = without(data.decode(), secrets).splitlines() if len(data) <= FILE_BYTES else ["\0"]
        if len(lines) <= FILE_LINES and not any("\0" in line or len(line) > LINE for line in lines):
            return lines
    return [f"{len(data)} bytes that are not compared line by line, SHA-256 {hashlib.sha256(data).hexdigest()[:12]}"]
