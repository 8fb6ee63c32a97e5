"""Names of apps, queries, stages, deployments and snapshots. They become path segments, so they are plain.

Names and paths that come out of a file (a manifest, a RocksDB zip, an operator's metadata, a record of the registry)
are another's word: `check_path` and `check_part` say which of them stay inside the folder they are joined to.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .errors import CorruptError, InvalidInputError

MAX_LENGTH = 200  # leaves room under the 255 bytes most file systems allow for one path segment
_RESERVED = "static:"  # how a plan names tables that are read at rest (lineage.py)
MAX_PART, MAX_PATH = 255, 1024  # bytes of a path segment and of a path that comes out of a file
_OF_REPORTS = (".report", ".rehearsal")
_NUMBERED = re.compile(r"(0|[1-9][0-9]*)\.json")
_ALLOWED = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:+=@-]*")
_WITH_SPACES = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._:+=@ -]*[A-Za-z0-9._:+=@-])?")  # of a query, as Spark shows it
_USUAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


def check_name(kind: str, name: object) -> str:
    """Return `name` when it can be a name of `kind` (e.g. ``"snapshot"``), else raise InvalidInputError."""
    spaces = " and, inside it, spaces" if kind == "query" else ""
    allowed = f"use letters, digits and . _ - : + = @{spaces}, starting with a letter, a digit or _"
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"the {kind} name is empty; {allowed}")
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    if len(name) > MAX_LENGTH:
        raise InvalidInputError(f"{kind} name {shown!r} has {len(name)} characters; at most {MAX_LENGTH} are allowed")
    if not is_name(name, _WITH_SPACES if kind == "query" else _ALLOWED):
        raise InvalidInputError(f"{kind} name {shown!r} is not allowed; {allowed}")
    return name


def is_name(text: str, allowed: re.Pattern[str] = _ALLOWED) -> bool:
    """Whether a text can be a name; what a file manager calls a copy (``v2 (copy)``) cannot."""
    return len(text) <= MAX_LENGTH and ".." not in text and allowed.fullmatch(text) is not None


def is_positional(name: str) -> bool:
    """Return whether a name is one that things without one have by their order (``aggregate-1``)."""
    return re.fullmatch(r"[a-z-]+-\d+", name) is not None


def meant(name: str, known: Iterable[str]) -> str | None:
    """Return the question whether the known name nearest to `name` was meant; None when none is near."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"did you mean {close[0]!r}?" if close else None


def check_keys(found: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise InvalidInputError for keys that are not known, each with the nearest one. where: what has them"""
    known = tuple(known)
    if unknown := sorted({*found} - {*known}):
        told = "; ".join(f"{key!r} ({question})" if (question := meant(key, known)) else repr(key) for key in unknown)
        raise InvalidInputError(f"{where} has no {told}; it may have {', '.join(known)}")


def check_new_id(name: str) -> str:
    """Return `name` when it can be the id of a new deployment or change; else InvalidInputError. The files of a
    report are named after the id that it is about, with these endings."""
    check_name("deployment", name)
    if name.endswith(_OF_REPORTS):
        raise InvalidInputError(f"deployment name {name!r} ends as the files of reports do; choose another")
    return name


def numbers(files: Iterable[str]) -> list[int]:
    """Return the numbers of files that are named as this package names them (``12.json``). Others are ignored: Python
    also accepts digits such as ``²``, and ``007`` would be read as ``7``."""
    return [int(file[:-5]) for file in files if _NUMBERED.fullmatch(file)]


def confused(sources: Iterable[str], stages: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with a query's names: expressions refer to both sources and stages by name."""
    sources, stages = set(sources), set(stages)
    for name in sorted(sources & stages):
        yield f"a source and a stage are both named {name!r}"
    for name in sorted(sources | stages):
        if name.startswith(_RESERVED):
            yield f"the name {name!r} begins with {_RESERVED!r}, which has another meaning in a plan"


def check_path(path: object, where: str) -> str:
    """Return `path` when it is a relative path that stays below any folder that it is joined to; else CorruptError.
    `where`: what names it, for the error. Hadoop joins paths, too, and takes what is before a colon for a scheme."""
    if isinstance(path, str) and len(path) <= MAX_PART and _USUAL.fullmatch(path):
        return path
    if problem := path_problem(path):
        text = repr(path)
        shown = text if len(text) <= 100 else f"{text[:97]}..."
        raise CorruptError(
            f"{where} names {shown}, which {problem}: neither Spark nor this package writes such a name; do not use "
            "these files, or restore them from a backup"
        )
    return str(path)


def check_part(name: object, where: str) -> str:
    """Like `check_path`, for what must be one segment of a path."""
    if isinstance(name, str) and "/" in name:
        check_path(name, where)
        raise CorruptError(f"{where} names {name[:100]!r}, which is a path instead of a single name; do not use it")
    return check_path(name, where)


def named(kind: str) -> Any:
    """Validator of an attrs field: the name of `kind`, or None, or a mapping by such names."""

    def check(_instance: object, _field: Any, value: Any) -> None:
        for name in value if isinstance(value, dict) else [value]:
            if name is not None:
                check_name(kind, name)

    return check


def inside(_instance: object, field: Any, value: Any) -> None:
    """Validator of an attrs field: a path that stays where it is joined to."""
    check_path(value, f"field {field.name}")


def parts(_instance: object, field: Any, value: Any) -> None:
    """Validator of an attrs field: a name that is one segment of a path, or several of them."""
    for name in value if isinstance(value, tuple) else (value,):
        check_part(name, f"field {field.name}")


def path_problem(path: object) -> str | None:
    """Why a path might not stay below the folder that it is joined to, in words; None when it does."""
    if not isinstance(path, str):
        return "is not a text"
    if not path:
        return "is empty"
    if not path.isprintable():  # control characters, NUL, halves of surrogate pairs, marks that turn the direction
        return "holds characters that cannot be printed"
    if "\\" in path:
        return "holds a backslash"
    if path.startswith("/"):
        return "is absolute"
    segments = path.split("/")
    if ":" in segments[0]:
        return "begins with a drive or a scheme"
    if ".." in segments:
        return "leads out of its folder"
    if "" in segments or "." in segments:
        return "has an empty part"
    if len(path.encode()) > MAX_PATH or any(len(s.encode()) > MAX_PART for s in segments):
        return f"is too long (at most {MAX_PATH} bytes, {MAX_PART} a part)"
    return None
