"""Which backend a root has. A new kind of storage is named here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ...errors import InvalidInputError, StorageError
from .backend import Backend
from .disk import Disk
from .fsspec_store import FsspecStore
from .s3 import S3Store

_REACH = "check its address, that its server runs, and the storage options (credentials)"
_LIBHDFS = (
    "Python reaches hdfs:// only through Hadoop's native client (libhdfs, JAVA_HOME, CLASSPATH). Give the same folder "
    "by the namenode's web address, which does not need it: webhdfs://<namenode>:9870/<folder>"
)


def backend_at(uri: str, options: dict[str, Any]) -> tuple[Backend, str]:
    """The backend, and the path on it, of a local path or fsspec URI. InvalidInputError when the protocol is not
    known."""
    try:
        return OPENERS.get(uri.partition("://")[0].lower(), _fsspec)(uri, options)
    except (ValueError, ImportError) as error:
        raise InvalidInputError(
            f"root {uri!r} cannot be used: {error}; install the fsspec package for its protocol (for s3: s3fs, for "
            f"webhdfs: requests) into the environment of {sys.executable}, or correct it"
        ) from error
    except Exception as error:  # some connect at once, and every back end has its own exceptions
        first = str(error).partition("\n")[0]
        remedy = _LIBHDFS if "libjvm" in first or "libhdfs" in first else _REACH
        raise StorageError(f"root {uri!r} cannot be reached: {type(error).__name__}: {first}; {remedy}") from error


def _webhdfs(uri: str, options: dict[str, Any]) -> tuple[Backend, str]:
    from .webhdfs import HdfsStore, WebHdfs

    client, path = WebHdfs.open_uri(uri, options)
    return HdfsStore(client), path


def _fsspec(uri: str, options: dict[str, Any]) -> tuple[Backend, str]:
    fs, path = fsspec.core.url_to_fs(uri, **options)
    if isinstance(fs, LocalFileSystem):
        return Disk(root=path.rstrip("/")), path
    return S3Store(fs) if hasattr(fs, "call_s3") else FsspecStore(fs), path


# How a root is opened, by its protocol; all others are fsspec's.
OPENERS: dict[str, Callable[[str, dict[str, Any]], tuple[Backend, str]]] = {"webhdfs": _webhdfs, "swebhdfs": _webhdfs}
