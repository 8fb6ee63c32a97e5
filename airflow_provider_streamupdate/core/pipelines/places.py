"""A checkpoint that is made in one place and used in another."""

from __future__ import annotations

from ..storage import Folder


def lead_to(checkpoint: Folder, target: Folder) -> None:
    """transformWithState's description of an operator holds absolute paths, which must be those of the place where the
    checkpoint will be."""
    for operator in checkpoint.names("state"):
        described = f"state/{operator}/_metadata/v2"
        for name in checkpoint.files(described):
            text = checkpoint.read(path := f"{described}/{name}")
            assert text is not None  # it was listed
            moved = text.replace(_tail(checkpoint), _tail(target))
            if moved != text:
                checkpoint.write(path, moved)


def _tail(folder: Folder) -> bytes:
    """The end of a path that tells versions of a checkpoint apart: schemes and hosts are written in several ways."""
    return ("/" + "/".join(folder.path().rstrip("/").split("/")[-3:]) + "/").encode()
