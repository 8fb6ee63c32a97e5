"""The app's modules without source (a .pyc alone, an extension), and modules that differ from what a worker would find
under their name."""

from __future__ import annotations

import hashlib
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..listing.bytecode import Listing, read
from ..owner import Owner, owner
from ..walk import digest
from .source import absolute, spec_of, tree_of

_OPTIMIZED = 1  # CO_OPTIMIZED (inspect): a function's code has it, a class body's has not


def digest_without_source(module: str) -> str | None:
    """Of all that the module's file holds. None where there is source, or no file (what the driver made)."""
    if module in ("__main__", "__mp_main__") or tree_of(module) is not None:
        return None
    if (code := _code(getattr(sys.modules.get(module), "__loader__", None), module)) is not None:
        return digest(_parts(code))
    file = getattr(sys.modules.get(module), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else None


def imported_without_source(module: str) -> Iterator[str]:
    """The modules that it imports when it is imported."""
    code = _code(getattr(sys.modules.get(module), "__loader__", None), module)
    for name, level, members in _imports(read(code)) if code is not None else ():
        base = absolute(name, level, vars(sys.modules[module]))
        yield base
        yield from (f"{base}.{member}" for member in members)


def displaced(module: str) -> str | None:
    """Why a module is not the one that a worker imports: the driver has put it there, or has looked for it elsewhere.
    None where it is, and where nothing is found on the path now (then the workers have their own way to it)."""
    held, spec = sys.modules.get(module), spec_of(module)
    if owner(module) is not Owner.APP or module == "__main__" or held is None or spec is None or spec.loader is None:
        return None
    file = getattr(held, "__dict__", {}).get("__file__")
    if isinstance(file, str) and spec.origin and os.path.realpath(file) == os.path.realpath(spec.origin):
        return None  # whatever has loaded it: hooks of profilers and tests tell no source
    theirs, mine = _content(spec.loader, module), _content(getattr(held, "__loader__", None), module)
    if theirs is None or theirs == mine or "sys.modules[" in str(theirs):  # it puts something into its place itself
        return None
    where = f"the driver has loaded it from {file}" if file else "the driver has put it there"
    return f"{where}, and workers find {spec.origin}"


def _content(loader: Any, module: str) -> Any:
    """What a loader has of a module: its source, or its code where there is no source."""
    try:
        source = loader.get_source(module)
    except Exception:  # none of the kind
        return None
    if source is not None:
        return source
    code = _code(loader, module)
    return None if code is None else digest(_parts(code))


def _code(loader: Any, module: str) -> types.CodeType | None:
    try:
        return loader.get_code(module)
    except Exception:  # no loader, an extension, not of this Python
        return None


def _parts(value: Any) -> Any:
    """A code object in what it does; a constant as it is written in each process."""
    if isinstance(value, types.CodeType):
        shape = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
        names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        handlers = getattr(value, "co_exceptiontable", b"")
        return "code", value.co_name, value.co_code, shape, names, handlers, [_parts(c) for c in value.co_consts]
    if isinstance(value, tuple):
        return [_parts(v) for v in value]
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def _imports(listing: Listing) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    for step in listing.steps:
        if step.kind == "import":
            yield step.value.name, step.value.level, step.attributes
        elif step.kind == "code" and not step.value.code.co_flags & _OPTIMIZED:  # a class body
            yield from _imports(step.value)
