"""Functions: their instructions with all that the names in them stand for, in modules of the app's as the driver has
them (workers import them afresh: sources.py)."""

from __future__ import annotations

import builtins
import functools
import hashlib
import importlib
import linecache
import os
import pkgutil
import re
import sys
import types
from typing import Any

from .listing import Listing, Uses, Variable, form, names_in, read, uses
from .owner import MAIN, Owner, is_importable, owner, spec_of
from .report import Level
from .sources import absolute
from .walk import Walk

# What Python puts into a module's namespace.
MADE_BY_PYTHON = names_in(
    "__name__ __doc__ __file__ __builtins__ __loader__ __spec__ __package__ __cached__ __path__ __annotations__ "
    "__warningregistry__"
)


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
    hints = {
        n: h if isinstance(h, str) else re.sub(r" at 0x\w+", "", repr(h)) for n, h in function.__annotations__.items()
    }
    walk.report.note_docs(function.__doc__, hints)
    if module := _module_of(namespace):
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
        walk.named(sorted((function.__kwdefaults__ or {}).items())),
        walk.named(function.__dict__.items()),
        None if own is builtins or own is vars(builtins) else walk.of(own),
    )


def _note(walk: Walk, listing: Listing) -> None:
    """Note what code can look at besides instructions and values."""
    code = listing.code
    walk.report.note_docs([text for text in code.co_consts if isinstance(text, str)])
    walk.report.note(Level.TREES, code.co_varnames, code.co_cellvars, code.co_freevars)
    file, lines = code.co_filename, [line for *_, line in code.co_lines()]
    walk.report.note(Level.TEXTS, os.path.basename(file), lines, source_file(file))
    for step in listing.steps:
        if step.kind == "code":
            _note(walk, step.value)


@functools.lru_cache(maxsize=1000)
def source_file(path: str | None) -> str | None:
    """A digest of a file with all comments: tracebacks, inspect and linecache give them."""
    lines = linecache.getlines(path) if path else []
    return hashlib.sha256("".join(lines).encode("utf8", "surrogatepass")).hexdigest() if lines else None


def _module_of(namespace: dict[str, Any]) -> str | None:
    """The app's module that a function's global variables are of; None where it is pickled with them."""
    name = namespace.get("__name__")
    held = sys.modules.get(name) if isinstance(name, str) and name not in MAIN else None
    return name if isinstance(held, types.ModuleType) and vars(held) is namespace else None


def _reach(walk: Walk, namespace: dict[str, Any], used: Uses) -> Any:
    """Describe what the code of a function, with the functions inside it, takes from elsewhere."""
    for text in (*used.attributes, *used.texts):
        walk.report.mentions(text)
    home = (str(namespace.get("__name__", "")), namespace.get("__package__"))
    names = [_name(walk, namespace, *each) for each in used.names]
    words = [_name(walk, namespace, word) for word in dict.fromkeys(used.words()) if word in namespace]
    modules = [_import(walk, absolute(m.name, m.level, *home), taken) for m, taken in used.modules.items()]
    paths = [(absolute(p.root.name, p.root.level, *home), p.root.top, p.attributes) for p in used.imports]
    return names, words, modules, [_path(walk, *path) for path in paths]


def _name(walk: Walk, namespace: dict[str, Any], name: str, attributes: tuple[str, ...] = ()) -> Any:
    number = walk.variable(namespace, name)
    if module := _module_of(namespace):
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
        passed += [value.__name__, name]
        if is_app_module(value):
            walk.members.add((value.__name__, name))
            walk.imported.add(value.__name__)
            passed.append(walk.variable(vars(value), name))
            value = _member(walk, value, name)
        else:
            walk.report.uses(value.__name__, value)
            value = vars(value).get(name)
    return *passed, walk.of(value)


def _import(walk: Walk, name: str, names: tuple[str, ...]) -> Any:
    """Describe the import of a module, from which names are taken."""
    if owner(name) is not Owner.APP:
        walk.report.uses(name)
    for each in (name, *(f"{name}.{below}" for below in names)):
        if owner(each) is Owner.APP and (each in sys.modules or spec_of(each) is not None):
            walk.imported.add(each)
            if (module := import_module(each)) is None:  # all of its text counts
                walk.members.add((each, ""))
            elif "__getattr__" in vars(module):
                walk.of(vars(module)["__getattr__"])
    return name, names, is_importable(name)


def _path(walk: Walk, name: str, top: bool, attributes: tuple[str, ...]) -> Any:
    """Describe what attributes take from a module that is imported."""
    while attributes and owner(name) is not Owner.APP and owner(f"{name}.{attributes[0]}") is Owner.APP:
        name, attributes = f"{name}.{attributes[0]}", attributes[1:]  # the app's part of an installed package
    if owner(name) is not Owner.APP or (module := import_module(name)) is None:
        walk.report.uses_path(name, attributes)
        return name, attributes
    walk.imported.add(name)
    return name, _used(walk, import_module(name.partition(".")[0]) if top else module, attributes)


def is_app_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and owner(value.__name__) is Owner.APP


def import_module(name: str) -> types.ModuleType | None:
    """A module, imported as the function would do it."""
    try:
        return sys.modules.get(name) or importlib.import_module(name)
    except (Exception, SystemExit):  # whatever its statements raise: they raise it on a worker, too
        return None


def _member(walk: Walk, module: types.ModuleType, name: str) -> Any:
    """A member of a module: in its namespace, a module below it, or by its ``__getattr__``, whose code counts, too. All
    of the module where it has no such member (``__dict__``)."""
    members = vars(module)
    if name in members:
        return members[name]
    if "__path__" in members and spec_of(f"{module.__name__}.{name}"):
        return import_module(f"{module.__name__}.{name}")
    if "__getattr__" not in members:
        return module
    walk.members.add((module.__name__, "__getattr__"))
    try:
        return members["__getattr__"], getattr(module, name)
    except Exception as e:
        return members["__getattr__"], type(e)


def describe_module(walk: Walk, module: types.ModuleType) -> Any:
    """A module as a value: what is used of it is not known, so all counts."""
    walk.imported.add(module.__name__)
    walk.members.add((module.__name__, ""))
    walk.report.note_docs(module.__doc__)
    members = {name: value for name, value in vars(module).items() if name not in MADE_BY_PYTHON}
    for each in pkgutil.iter_modules(vars(module).get("__path__") or (), f"{module.__name__}."):
        if not each.name.endswith("__main__"):  # which of them are loaded by now is chance
            members.setdefault(each.name.rpartition(".")[2], import_module(each.name))
    return "module", walk.named(sorted(members.items()))
