"""Any file system of fsspec. A put is atomic there; one under a condition is exclusive (`Folder.check_writable`)."""

from __future__ import annotations

import contextlib
import shutil
from typing import IO, Any

import attrs
from fsspec.dircache import DirCache

from .backend import CHUNK, Backend

# Answers to a conditional put that mean the same as FileExistsError: not every store says which condition failed, and
# AWS answers the second of two that come at once with a conflict (PutObject, If-None-Match).
REFUSED = ("PreconditionFailed", "412", "ConditionalRequestConflict")
_HADOOP = {"s3": "s3a"}  # fsspec's protocol -> Hadoop's own name for the same store, where it has another


@attrs.frozen
class FsspecStore(Backend):
    """A file system of fsspec. Listings never come from its cache, because other processes write, too. Folders of an
    object store are empty objects whose names end with a slash (Hadoop makes them), or nothing but the beginning of
    other names."""

    fs: Any

    def __attrs_post_init__(self) -> None:
        if isinstance(cache := getattr(self.fs, "dircache", None), DirCache):
            cache.use_listings_cache = False
            cache.clear()

    def address(self, path: str) -> str:
        return str(self.fs.unstrip_protocol(path))

    def hadoop_uri(self, path: str) -> str:
        protocol, separator, rest = self.address(path).partition("://")
        return _HADOOP.get(protocol, protocol) + separator + rest

    def read(self, path: str, first: int | None = None) -> bytes:
        return bytes(self.fs.cat_file(path, end=first))

    def open(self, path: str) -> IO[bytes]:
        file: IO[bytes] = self.fs.open(path, "rb")
        return file

    def write(self, path: str, data: bytes, lasting: bool) -> None:
        self.fs.pipe_file(path, data)

    def create(self, path: str, data: bytes, unique: bool) -> bool:
        try:
            self.fs.pipe_file(path, data, mode="create")
        except Exception as error:  # every fsspec back end has its own exceptions
            if isinstance(error, FileExistsError) or (isinstance(error, OSError) and code(error) in REFUSED):
                # If the file cannot be read, its creator is unknown: raise. If it was removed since, nobody holds it.
                with contextlib.suppress(FileNotFoundError):
                    return unique and self.read(path) == data
                return False
            if unique and self.holds(path, data):
                return True
            raise
        return True

    def copy_from(self, source: Backend, path: str, target: str) -> None:
        """Copy within the store, where both ends are in one and it supports that."""
        if isinstance(source, FsspecStore) and type(self.fs) is type(source.fs):
            self.fs.cp_file(path, target)
        elif source.path_here(path) is not None:
            self.fs.put_file(path, target)
        else:
            with source.open(path) as old, self.fs.open(target, "wb") as new:
                shutil.copyfileobj(old, new, CHUNK)

    def names(self, path: str) -> list[str]:
        self.fs.invalidate_cache(path)
        listed = (p.rstrip("/") for p in self.fs.ls(path, detail=False))
        return [p.rsplit("/", 1)[-1] for p in listed if p.strip("/") != path.strip("/")]

    def files(self, path: str, hidden: bool) -> list[str]:
        self.fs.invalidate_cache()
        found = (p[len(path) :].lstrip("/") for p in self.fs.find(path) if not p.endswith("/"))
        return [p for p in found if p and (hidden or not any(part.startswith(".") for part in p.split("/")))]

    def sizes(self, path: str) -> dict[str, int]:
        self.fs.invalidate_cache()
        found = self.fs.find(path, detail=True)
        told = {p: i.get("size") for p, i in found.items() if not p.endswith("/")}
        return {p[len(path) :].lstrip("/"): size for p, size in told.items() if isinstance(size, int)}

    def exists(self, path: str) -> bool:
        self.fs.invalidate_cache()
        return bool(self.fs.exists(path))

    def size(self, path: str) -> int:
        return int(self.fs.size(path))

    def modified(self, path: str) -> float:
        return float(self.fs.modified(path).timestamp())

    def remove(self, path: str) -> None:
        self.fs.rm(path, recursive=True)


def code(error: OSError) -> str | None:
    """Return the S3 server's code of an error that s3fs turned into an OSError (its cause is botocore's
    ClientError)."""
    response = getattr(error.__cause__, "response", None)
    return str(response["Error"].get("Code")) if isinstance(response, dict) and "Error" in response else None
