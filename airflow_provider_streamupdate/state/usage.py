"""What removing files frees: a file with several names (hard links) is free when all of them go."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from .storage import Folder


def freed(folder: Folder, groups: Sequence[Iterable[str]]) -> list[int]:
    """Bytes that removing all the paths frees, by the group that the last name of a file is in."""
    left: dict[tuple[int, int], int] = {}
    found = []
    for paths in groups:
        total = 0
        for path in paths:
            try:
                if not folder.local:
                    total += folder.size(path)
                    continue
                there = os.lstat(folder.path(path))
            except FileNotFoundError:
                continue  # removed since it was listed
            key = there.st_dev, there.st_ino
            left[key] = left.get(key, there.st_nlink) - 1
            total += there.st_size if left[key] == 0 else 0
        found.append(total)
    return found
