"""Files under the root, wherever it lies. The door is `Folder`; what differs from store to store is a `Backend`.

folder.py        Folder: what the rest of the package uses
listing.py       a folder as one listing shows it
backends/        what stores files, a file for each kind
"""

from .backends.backend import CHUNK
from .folder import Folder, call_count

__all__ = ["CHUNK", "Folder", "call_count"]
