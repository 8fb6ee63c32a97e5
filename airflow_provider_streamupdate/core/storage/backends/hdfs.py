"""HDFS. It renames atomically, with or without replacing an existing file, and has folders but no links."""

from __future__ import annotations

import attrs

from .fsspec_store import FsspecStore
from .webhdfs import WebHdfs


@attrs.frozen
class HdfsStore(FsspecStore):
    fs: WebHdfs

    empty_folders = True

    def hadoop_uri(self, path: str) -> str:
        return f"{self.fs.for_hadoop}{path}"

    def remove_exactly(self, base: str, relative: str, data: bytes) -> bool:
        return self.fs.rm_exactly(f"{base}/{relative}", data)

    def remove_empty(self, path: str) -> None:
        self.fs.rm_empty(path)
