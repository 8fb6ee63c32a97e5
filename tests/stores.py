"""Object stores in memory, which do what real ones do otherwise than a file system."""

from __future__ import annotations

import hashlib
import threading

from fsspec.asyn import get_loop
from fsspec.implementations.memory import MemoryFileSystem


class ObjectStore(MemoryFileSystem):
    """What s3fs does (seen with moto's server, which tests/ground/s3.py runs): the empty objects Hadoop makes for
    folders are listed in themselves, and a file lists itself. `exclusive`: it honours conditional puts."""

    protocol = ("s3", "s3a")
    store: dict = {}
    pseudo_dirs = [""]
    exclusive = True
    lock = threading.Lock()

    def ls(self, path, detail=True, **kwargs):
        found = super().ls(path, detail=False)
        found = found if self.isfile(path) else [*found, f"{path.rstrip('/')}/"]
        return [self.info(p) for p in found] if detail else found

    def find(self, path, **kwargs):
        found = super().find(path, **kwargs)
        folders = {name[: at + 1] for name in found for at in range(len(path), len(name)) if name[at] == "/"}
        if kwargs.get("detail"):
            return {**found, **{name: {"name": name, "size": 0, "type": "file"} for name in folders}}
        return [*found, *folders]

    def makedirs(self, path, exist_ok=False):
        """There are no folders."""

    def rm(self, path, recursive=False, maxdepth=None):
        found = [name for name in list(self.store) if name == path or name.startswith(f"{path}/")]
        if not found:
            raise FileNotFoundError(path)
        for name in found:
            self.store.pop(name, None)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        with self.lock:
            return super().pipe_file(path, value, mode=mode if self.exclusive else "overwrite", **kwargs)


class Bucket(ObjectStore):
    """With conditional deletes, as s3fs gives them; `conditional`: it honours the condition."""

    conditional = True
    most = 5_000_000  # bytes that one copy takes

    def info(self, path, **kwargs):
        return {**super().info(path, **kwargs), "ETag": self._tag(path)}

    def _tag(self, path):
        return f'"{hashlib.md5(self.cat_file(path)).hexdigest()}"' if self.isfile(path) else None

    def split_path(self, path):
        bucket, _, key = path.lstrip("/").partition("/")
        return bucket, key, None

    @property
    def loop(self):
        return get_loop()

    async def _call_s3(self, method, Bucket, Key):
        assert method == "get_object"
        return {"Body": Body(self.cat_file(f"/{Bucket}/{Key}"))}

    def call_s3(self, method, Bucket, **asked):
        known = {"delete_object": self._delete, "list_objects_v2": self._page, "copy_object": self._copy}
        return known[method](Bucket, **asked)

    def _copy(self, Bucket, Key, CopySource):
        data = self.cat_file(f"/{CopySource['Bucket']}/{CopySource['Key']}")
        if len(data) > self.most:
            raise _error("EntityTooLarge")
        self.pipe_file(f"/{Bucket}/{Key}", data)

    def _page(self, Bucket, Prefix, Delimiter, ContinuationToken=""):
        """Two entries at a time."""
        top = f"/{Bucket}/{Prefix}"
        below = sorted(name[len(top) :] for name in list(self.store) if name.startswith(top))
        entries = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in below})
        left = [name for name in entries if not ContinuationToken or name > ContinuationToken]
        page, more = left[:2], len(left) > 2
        return {
            "Contents": [{"Key": Prefix + name} for name in page if not name.endswith("/")],
            "CommonPrefixes": [{"Prefix": Prefix + name} for name in page if name.endswith("/")],
            "IsTruncated": more,
            **({"NextContinuationToken": page[-1]} if more else {}),
        }

    def _delete(self, Bucket, Key, IfMatch):
        path = f"/{Bucket}/{Key}"
        with self.lock:
            if not self.isfile(path):
                raise _error("NoSuchKey")
            if self.conditional and self._tag(path) != IfMatch:
                raise _error("PreconditionFailed")
            self.rm_file(path)


class Body:
    """Of an object that is read."""

    def __init__(self, data):
        self.data = data

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def read(self):
        return self.data


def _error(code):
    error = OSError(22, "refused")
    error.__cause__ = RuntimeError()
    error.__cause__.response = {"Error": {"Code": code}}
    return error
