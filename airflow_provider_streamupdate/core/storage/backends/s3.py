"""S3, by s3fs: an object can be deleted under a condition, and reading and listing take one request each."""

from __future__ import annotations

import contextlib
import uuid

import attrs
from fsspec.asyn import sync

from .backend import Backend
from .fsspec_store import REFUSED, FsspecStore, code

READS, DAMAGED = 4, "FlexibleChecksumError"  # botocore.exceptions
TOO_LARGE = ("EntityTooLarge", "InvalidRequest")  # of an object that one request cannot copy (CopyObject)


@attrs.frozen
class S3Store(FsspecStore):
    def read(self, path: str, first: int | None = None) -> bytes:
        """Read in one request: s3fs asks for an object's size before (a HEAD), and lists it as a folder when it is
        missing (measured)."""
        if first is not None:
            return super().read(path, first)
        for _ in range(READS - 1):
            try:
                return bytes(sync(self.fs.loop, self._get, path))
            except Exception as error:
                # What came does not fit its checksum: it was damaged on the way, or another object took its place
                # meanwhile on a server that is not careful (versitygw 1.8, measured).
                if type(error).__name__ != DAMAGED:
                    raise
        return bytes(sync(self.fs.loop, self._get, path))

    async def _get(self, path: str) -> bytes:
        bucket, key, _ = self.fs.split_path(path)
        answer = await self.fs._call_s3("get_object", Bucket=bucket, Key=key)
        async with answer["Body"] as body:
            return bytes(await body.read())

    def copy_from(self, source: Backend, path: str, target: str) -> None:
        """Copy in one request: s3fs asks for the size before, since more than 5 GB take several."""
        if not isinstance(source, S3Store) or source.fs is not self.fs:
            return super().copy_from(source, path, target)
        bucket, key, _ = self.fs.split_path(target)
        from_bucket, from_key, _ = self.fs.split_path(path)
        try:
            self.fs.call_s3("copy_object", Bucket=bucket, Key=key, CopySource={"Bucket": from_bucket, "Key": from_key})
        except OSError as error:
            if code(error) not in TOO_LARGE:
                raise
            super().copy_from(source, path, target)

    def names(self, path: str) -> list[str]:
        """List up to 1,000 names per request: for a missing folder s3fs also lists the one around it (measured)."""
        bucket, key, _ = self.fs.split_path(path)
        prefix, found, more = f"{key}/" if key else "", list[str](), dict[str, str]()
        while True:
            page = self.fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, Delimiter="/", **more)
            found += [each["Key"] for each in page.get("Contents", ())]
            found += [each["Prefix"] for each in page.get("CommonPrefixes", ())]
            if not page.get("IsTruncated"):
                return [name for name in (each[len(prefix) :].rstrip("/") for each in found) if name]
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def remove_exactly(self, base: str, relative: str, data: bytes) -> bool | None:
        """Remove by If-Match. Not every store supports that, so it is probed each time."""
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
