"""A folder as one listing tells it, so that hundreds of folders in it need no request each."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .folder import Folder


@attrs.frozen
class Listing:
    """Names, files and sizes below a folder. Where a listing of all files is no cheaper than many (`Folder.sizes`),
    each is asked for when it is needed.

    What was written or removed since the listing is not known here.
    """

    folder: Folder
    sizes: dict[str, int]
    _children: dict[str, set[str]]

    @classmethod
    def of(cls, folder: Folder, relative: str) -> Listing:
        sizes = folder.sizes(relative)
        children: dict[str, set[str]] = {}
        for path in sizes:
            while path:
                above, _, name = path.rpartition("/")
                children.setdefault(above, set()).add(name)
                path = above
        return cls(folder, sizes, children)

    @classmethod
    def of_folders(cls, folder: Folder, relatives: Iterable[str]) -> Listing:
        """Only sizes."""
        sizes: dict[str, int] = {}
        for relative in sorted(set(relatives)):
            sizes |= folder.sizes(relative)
        return cls(folder, sizes, {})

    def names(self, relative: str) -> list[str]:
        """Return the same as `Folder.names`."""
        if not self.sizes:
            return self.folder.names(relative)
        return sorted(name for name in self._children.get(relative, ()) if not name.startswith("."))

    def files(self, relative: str) -> list[str]:
        """Return the same as `Folder.files`."""
        if not self.sizes:
            return self.folder.files(relative)
        below = f"{relative}/"
        found = (path[len(below) :] for path in self._below(relative))
        return sorted(path for path in found if not any(part.startswith(".") for part in path.split("/")))

    def _below(self, relative: str) -> list[str]:
        found: list[str] = []
        for name in self._children.get(relative, ()):
            path = f"{relative}/{name}"
            found += [path] if path in self.sizes else self._below(path)
        return found

    def size(self, relative: str) -> int:
        """Return the same as `Folder.size`. A file that is not in the listing takes a request."""
        return self.sizes[relative] if relative in self.sizes else self.folder.size(relative)
