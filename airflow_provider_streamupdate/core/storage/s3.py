"""S3, by s3fs: an object can be deleted under a condition."""

from __future__ import annotations

import contextlib
import uuid

import attrs

from .fsspec_store import REFUSED, FsspecStore, code


@attrs.frozen
class S3Store(FsspecStore):
    def remove_exactly(self, base: str, relative: str, data: bytes) -> bool | None:
        """By If-Match. Not every store knows that, so it is tried each time."""
        path, probe = f"{base}/{relative}", f"{base}/_probe-{uuid.uuid4().hex}"
        self.write(probe, b"", lasting=False)
        try:
            if self._deleted(probe, '"0"'):
                return None  # the condition was ignored
        finally:
            with contextlib.suppress(FileNotFoundError):
                self.remove(probe)
        try:
            self.fs.invalidate_cache()
            tag = str(self.fs.info(path)["ETag"])
            return self.read(path) == data and self._deleted(path, tag)
        except FileNotFoundError:
            return False

    def _deleted(self, path: str, tag: str) -> bool:
        """Whether an object was deleted, under the condition that its entity tag is this one."""
        bucket, key, _ = self.fs.split_path(path)
        try:
            self.fs.call_s3("delete_object", Bucket=bucket, Key=key, IfMatch=tag)
        except (FileNotFoundError, FileExistsError):
            return False
        except OSError as error:
            if code(error) not in (*REFUSED, "NoSuchKey"):
                raise
            return False
        return True
