"""A script's folder is a copy here: what it writes there would be lost at the next update, so it is refused."""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_PLACES = {  # of Python's audit events: which arguments are paths that are changed
    "sqlite3.connect": (0,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.truncate": (0,),
    "os.link": (1,),
    "os.symlink": (1,),
}
_OPEN = io.open
_starts: list[Callable[[], bool]] = []
_protected: list[str] = []  # the folder of the script that this process runs


def protect(folder: Path, starts: Callable[[], bool]) -> None:
    """Raise PermissionError in this process for each change in the folder, from now on (sys.addaudithook), and for each
    folder that is deleted while the script `starts`: that would happen each time it is planned."""
    if not _protected:
        sys.addaudithook(_check)
    _protected[:] = [f"{folder}/"]
    _starts[:] = [starts]


def read_copies(folder: Path, names: Iterable[str]) -> None:
    """Have this process read a version's own files where a script names them by a relative path: the working directory
    has those of the newest version."""
    own, usual = {os.path.normpath(name): str(folder / name) for name in names}, _OPEN

    def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if isinstance(file, (str, os.PathLike)) and not {*mode} & {*"wax+"}:
            file = own.get(os.path.normpath(os.fspath(file)), file)
        return usual(file, mode, *args, **options)

    builtins.open = io.open = opened


def refused(path: object) -> str | None:
    """Return why a path is not to be written; None for one elsewhere."""
    text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    if not text.startswith(tuple(_protected)) or "/__pycache__" in text:
        return None
    return (
        f"{text} lies in the script's folder, which is a copy here: what is written there is lost at the next update. "
        "Give the place as an argument"
    )


def _check(event: str, args: tuple[Any, ...]) -> None:
    if event == "shutil.rmtree" and _starts[0]():
        raise PermissionError(
            f"{args[0]} is deleted before the queries start, so each time the script is planned, checked or restarted "
            "as well: leave that out, or have an argument ask for it"
        )
    if event == "open":
        paths = args[:1] if args[2] & (os.O_WRONLY | os.O_RDWR) else ()
    else:
        paths = tuple(args[n] for n in _PLACES.get(event, ()))
    for path in paths:
        if why := refused(path):
            raise PermissionError(why)
