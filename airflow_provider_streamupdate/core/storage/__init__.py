"""Files under the root, wherever it lies. The door is `Folder`; what differs from store to store is a `Backend`.

folder.py        Folder: what the rest of the package uses
backend.py       the contract: what every store does, and what it says of itself
listed.py        a folder as one listing tells it
opening.py       which backend a root has
disk.py          this machine's disk; syncing.py: what survives a power failure there
fsspec_store.py  any other file system of fsspec
s3.py            ... that is S3's
hdfs.py          ... that is HDFS, by the HTTP client in webhdfs.py
"""

from .backend import CHUNK
from .folder import Folder

__all__ = ["CHUNK", "Folder"]
