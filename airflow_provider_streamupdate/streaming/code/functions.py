"""Functions: their instructions with all that the names in them stand for."""

from __future__ import annotations

import builtins
import functools
import hashlib
import linecache
import os
import re
import types
from typing import Any

from .listing.bytecode import Listing, Path, Variable, read
from .listing.form import Uses, form, uses
from .modules import import_module, is_app_module, member, namespace_owner
from .owner import Owner, found, owner
from .report import Level
from .sources import absolute, package_of
from .walk import Walk


def describe_function(walk: Walk, function: types.FunctionType) -> Any:
    """A function of the app's. Its docstring and hints do not count unless something looks at them."""
    code, namespace = function.__code__, function.__globals__
    if code.co_filename.startswith("<attrs generated") and function.__name__ == "__hash__":
        # It is salted with another number in each process; the fields it takes are those it names.
        return "hash of attrs", code.co_names
    listing = read(code)
    numbers: dict[Variable, int] = {}
    described = form(listing, numbers, lambda name: walk.variable(namespace, name))
    _note(walk, listing)
    hints = {name: _hint(hint) for name, hint in function.__annotations__.items()}
    walk.report.note_docs(function.__doc__, hints)
    if module := namespace_owner(namespace):
        walk.imported.add(module)
        walk.members.add((module, function.__qualname__.partition(".")[0]))
    walk.namespaces.setdefault(id(namespace), namespace)
    cells = dict(zip(listing.free, function.__closure__ or (), strict=True))
    own = namespace.get("__builtins__", builtins)
    return (
        "function",
        (function.__module__, function.__qualname__),
        described,
        _reach(walk, namespace, uses(listing)),
        [walk.of(cells[variable]) for variable in sorted(cells, key=lambda v: numbers.get(v, 0))],
        walk.of(function.__defaults__),
        walk.named(sorted((function.__kwdefaults__ or {}).items(), key=lambda pair: pair[0])),
        walk.named(function.__dict__.items()),
        None if own is builtins or own is vars(builtins) else walk.of(own),
    )


def _note(walk: Walk, listing: Listing) -> None:
    """What code can look at besides instructions and values."""
    code = listing.code
    walk.report.note_docs([text for text in code.co_consts if isinstance(text, str)])
    lines = [line for *_, line in code.co_lines()]
    walk.report.note(Level.TREES, code.co_varnames, code.co_cellvars, code.co_freevars)
    walk.report.note(Level.TEXTS, os.path.basename(code.co_filename), lines, source_file(code.co_filename))
    for step in listing.steps:
        if step.kind == "code":
            _note(walk, step.value)


@functools.lru_cache(maxsize=1000)
def source_file(path: str | None) -> str | None:
    """A digest of a file with all comments: tracebacks, inspect and linecache give them."""
    lines = linecache.getlines(path) if path else []
    return hashlib.sha256("".join(lines).encode("utf8", "surrogatepass")).hexdigest() if lines else None


def _hint(hint: Any) -> str:
    return hint if isinstance(hint, str) else re.sub(r" at 0x[0-9a-f]+", "", repr(hint))


def _reach(walk: Walk, namespace: dict[str, Any], used: Uses) -> Any:
    """What the code of one function, with the functions inside it, takes from elsewhere."""
    for text in (*used.attributes, *used.texts):
        walk.report.mentions(text)
    package = package_of(namespace)
    names = [_name(walk, namespace, *each) for each in used.names]
    words = [_name(walk, namespace, word) for word in dict.fromkeys(used.words()) if word in namespace]
    modules = [_import(walk, absolute(m.name, m.level, package), taken) for m, taken in used.modules.items()]
    return names, words, modules, [_path(walk, path, package) for path in used.imports]


def _name(walk: Walk, namespace: dict[str, Any], name: str, attributes: tuple[str, ...] = ()) -> Any:
    number = walk.variable(namespace, name)
    if module := namespace_owner(namespace):
        walk.members.add((module, name))
    if name in namespace:
        return number, _used(walk, namespace[name], attributes)
    walk.report.uses("builtins", getattr(builtins, name, None))
    return number, "builtin" if hasattr(builtins, name) else "missing", name


def _used(walk: Walk, value: Any, attributes: tuple[str, ...]) -> Any:
    """A value, or what is used of it when it is a module."""
    passed: list[Any] = []
    while isinstance(value, types.ModuleType) and attributes:
        name, attributes = attributes[0], attributes[1:]
        if is_app_module(value):
            walk.members.add((value.__name__, name))
            walk.imported.add(value.__name__)
            variable = walk.variable(vars(value), name)
            value, how = member(walk, value, name)
            passed += [variable, how]
        else:
            walk.report.uses(value.__name__, value)
            passed += [value.__name__, name]
            value = vars(value).get(name)
    return *passed, walk.of(value)


def _import(walk: Walk, name: str, names: tuple[str, ...]) -> Any:
    """What happens when a module is imported, and names are taken from it."""
    if not found(name):
        return name, "is not found"
    if owner(name) is not Owner.APP:
        walk.report.uses(name)
        return name, names
    walk.imported.add(name)
    if (module := import_module(name)) is None:
        walk.members.add((name, ""))
        return name, "cannot be imported"
    taken = [member(walk, module, each) for each in names if each != "*"]
    walk.imported |= {value.__name__ for value, _ in taken if is_app_module(value)}
    return name, names, [(how, None if is_app_module(value) else walk.of(value)) for value, how in taken]


def _path(walk: Walk, path: Path, package: str) -> Any:
    """What attributes take from a module that is imported."""
    name, attributes = absolute(path.root.name, path.root.level, package), path.attributes
    while attributes and owner(name) is not Owner.APP and owner(f"{name}.{attributes[0]}") is Owner.APP:
        name, attributes = f"{name}.{attributes[0]}", attributes[1:]  # the app's part of an installed package
    if not found(name) or owner(name) is not Owner.APP:
        walk.report.uses_path(name, attributes)
        return name, attributes, found(name)
    module = import_module(name)
    walk.imported.add(name)
    if path.root.top and module is not None:
        module = import_module(name.partition(".")[0])
    return name, _used(walk, module, attributes)
