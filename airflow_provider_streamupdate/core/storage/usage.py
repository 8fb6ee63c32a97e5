"""What removing files frees: a file with several names (hard links) is free when all of them go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import Folder


def freed(folder: Folder, groups: Sequence[Iterable[str]]) -> list[int]:
    """Bytes that removing all the paths frees, by the group that the last name of a file is in."""
    left: dict[object, int] = {}
    found = []
    for paths in groups:
        total = 0
        for path in paths:
            try:
                there = folder.file_names(path)
            except FileNotFoundError:
                continue  # removed since it was listed
            left[there.file] = left.get(there.file, there.names) - 1
            total += there.size if left[there.file] == 0 else 0
        found.append(total)
    return found
