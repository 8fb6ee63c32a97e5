"""What a `Folder` needs from the storage that its files are in."""

from __future__ import annotations

import contextlib
import io
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, ClassVar, NamedTuple

CHUNK = 1 << 20  # bytes moved at a time


class FileNames(NamedTuple):
    """A file and how often it is named: hard links are names of one file."""

    file: object  # identifies it among the files of the backend
    names: int
    size: int


class Backend(ABC):
    """One kind of storage. Paths are whole ones, without protocol; `base` is the folder that a relative path starts at.

    Each kind guarantees: `create` is exclusive, `write` replaces in one step, and no reader sees half a file. Written
    or created data is durable once acknowledged (it survives a power failure), unless the kind `syncs`. Data from other
    processes is visible. Errors are the kind's own; a missing file is a FileNotFoundError.

    The attributes here say what differs; each default is what most stores have. The tests in `tests/folders.py` check a
    kind for both.
    """

    links: ClassVar[bool] = False  # a copy within one device is a hard link, which moves no bytes and needs no space
    cheap_calls: ClassVar[bool] = False  # a call crosses no network, so that frequent or sequential calls cost nothing
    renames: ClassVar[bool] = False  # a whole folder can be renamed in one step, which needs no space (`rename`)
    touches: ClassVar[bool] = False  # a file's time of writing can be set without writing or space (`touch`)
    empty_folders: ClassVar[bool] = False  # folders exist by themselves: an empty one is removed (`remove_empty`)
    locks: ClassVar[bool] = False  # processes of this machine can exclude each other (`lock`)
    symlinks: ClassVar[bool] = False  # it may hold symbolic links, pipes and devices (`check_regular`)
    hadoop_checksums: ClassVar[bool] = False  # Hadoop writes a hidden checksum file beside each file
    syncs: bool = False  # what others wrote, and what was copied, lasts only once it has been synced (`sync`)

    def path_here(self, path: str) -> Path | None:
        """Return the path for any process of this machine; None where files lie elsewhere."""
        return None

    @abstractmethod
    def address(self, path: str) -> str:
        """Return the address that `roots.backend_at` understands."""

    def hadoop_uri(self, path: str) -> str:
        """Return the address that Hadoop understands."""
        return self.address(path)

    @abstractmethod
    def read(self, path: str, first: int | None = None) -> bytes: ...

    def read_end(self, path: str, size: int) -> bytes:
        """Return the last `size` bytes of a file, or all of a shorter one."""
        with self.open(path) as file:
            end = file.seek(0, io.SEEK_END)
            file.seek(max(0, end - size))
            return file.read(size)

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading."""

    @abstractmethod
    def write(self, path: str, data: bytes, lasting: bool) -> None:
        """Not `lasting`: after a power failure the file that was replaced may come back, complete."""

    @abstractmethod
    def create(self, path: str, data: bytes, unique: bool) -> bool:
        """Create a file; False when it exists. `unique`: no other call writes this data, so a file that holds it was
        created by this call, even if its answer got lost."""

    def holds(self, path: str, data: bytes) -> bool:
        """Whether a file holds exactly this data. Also False when it cannot be read: the caller has its own error."""
        try:
            return self.read(path) == data
        except Exception:  # each kind has its own
            return False

    @abstractmethod
    def copy_from(self, source: Backend, path: str, target: str) -> None:
        """Bring a file here, as cheaply as the two backends allow."""

    @abstractmethod
    def names(self, path: str) -> list[str]:
        """Return the names directly below a folder, in any order."""

    @abstractmethod
    def files(self, path: str, hidden: bool) -> list[str]:
        """Paths, relative to the folder, of all files below it, in any order; a symbolic link is a file. With `hidden`
        files and folders; unreadable folders are left out then."""

    def sizes(self, path: str) -> dict[str, int]:
        """Return the sizes of all files below a folder, by relative path, where one listing tells them; empty
        elsewhere, and where calls are cheap."""
        return {}

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def size(self, path: str) -> int: ...

    @abstractmethod
    def modified(self, path: str) -> float:
        """Seconds since the epoch."""

    def file_names(self, path: str) -> FileNames:
        return FileNames(path, 1, self.size(path))

    @abstractmethod
    def remove(self, path: str) -> None:
        """A file, or a folder with all that is in it."""

    def remove_exactly(self, base: str, relative: str, data: bytes) -> bool | None:
        """Remove a file if it holds `data`, in one step. False: it does not, or is gone; None: that cannot be done."""
        return None

    def device(self, path: str) -> int | None:
        """Links lead from one folder to another of the same device; None where there are no links."""
        return None

    def free(self, path: str) -> int | None:
        """Bytes that can still be written; None where this is unknown."""
        return None

    def leaving_no_folder(self, path: str) -> AbstractContextManager[None]:
        """Remove the folders that were made inside the block, down to this one, if they are empty."""
        return contextlib.nullcontext()

    # Asked only of a backend that says so above.

    def rename(self, path: str, target: str) -> None:
        raise NotImplementedError

    def touch(self, path: str) -> None:
        raise NotImplementedError

    def remove_empty(self, path: str) -> None:
        """OSError when something is in it."""
        raise NotImplementedError

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Inside the block no other process of this machine is inside one for the same folder. It is taken when the
        block begins, and ends with the process; a folder that is not there counts as the nearest above it."""
        raise NotImplementedError

    def check_regular(self, base: str, relative: str, known: set[str]) -> None:
        """CorruptError for a file that is no plain one, or that a symbolic link leads to. `known`: folders found to be
        none; added to."""
        raise NotImplementedError

    def sync(self, base: str, paths: Iterable[str], but: Collection[str]) -> None:
        """Files, or whole folders, and the folders on the way to them last when this returns. `but`: files whose bytes
        do so already."""
        raise NotImplementedError
