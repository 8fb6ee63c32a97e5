"""A storage of the world, behind the two kinds of backend that differ most: a disk (links, renames), and a bucket with
conditional puts, which this package reaches through its own `FsspecStore`.

Every call takes virtual time, and may fail before its effect, after it (the answer is lost), or hang.
"""

from __future__ import annotations

import contextlib
import errno
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timezone
from typing import IO, Any, TypeVar

import attrs

from airflow_provider_streamupdate.core.storage.backends.backend import Backend, FileNames
from airflow_provider_streamupdate.core.storage.backends.fsspec_store import FsspecStore

from .plan import Blow
from .world import World

T = TypeVar("T")
QUICK, SLOW, HANGS = 0.002, 0.5, 45.0  # seconds that a call takes


@attrs.define(eq=False)
class File:
    data: bytes
    at: float
    names: int = 1


class Storage:
    """files: by path. slow: the share of calls that take long; strike: says what goes wrong with a call; replaced: is
    told of what replaces a file; failed: who met a fault, and for how long"""

    def __init__(self, world: World) -> None:
        self.world = world
        self.files: dict[str, File] = {}
        self.folders: dict[str, dict[str, None]] = {}  # folder -> names in it, in the order of their making
        self.slow = 0.0
        self.strike: Callable[[str, str], Blow | None] | None = None
        self.calls = 0
        self.replaced: Callable[[str, bytes, bytes], None] = lambda *_: None
        self.failed: Callable[[int, float], None] = lambda *_: None
        self.faults = Counter[str]()

    def call(self, verb: str, path: str, effect: Callable[[], T]) -> T:
        """What any call does: a moment passes, the effect comes, a moment passes."""
        world = self.world
        process = world.running().process
        self.calls += 1
        blow: Blow | None = None
        if process.machine.cut_off:
            blow = Blow.CUT_OFF
        elif self.strike is not None:
            blow = self.strike(verb, path)
        if blow is not None:
            self.failed(process.pid, HANGS if blow is Blow.HANG else 0.0)
            self.faults[blow] += 1
            world.note(f"  {process.name}: {verb} {path}: {blow}")
            if blow in (Blow.FAIL, Blow.CUT_OFF):
                world.sleep(QUICK)
                raise OSError(errno.EIO, "the storage failed")
        noise = process.noise.random
        seconds = noise() * 2 * QUICK
        if self.slow and noise() < self.slow:
            seconds = noise() * 2 * SLOW
        world.sleep(HANGS if blow is Blow.HANG else seconds)
        value = effect()
        if seconds > 2 * QUICK:
            world.sleep(seconds)
        if blow is Blow.LOSE_ANSWER:
            raise OSError(errno.ETIMEDOUT, "the answer was lost")
        return value

    # effects, each of which is whole

    def put(self, path: str, data: bytes) -> None:
        if (before := self.files.get(path)) is not None:
            self.replaced(path, before.data, data)
        self.files[path] = File(data, self.world.seconds)
        while path:
            above, _, name = path.rpartition("/")
            names = self.folders.setdefault(above, {})
            if name in names:
                break
            names[name] = None
            path = above

    def create(self, path: str, data: bytes) -> bool:
        if path in self.files:
            return False
        self.put(path, data)
        return True

    def get(self, path: str) -> File:
        if (file := self.files.get(path)) is None:
            raise FileNotFoundError(path)
        return file

    def link(self, path: str, target: str) -> None:
        file = self.get(path)
        if target not in self.files:
            self.put(target, b"")
            self.files[target] = file
            file.names += 1

    def names(self, path: str) -> list[str]:
        if path not in self.folders:
            raise FileNotFoundError(path)
        return list(self.folders[path])

    def below(self, path: str) -> Iterator[str]:
        """Of all files below a folder, relative to it."""
        for name in list(self.folders.get(path, ())):
            inner = f"{path}/{name}"
            if inner in self.folders:
                yield from (f"{name}/{found}" for found in self.below(inner))
            if inner in self.files:
                yield name

    def remove(self, path: str) -> None:
        if path in self.files:
            self.files.pop(path).names -= 1
            self._forget(path)
        elif path in self.folders:
            for name in list(self.folders[path]):
                self.remove(f"{path}/{name}")
            self.folders.pop(path, None)
            self._forget(path)
        else:
            raise FileNotFoundError(path)

    def _forget(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        names = self.folders.get(above, {})
        names.pop(name, None)
        if above and not names:
            self.folders.pop(above, None)
            self._forget(above)

    def rename(self, path: str, target: str) -> None:
        moved = {path: target} if path in self.files else {f"{path}/{n}": f"{target}/{n}" for n in self.below(path)}
        if not moved:
            raise FileNotFoundError(path)
        for old, new in moved.items():
            file = self.files[old]
            self.remove(old)
            self.put(new, b"")
            self.files[new] = file


@attrs.frozen
class Disk(Backend):
    """Links, renames, and locks that end with their process, as a local disk has them."""

    storage: Storage = attrs.field(eq=False)

    links = True
    cheap_calls = True
    renames = True
    touches = True
    empty_folders = False
    locks = False  # the tasks of the world meet at every call; nothing relies on the lock alone

    def address(self, path: str) -> str:
        return f"simdisk://{path}"

    def read(self, path: str, first: int | None = None) -> bytes:
        return self.storage.call("read", path, lambda: self.storage.get(path).data[:first])

    def open(self, path: str) -> IO[bytes]:
        return io.BytesIO(self.read(path))

    def write(self, path: str, data: bytes, lasting: bool) -> None:
        self.storage.call("write", path, lambda: self.storage.put(path, data))

    def create(self, path: str, data: bytes, unique: bool) -> bool:
        created = self.storage.call("create", path, lambda: self.storage.create(path, data))
        return created or (unique and self.holds(path, data))

    def copy_from(self, source: Backend, path: str, target: str) -> None:
        if isinstance(source, Disk):
            self.storage.call("link", path, lambda: self.storage.link(path, target))
        else:
            data = source.read(path)
            self.storage.call("write", target, lambda: self.storage.put(target, data))

    def names(self, path: str) -> list[str]:
        return self.storage.call("list", path, lambda: self.storage.names(path))

    def files(self, path: str, hidden: bool) -> list[str]:
        found = self.storage.call("list all", path, lambda: list(self.storage.below(path)))
        return [p for p in found if hidden or not any(part.startswith(".") for part in p.split("/"))]

    def exists(self, path: str) -> bool:
        return self.storage.call("exists", path, lambda: path in self.storage.files or path in self.storage.folders)

    def size(self, path: str) -> int:
        return self.storage.call("size", path, lambda: len(self.storage.get(path).data))

    def modified(self, path: str) -> float:
        return self.storage.call("modified", path, lambda: self.storage.get(path).at)

    def file_names(self, path: str) -> FileNames:
        def found() -> FileNames:
            file = self.storage.get(path)
            return FileNames(id(file), file.names, len(file.data))

        return self.storage.call("stat", path, found)

    def remove(self, path: str) -> None:
        self.storage.call("remove", path, lambda: self.storage.remove(path))

    def remove_exactly(self, base: str, relative: str, data: bytes) -> bool | None:
        path = f"{base}/{relative}"

        def removed() -> bool:
            file = self.storage.files.get(path)
            if file is None or file.data != data:
                return False
            self.storage.remove(path)
            return True

        return self.storage.call("remove exactly", path, removed)

    def device(self, path: str) -> int:
        return 1

    def rename(self, path: str, target: str) -> None:
        self.storage.call("rename", path, lambda: self.storage.rename(path, target))

    def touch(self, path: str) -> None:
        def touched() -> None:
            self.storage.get(path).at = self.storage.world.seconds

        self.storage.call("touch", path, touched)

    def remove_empty(self, path: str) -> None:
        return

    def lock(self, path: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def sync(self, base: str, paths: Iterable[str], but: Collection[str]) -> None:
        return


class Bucket:
    """An object store as fsspec has one, with conditional puts."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def unstrip_protocol(self, path: str) -> str:
        return f"simbucket://{path}"

    def invalidate_cache(self, path: str | None = None) -> None:
        return

    def cat_file(self, path: str, end: int | None = None) -> bytes:
        return self.storage.call("read", path, lambda: self.storage.get(path).data[:end])

    def open(self, path: str, mode: str = "rb") -> IO[bytes]:
        assert mode == "rb"
        return io.BytesIO(self.cat_file(path))

    def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        def put() -> None:
            if mode != "create":
                self.storage.put(path, data)
            elif not self.storage.create(path, data):
                raise FileExistsError(path)

        self.storage.call(mode, path, put)

    def cp_file(self, path: str, target: str) -> None:
        self.storage.call("copy", path, lambda: self.storage.put(target, self.storage.get(path).data))

    def ls(self, path: str, detail: bool = False) -> list[str]:
        return self.storage.call("list", path, lambda: [f"{path}/{name}" for name in self.storage.names(path)])

    def find(self, path: str, detail: bool = False) -> Any:
        def found() -> Any:
            paths = [f"{path}/{name}" for name in self.storage.below(path)]
            return {p: {"size": len(self.storage.files[p].data)} for p in paths} if detail else paths

        return self.storage.call("list all", path, found)

    def exists(self, path: str) -> bool:
        return self.storage.call("exists", path, lambda: path in self.storage.files or path in self.storage.folders)

    def size(self, path: str) -> int:
        return self.storage.call("size", path, lambda: len(self.storage.get(path).data))

    def modified(self, path: str) -> Any:
        at = self.storage.call("modified", path, lambda: self.storage.get(path).at)
        return datetime.fromtimestamp(at, timezone.utc)

    def rm(self, path: str, recursive: bool = False) -> None:
        self.storage.call("remove", path, lambda: self.storage.remove(path))


def backends(storage: Storage) -> dict[str, Backend]:
    """The world's backends, by protocol."""
    return {"simdisk": Disk(storage), "simbucket": FsspecStore(Bucket(storage))}
