"""The code of two deployments, compared file by file."""

from __future__ import annotations

import difflib
import io
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

import attrs

from ...core.errors import CorruptError
from ...core.redaction import without_secrets
from ...core.registry.application import Application
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.registry import AppRegistry

FILE_BYTES = 1_000_000  # a larger file is told by its size alone
ARCHIVE_BYTES = 20_000_000  # of all files of a deployment together, also of those in archives
FILES = 500  # of a deployment; of more, the rest is not compared
COMPARED_LINES = 2000  # of one side, between what both begin and end with: more take too long to compare
SHOWN_LINES = 2000  # of all files together
LINE = 400  # characters of a line that are shown
AROUND = 3  # lines before and after a change
MAIN = "application file"
Read = Callable[[str, int], bytes | None]
_ARCHIVES = (".zip", ".whl", ".egg")


@attrs.frozen(kw_only=True)
class FileDiff:
    """One file that differs.

    name: in the new version, or in the old one where it is gone; before: its name there, if it had another
    added, removed: lines (None: they were not compared)
    lines: as in a unified diff, without a head
    note: why there are no lines, or not all
    """

    name: str
    before: str | None = None
    added: int | None = None
    removed: int | None = None
    lines: tuple[str, ...] = ()
    note: str | None = None


@attrs.frozen(kw_only=True)
class CodeDiff:
    """old, new: deployments; same: files that are equal; notes: what was not compared, and why"""

    old: str
    new: str
    files: tuple[FileDiff, ...] = ()
    same: int = 0
    notes: tuple[str, ...] = ()


@attrs.frozen
class _Contents:
    """The files of a deployment by name; None: too large to be read."""

    files: dict[str, bytes | None] = attrs.field(factory=dict)
    sizes: dict[str, int] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    main: str = ""


def code_diff(registry: AppRegistry, old: DeploymentSpec, new: DeploymentSpec) -> CodeDiff:
    """Compare the code of two deployments. Their application files are compared with each other, whatever their names.

    Values of parameters and settings whose names suggest a secret are hidden in it.
    """
    sides = ((stored_files(registry, s.deployment), s.application) for s in (old, new))
    return compare_code(next(sides), next(sides), (old.deployment, new.deployment))


def stored_files(registry: AppRegistry, deployment: str) -> Read:
    """Return what reads the files of a deployment. CorruptError for one that is a link."""
    folder = registry.deployment_folder(deployment)

    def read(path: str, most: int) -> bytes | None:
        folder.check_regular(path, set())
        return folder.read(path, most)

    return read


def compare_code(old: tuple[Read, Application], new: tuple[Read, Application], names: tuple[str, str]) -> CodeDiff:
    """Compare the code of two applications, each with what reads its files: path and most bytes; None: it is gone."""
    before, after = _contents(*old), _contents(*new)
    secrets = [part for _, app in (old, new) for part in (app.params, app.conf, app.env_vars)]
    found, same, left = [], 0, SHOWN_LINES
    for name, was in _pairs(before, after):
        one, other = before.files.get(was or ""), after.files.get(name or "")
        there = was is not None, name is not None
        if not any(there):
            continue  # told in the notes
        if all(there) and one is not None and one == other:
            same += 1
            continue
        if left <= 0 and all(there):
            found.append(FileDiff(name=name or "", note="not compared: too much differs before it"))
            continue
        made = _compared(one, other, there, (before.sizes.get(was or "", 0), after.sizes.get(name or "", 0)), secrets)
        made = attrs.evolve(made, name=name or was or "", before=was if all(there) and was != name else None)
        if len(made.lines) > left:
            made = attrs.evolve(
                made, lines=made.lines[:left], note=f"{len(made.lines) - left} more lines are not shown"
            )
        left -= len(made.lines)
        found.append(made)
    notes = [*(f"{names[0]}: {n}" for n in before.notes), *(f"{names[1]}: {n}" for n in after.notes)]
    return CodeDiff(old=names[0], new=names[1], files=tuple(found), same=same, notes=tuple(notes))


