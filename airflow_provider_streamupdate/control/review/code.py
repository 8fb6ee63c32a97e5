"""The code of two deployments, compared file by file."""

from __future__ import annotations

import difflib
import io
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import PurePosixPath

import attrs

from ...core.errors import CorruptError
from ...core.redaction import without_secrets
from ...core.registry.application import Application
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.registry import AppRegistry

TOTAL_BYTES = 20_000_000  # of a deployment's files, those in archives included
FILE_BYTES = 1_000_000  # of a file that is compared line by line
COMPARED_LINES = 2000  # of one side that differ; comparing more takes too long
SHOWN_LINES = 2000  # of all files together
LINE = 400  # characters of a line
Read = Callable[[str, int], bytes | None]  # given a path and the most bytes; None: the file is gone


@attrs.frozen(kw_only=True)
class FileDiff:
    """A file that differs."""

    name: str  # in the new version, or in the old one where it is gone
    before: str | None = None  # its name in the old version, if it had another
    added: int | None = None  # lines; None: they were not compared
    removed: int | None = None
    lines: tuple[str, ...] = ()  # as in a unified diff, without a head
    note: str | None = None  # why there are no lines, or not all


@attrs.frozen(kw_only=True)
class CodeDiff:
    """The differences between the code of two deployments."""

    old: str
    new: str
    files: tuple[FileDiff, ...] = ()
    same: int = 0  # files that are equal
    notes: tuple[str, ...] = ()  # what was not compared, and why


@attrs.frozen
class _Contents:
    """The files of an application by name; the application file is under ``""``, since its name may differ."""

    main: str
    files: dict[str, bytes] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)


def code_diff(registry: AppRegistry, old: DeploymentSpec, new: DeploymentSpec) -> CodeDiff:
    """Compare the code of two deployments. Secrets are hidden."""
    sides = ((stored_files(registry, s.deployment), s.application) for s in (old, new))
    return compare_code(next(sides), next(sides), (old.deployment, new.deployment))


def stored_files(registry: AppRegistry, deployment: str) -> Read:
    """Return what reads the files of a deployment; CorruptError for one that is a link."""
    folder = registry.deployment_folder(deployment)

    def read(path: str, most: int) -> bytes | None:
        folder.check_regular(path, set())
        return folder.read(path, most)

    return read


def compare_code(old: tuple[Read, Application], new: tuple[Read, Application], names: tuple[str, str]) -> CodeDiff:
    """Compare the code of two applications, each with what reads its files. Secrets are hidden."""
    before, after = _contents(*old), _contents(*new)
    secrets = [part for _, app in (old, new) for part in (app.params, app.conf, app.env_vars)]
    every = sorted({*before.files, *after.files})
    differing = [name for name in every if before.files.get(name) != after.files.get(name)]
    files, left = [], SHOWN_LINES
    for name in differing:
        diff = _compare(before.files.get(name), after.files.get(name), secrets)
        was, now = name or before.main, name or after.main
        note = f"{len(diff.lines) - left} more lines are not shown" if len(diff.lines) > left else diff.note
        renamed = was if was != now else None
        files.append(attrs.evolve(diff, name=now, before=renamed, lines=diff.lines[:left], note=note))
        left = max(left - len(diff.lines), 0)
    notes = tuple(f"{name}: {note}" for name, side in zip(names, (before, after), strict=True) for note in side.notes)
    return CodeDiff(old=names[0], new=names[1], files=tuple(files), same=len(every) - len(differing), notes=notes)


def _contents(read: Read, application: Application) -> _Contents:
    paths = (application.file, *application.py_files, *application.files)
    names = Counter(PurePosixPath(path).name for path in paths)
    contents, left = _Contents(PurePosixPath(application.file).name), TOTAL_BYTES
    for path in paths:
        name = PurePosixPath(path).name
        if names[name] > 1:  # as it is stored: py_files/0/NAME
            name = "/".join(PurePosixPath(path).parts[-3:])
        try:
            data = read(path, left + 1)
        except CorruptError as error:  # a link leads anywhere on this machine
            contents.notes.append(f"{name} was not compared: {error}")
            continue
        if data is None or len(data) > left:
            contents.notes.append(f"{name} is gone" if data is None else f"{name} is too large to be compared")
            continue
        files = {"" if path == application.file else name: data}
        if path in application.py_files:
            files = _unpacked(name, data, left) or files
        contents.files.update(files)
        left = max(left - sum(map(len, files.values())), 0)
    return contents


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


def _compare(old: bytes | None, new: bytes | None, secrets: list[dict[str, str]]) -> FileDiff:
    """Compare two versions of a file, of which one may be missing (None). The caller names it."""
    a, b = (_lines(data or b"", secrets) for data in (old, new))
    if a is None or b is None:
        sizes = ["not there" if data is None else f"{len(data)} bytes" for data in (old, new)]
        return FileDiff(name="", note=f"no text, or too large: {sizes[0]} before, {sizes[1]} after")
    if a == b:
        return FileDiff(name="", added=0, removed=0, note="it differs in what is hidden, or in the ends of its lines")
    head = _equal_at_start(a, b)
    tail = _equal_at_start(a[head:][::-1], b[head:][::-1])
    if max(len(a), len(b)) - head - tail > COMPARED_LINES:
        return FileDiff(name="", note=f"too much of it differs to be shown: {len(a)} lines before, {len(b)} after")
    lines = list(difflib.unified_diff(a, b, lineterm=""))[2:]
    return FileDiff(
        name="",
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        lines=tuple(line if len(line) <= LINE else f"{line[: LINE - 1]}…" for line in lines),
        note=f"lines are cut after {LINE} characters" if any(len(line) > LINE for line in lines) else None,
    )


def _equal_at_start(a: list[str], b: list[str]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _lines(data: bytes, secrets: list[dict[str, str]]) -> list[str] | None:
    """Return the lines of a text; None for anything else."""
    try:
        text = data.decode() if len(data) <= FILE_BYTES else "\0"
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else without_secrets(text, *secrets).splitlines()
