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
_copied: dict[str, str] = {}  # a version's own files, by where they lie in the working directory
_read: set[str] = set()  # of these, those that were read as they were copied


def protect(folder: Path, starts: Callable[[], bool]) -> None:
    """Raise PermissionError in this process for each change in the folder, from now on (sys.addaudithook), and for each
    folder that is deleted while the script `starts`: that would happen each time it is planned."""
    if not _protected:
        sys.addaudithook(_check)
    _protected[:] = [f"{folder}/"]
    _starts[:] = [starts]


def read_copies(folder: Path, names: Iterable[str]) -> None:
    """Have this process read a version's own files where a script names them in the working directory, which has those
    of the newest version. What it has written itself it reads there."""
    builtins.open = io.open = _opened
    _copied.clear()
    _read.clear()
    _copied.update({os.path.abspath(name): str(folder / name) for name in names})


def copy_of(path: Any) -> Any:
    """Return where a version's own file lies, for what Spark reads when a script starts; any other path as it is."""
    return _copied.get(_absolute(path), path)


def _opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
    name = _absolute(file)
    if name in _copied and not {*mode} & {*"wax+"}:
        _read.add(name)
        file = _copied[name]
    return _OPEN(file, mode, *args, **options)


def _absolute(path: Any) -> str:
    """Return where a path leads now, since a script may change its working directory; empty for a descriptor."""
    return os.path.abspath(os.fsdecode(path)) if isinstance(path, (str, bytes, os.PathLike)) else ""


def _check_copied(name: str) -> None:
    """Raise PermissionError for a change of a file that was read as it was copied. Another file is read as it is from
    now on."""
    if name in _read:
        raise PermissionError(
            f"{name} is written, and was read as it was when this version was submitted: a version has its own copy of "
            "the files that it names in its folder. Give its place as an argument"
        )
    _copied.pop(name, None)


def refused(path: object, change: str = "what is written there is lost at the next update") -> str | None:
    """Return why a path is not to be written, or read as a stream; None for one elsewhere."""
    text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    text = text.removeprefix("file://").removeprefix("file:")
    if not text.startswith(tuple(_protected)) or "/__pycache__" in text:
        return None
    return f"{text} lies in the script's folder, which is a copy here: {change}. Give the place as an argument"


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
        _check_copied(_absolute(path))
        if why := refused(path) or refused(_absolute(path)):
            raise PermissionError(why)
