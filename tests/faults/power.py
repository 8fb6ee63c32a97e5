"""What a cut of power leaves of a folder: every call that changes it is recorded, in its order, and any moment of that
can be laid out again as the worst disk would have kept it.

The calls are those of `os` and `open`, through which this package and `shutil` go. A disk keeps the bytes of a file
that was synced, and the names of a folder that was synced; of all else it may have kept anything, so both ends are
tried: nothing (NOTHING), and every name but no byte (NAMES: a journal commits names before the bytes are written).
"""

from __future__ import annotations

import builtins
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

NOTHING, NAMES = "nothing else is there", "names are there, bytes are not"


@attrs.define
class Disk:
    """names: folder -> name -> file (a number of its own), or None for a folder; lasting: the same as on the disk;
    bytes: of each file, as they were at its last sync."""

    names: dict[str, dict[str, int | None]] = attrs.field(factory=dict)
    lasting: dict[str, dict[str, int | None]] = attrs.field(factory=dict)
    bytes: dict[int, bytes] = attrs.field(factory=dict)

    def lay_out(self, top: str, target: Path, kept: str) -> None:
        """What is left of `top`, into `target`."""
        names = self.lasting if kept == NOTHING else self.names
        target.mkdir(parents=True, exist_ok=True)
        for name, file in names.get(top, {}).items():
            if file is None:
                self.lay_out(f"{top}/{name}", target / name, kept)
            else:
                (target / name).write_bytes(self.bytes.get(file, b""))


Change = Callable[[Disk], None]


class Recorder:
    """Records what happens below `top`; `note` marks a moment."""

    def __init__(self, top: Path) -> None:
        self.top = str(top)
        self.changes: list[tuple[str, Change]] = []
        self._files: dict[int, int] = {}  # inode -> number: an inode is used again
        self._count = 0
        self._lock = threading.RLock()

    def note(self, what: str) -> None:
        self.changes.append((what, lambda _: None))

    def moments(self) -> Iterator[tuple[str, Disk]]:
        """Each call, with the disk after it (always the same one)."""
        disk = Disk()
        for what, change in self.changes:
            change(disk)
            yield what, disk

    @contextmanager
    def recording(self, syncs: Callable[[int], bool] = lambda _: True) -> Iterator[None]:
        """`syncs`: whether a sync of a descriptor does anything; for a disk, or code, that violates its contract."""
        opened = builtins.open
        changes: dict[str, Callable[..., tuple[str, Change] | None]] = {
            "link": lambda old, new, **_: (f"link {new}", _named(str(new), self._number(new))),
            "mkdir": lambda path, *_, **__: (f"mkdir {path}", _named(str(path), None)),
            "fsync": lambda descriptor: self._sync(descriptor, opened) if syncs(descriptor) else None,
        }
        changes |= dict.fromkeys(
            ("replace", "rename"),
            lambda old, new: (f"rename {new}", _both(_gone(str(old)), _named(str(new), self._number(new)))),
        )
        changes |= dict.fromkeys(
            ("unlink", "remove"), lambda path, **below: None if below else (f"unlink {path}", _gone(str(path)))
        )
        real: dict[str, Any] = {name: getattr(os, name) for name in changes}

        def recorded(name: str) -> Callable[..., None]:
            def call(*args: Any, **kwargs: Any) -> None:
                with self._lock:
                    real[name](*args, **kwargs)
                    if change := changes[name](*args, **kwargs):
                        self.changes.append(change)

            return call

        def open_(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            with self._lock:
                new = self._inside(path) and not os.path.lexists(path) and not set(mode).isdisjoint("wxa")
                file = opened(path, mode, *args, **kwargs)
                if new:
                    self._count += 1
                    self._files[os.fstat(file.fileno()).st_ino] = self._count
                    self.changes.append((f"open {path}", _named(str(path), self._count)))
            return file

        try:
            for name in real:
                setattr(os, name, recorded(name))
            builtins.open = open_  # type: ignore[assignment]
            yield
        finally:
            for name, call in real.items():
                setattr(os, name, call)
            builtins.open = opened

    def _inside(self, path: Any) -> bool:
        return isinstance(path, (str, os.PathLike)) and f"{os.fspath(path)}/".startswith(f"{self.top}/")

    def _number(self, path: Any) -> int:
        return self._files[os.lstat(path).st_ino]

    def _sync(self, descriptor: int, opened: Any) -> tuple[str, Change] | None:
        path, found = os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
        if not self._inside(path):
            return None
        if stat.S_ISDIR(found.st_mode):
            return f"sync folder {path}", _synced(path)
        if (number := self._files.get(found.st_ino)) is None:
            return None
        with opened(path, "rb") as file:
            return f"sync {path}", _kept(number, file.read())


def _named(path: str, number: int | None) -> Change:
    folder, _, name = path.rpartition("/")
    return lambda disk: disk.names.setdefault(folder, {}).__setitem__(name, number)


def _gone(path: str) -> Change:
    folder, _, name = path.rpartition("/")
    return lambda disk: disk.names[folder].__delitem__(name)


def _both(first: Change, second: Change) -> Change:
    def change(disk: Disk) -> None:
        first(disk)
        second(disk)

    return change


def _synced(folder: str) -> Change:
    return lambda disk: disk.lasting.__setitem__(folder, dict(disk.names.get(folder, {})))


def _kept(number: int, data: bytes) -> Change:
    return lambda disk: disk.bytes.__setitem__(number, data)