def _pairs(before: _Contents, after: _Contents) -> Iterator[tuple[str | None, str | None]]:
    """The names of each file in the new version and in the old one (None: it is not there), the application file first:
    in one version it may have the name that in the other one something else has."""
    yield after.main if after.main in after.files else None, before.main if before.main in before.files else None
    for name in sorted({*before.files, *after.files}):
        new = name if name in after.files and name != after.main else None
        old = name if name in before.files and name != before.main else None
        if new or old:
            yield new, old


def _contents(read: Read, application: Application) -> _Contents:
    made = _Contents(main=PurePosixPath(application.file).name)
    left = ARCHIVE_BYTES
    paths = (application.file, *application.py_files, *application.files)
    names = Counter(PurePosixPath(path).name for path in paths)
    for path in paths:
        name = PurePosixPath(path).name
        if names[name] > 1 and path != application.file:  # as it is stored: py_files/0/NAME
            name = "/".join(PurePosixPath(path).parts[-3:])
        archive = path in application.py_files and name.endswith(_ARCHIVES)
        most = min(left, ARCHIVE_BYTES if archive else FILE_BYTES)
        try:
            data = read(path, most + 1)
        except CorruptError as error:  # a link leads anywhere on this machine
            made.notes.append(f"{name} was not compared: {error}")
            continue
        if data is None:
            made.notes.append(f"{name} is gone")
            continue
        if len(data) > most:
            made.files[name], made.sizes[name] = None, len(data)
            made.notes.append(f"{name} is larger than {most} bytes, and was not compared")
            continue
        if archive and (inside := _unpacked(name, data, left, made.notes)) is not None:
            entries = inside
        else:
            entries = {name: data}
        for entry, content in entries.items():
            if len(made.files) >= FILES:
                made.notes.append(f"of more than {FILES} files, the rest was not compared")
                return made
            made.files[entry], made.sizes[entry] = content, len(content)
            left = max(left - len(content), 0)
    return made


def _unpacked(name: str, data: bytes, left: int, notes: list[str]) -> Mapping[str, bytes] | None:
    """The files of an archive, by the archive's name and theirs; None when it is none, or too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [info for info in archive.infolist() if not info.is_dir()]
            if len(entries) > FILES or sum(info.file_size for info in entries) > left:
                notes.append(f"{name} holds too much to be compared file by file")
                return None
            # no more than an entry says is unpacked, so that what lies about its size is an error
            return {f"{name}/{info.filename}": archive.read(info) for info in entries}
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError, EOFError, OSError):
        return None


def _compared(
    one: bytes | None,
    other: bytes | None,
    there: tuple[bool, bool],
    sizes: tuple[int, int],
    secrets: list[dict[str, str]],
) -> FileDiff:
    """A file of which at least one version is there; without its names."""
    if not all(there):
        only = other if there[1] else one
        texts = (_lines(b"", []), _lines(only or b"", secrets))
        a, b = texts if there[1] else texts[::-1]
        if a is None or b is None or (only is None):
            note = f"{'new' if there[1] else 'gone'}: {sizes[1] if there[1] else sizes[0]} bytes, no text"
            return FileDiff(name="", note=note)
        return _unified(a, b)
    a, b = (None if data is None else _lines(data, secrets) for data in (one, other))
    if a is None or b is None:
        return FileDiff(name="", note=f"no text, or too large: {sizes[0]} bytes before, {sizes[1]} after")
    if a == b:
        return FileDiff(name="", added=0, removed=0, note="it differs in what is hidden, or in the ends of its lines")
    return _unified(a, b)


def _lines(data: bytes, secrets: list[dict[str, str]]) -> list[str] | None:
    """None for what is no text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else without_secrets(text, *secrets).splitlines()


def _unified(a: list[str], b: list[str]) -> FileDiff:
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    if max(len(a), len(b)) - head - tail > COMPARED_LINES:
        return FileDiff(name="", note=f"too much of it differs to be shown: {len(a)} lines before, {len(b)} after")
    lines = list(difflib.unified_diff(a, b, n=AROUND, lineterm=""))[2:]
    return FileDiff(
        name="",
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        lines=tuple(line if len(line) <= LINE else f"{line[: LINE - 1]}…" for line in lines),
        note=f"lines are cut after {LINE} characters" if any(len(line) > LINE for line in lines) else None,
    )
