"""Typed JSON: attrs classes to and from JSON text, one converter for the whole package."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, TypeVar

from cattrs.preconf.json import make_converter

from .errors import CorruptError
from .formats import format_of

if TYPE_CHECKING:
    from .storage import Folder

T = TypeVar("T")
converter = make_converter(forbid_extra_keys=False, omit_if_default=False)


def _exactly(kind: type, *accepted: type) -> None:
    """Have the converter refuse a JSON value of another type instead of converting it: ``true`` is no epoch, and 1.9 no
    batch."""

    def structure(value: Any, _kind: Any) -> Any:
        if type(value) not in accepted:
            raise TypeError(f"{str(value)[:60]!r} is not a valid {kind.__name__}")
        return kind(value)

    converter.register_structure_hook(kind, structure)


_exactly(bool, bool)
_exactly(int, int)
_exactly(float, float, int)
_exactly(str, str)


def to_dict(value: Any) -> Any:
    """Plain dicts, lists, strings and numbers (what JSON accepts)."""
    return converter.unstructure(value)


def to_json(value: Any) -> bytes:
    """Indented JSON with sorted keys, so that equal values give equal bytes; with the version of its format, where it
    is what a file holds."""
    return (json.dumps(to_document(value), indent=1, sort_keys=True) + "\n").encode()


def to_document(value: Any) -> Any:
    """Return the content of a file as plain data, with the version of its format."""
    form = format_of(type(value))
    return form.stamped(to_dict(value)) if form else to_dict(value)


def from_dict(value: Any, kind: type[T], where: str = "a value") -> T:
    """Build `kind` from plain data; CorruptError naming `where` when it does not fit."""
    try:
        return converter.structure(value, kind)
    except Exception as error:  # cattrs raises exception groups of many kinds
        raise CorruptError(
            f"{where} does not hold a valid {kind.__name__}: {_reason(error)}; "
            "restore the file from a backup or remove it"
        ) from error


def from_json(text: bytes, kind: type[T], where: str) -> T:
    """Parse JSON text into `kind`, also of an older format; CorruptError naming `where` when truncated or of another
    form, NewerFormatError when a newer version of this package wrote it."""
    return from_document(parse_json(text, where, finite=True), kind, where)


def read_file(folder: Folder, path: str, kind: type[T]) -> T | None:
    """Read a file of JSON; None when there is none. The errors are those of `from_json`."""
    text = folder.read(path)
    return None if text is None else from_json(text, kind, folder.path(path))


def from_document(value: Any, kind: type[T], where: str) -> T:
    """`from_json` of what is parsed already."""
    form = format_of(kind)
    return from_dict(form.understood(value, where) if form else value, kind, where)


def parse_json(text: bytes, where: str, finite: bool = False) -> Any:
    """Parse JSON text in UTF-8; CorruptError naming `where` when it is truncated or altered.

    finite: refuse what only Python takes for JSON (``NaN``), and numbers too large for a double: nobody else could
        read what is shown of them
    """
    try:
        return _FINITE.decode(text.decode()) if finite else json.loads(text.decode())
    except (ValueError, RecursionError) as error:  # the second: lists in lists in lists
        raise CorruptError(
            f"{where} is not valid JSON ({error}); it was truncated or altered: restore it from a backup"
        ) from error


def _double(text: str) -> float:
    value = float(text)  # also of NaN and Infinity
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


_FINITE = json.JSONDecoder(parse_constant=_double, parse_float=_double)


def _reason(error: BaseException) -> str:
    inner = getattr(error, "exceptions", None)
    return _reason(inner[0]) if inner else f"{type(error).__name__}: {error}"
