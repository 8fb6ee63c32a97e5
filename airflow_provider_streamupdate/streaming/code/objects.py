"""What is met on a walk, by its type: containers, functions, classes, and instances by their type and state."""

from __future__ import annotations

import contextvars
import copyreg
import dataclasses
import enum
import functools
import hashlib
import importlib
import json
import operator
import os
import random
import sys
import threading
import types
import typing
from pathlib import Path, PurePath
from typing import Any

from ..parameters import Parameters
from .classes import describe_class, describe_field
from .functions import describe_effects, describe_function
from .library import describe_library
from .modules import Effect, describe_module
from .on_import.source import dispatched_as_written
from .owner import Owner, owner, package
from .report import Where
from .spark import TASK_CONTEXTS, TELLS_PARTITIONS, describe_spark
from .walk import Walk

_BUILTINS = (types.BuiltinFunctionType, types.MethodWrapperType)
_DESCRIPTORS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_OF_WRAPPERS = frozenset({*functools.WRAPPER_ASSIGNMENTS, "__wrapped__", "func", "args", "keywords"})
_LOAD_CODE = frozenset({("pkgutil", "resolve_name"), ("pydoc", "locate"), ("importlib", "reload")})
_CONTENT = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float, complex, BaseException)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, or by a newer C module


def describe_object(walk: Walk, value: Any, where: Where) -> Any:
    kind = type(value)
    if kind is list:
        return "list", walk.each(value, where)
    if kind in (set, frozenset):
        return "set", walk.unordered(value, where)
    if kind in (dict, types.MappingProxyType, Parameters):
        return "dict", _items(walk, value, where)
    if kind in _VIEWS:
        return kind.__name__, walk.each(value, where)
    if kind is bytearray:
        return "bytearray", walk.of(bytes(value), where)
    if kind is types.CellType:
        return _cell(walk, value, where)
    if kind is Effect:
        return describe_effects(walk, value)
    if kind is types.FunctionType:
        return _function(walk, value, where)
    if isinstance(value, _BUILTINS):
        return _builtin(walk, value, where)
    if isinstance(value, _DESCRIPTORS):
        return "descriptor", walk.of(value.__objclass__, where), value.__name__
    if kind is types.MethodType:
        return "method", walk.of(value.__func__, where), walk.of(value.__self__, where)
    if isinstance(value, types.ModuleType):
        return _module(walk, value, where)
    if isinstance(value, type) and kind is not types.GenericAlias:  # list[int] says it is a class
        return _class(walk, value, where)
    return _instance(walk, value, where)


def _items(walk: Walk, value: Any, where: Where) -> Any:
    """In order: it decides what a loop over them gives."""
    pairs = list(value.items()) if not isinstance(value, dict) else list(dict.items(value))
    keys = walk.each([k for k, _ in pairs], where.part("'s key "))
    if len(pairs) > 8 and keys[0] == "values":
        values = walk.each([v for _, v in pairs], where)
        if values[0] == "values":
            return keys, values
    return keys, [walk.of(v, where.part(f"[{_short(k)}]")) for k, v in pairs]


def _short(key: Any) -> str:
    return repr(key) if isinstance(key, (str, int)) else f"a {type(key).__name__}"


def _cell(walk: Walk, cell: types.CellType, where: Where) -> Any:
    try:
        return "cell", walk.of(cell.cell_contents, where)
    except ValueError:
        return "cell", "empty"


def _function(walk: Walk, value: types.FunctionType, where: Where) -> Any:
    """Whose a function is tells where its code was compiled: a decorator's wrapper bears the author's names."""
    home = value.__globals__.get("__name__") or "__main__"
    whose = owner(home)
    if whose is Owner.APP:
        return describe_function(walk, value, where)
    _note(walk, home, whose)
    walk.report.mentions(value.__name__)
    if value is importlib.import_module or (home, value.__name__) in _LOAD_CODE:
        return walk.report.cannot(where, f"it is {home}.{value.__name__} under another name")
    if _find(home, value.__qualname__) is value:
        return "function", home, value.__qualname__
    if hasattr(value, "registry") and hasattr(value, "dispatch") and home == "functools":
        return "singledispatch", walk.of(value.registry, where), dispatched_as_written(value)
    # A function inside one of Python's or of a package: what it holds is the author's, its code is not.
    code = value.__code__
    cells = list(zip(code.co_freevars, value.__closure__ or (), strict=True))
    known = (code.co_code, code.co_names) if whose is not Owner.PLATFORM else ()
    if whose is Owner.PACKAGE:
        walk.report.mentions("__name__")
    return (
        "function inside",
        home,
        code.co_name,
        known,
        [walk.of(cell, where.part(f"'s {name}")) for name, cell in cells],
        walk.of(value.__defaults__, where),
        walk.of(value.__kwdefaults__, where),
        [(name, walk.of(held, where.part(f".{name}"))) for name, held in value.__dict__.items()],
    )


def _builtin(walk: Walk, value: Any, where: Where) -> Any:
    holder = value.__self__
    if holder is None or isinstance(holder, types.ModuleType):
        home = value.__module__ or getattr(holder, "__name__", "builtins")
        _note(walk, home, owner(home))
        walk.report.mentions(value.__name__)
        if home == "builtins" and value.__name__ in ("eval", "exec", "globals", "locals", "__import__"):
            return walk.report.cannot(where, f"it is the built-in {value.__name__} under another name")
        return "builtin", home, value.__qualname__, _compiled(walk, home, where)
    return "builtin of", value.__name__, walk.of(holder, where)


def _module(walk: Walk, value: types.ModuleType, where: Where) -> Any:
    whose = owner(value.__name__)
    if whose is Owner.APP:
        return describe_module(walk, value, where)
    _note(walk, value.__name__, whose)
    return "module", value.__name__


def _class(walk: Walk, value: type, where: Where) -> Any:
    if not _is_apps(value):
        home = value.__module__ if isinstance(value.__module__, str) else "builtins"  # some C types hide theirs
        if value.__name__ in TASK_CONTEXTS and owner(home) is Owner.PLATFORM:
            return walk.report.cannot(where.part(f" ({value.__name__})"), TELLS_PARTITIONS)
        _note(walk, home, owner(home))
        if home == "builtins":  # str, kept in a table of functions
            walk.report.mentions(value.__name__)
        return "class", home, value.__qualname__, _compiled(walk, home, where)
    return describe_class(walk, value, where)


def _instance(walk: Walk, value: Any, where: Where) -> Any:
    kind = type(value)
    if (described := _special(walk, value, where)) is not None:
        return described
    if (described := describe_spark(walk, value, where)) is not None:
        return described
    if name := _installed_name(value):
        _note(walk, name[0], owner(name[0]))
        return "function", *name
    if not _is_apps(kind):
        if member := _as_member(value):
            _note(walk, member[0], owner(member[0]))
            return "member", *member
        return "instance", walk.of(kind, where), _reduced(walk, value, where)
    others = [c for c in kind.__mro__ if c not in _CONTENT and c is not object and not _is_apps(c)]
    return (
        "instance",
        walk.of(kind, where),
        _content(walk, value, where),
        [(name, walk.of(held, where.part(f".{name}"))) for name, held in _held(value).items()],
        _reduced(walk, value, where) if any(_is_compiled(c) or _has_own_reduce(c) for c in others) else None,
    )


def _special(walk: Walk, value: Any, where: Where) -> Any:
    """Types whose state is not what pickle would take."""
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__, *_subclass(walk, value, where), walk.of(value.__func__, where)
    if isinstance(value, property):
        return (
            type(value).__name__,
            *_subclass(walk, value, where),
            *(walk.of(f, where) for f in (value.fget, value.fset, value.fdel)),
        )
    if type(value) is functools.partial:
        return "partial", *(walk.of(v, where) for v in (value.func, value.args, value.keywords, vars(value)))
    if isinstance(value, PurePath):
        return "path", type(value).__name__, *_subclass(walk, value, where), walk.of(str(value), where)
    if type(value) is operator.attrgetter:
        walk.report.mentions("attrgetter")
    if isinstance(value, functools.partialmethod):
        return (
            "partialmethod",
            *_subclass(walk, value, where),
            *(walk.of(v, where) for v in (value.func, value.args, value.keywords)),
        )
    if isinstance(value, functools.singledispatchmethod):  # Python 3.13 keeps a cache in it
        return (
            "singledispatchmethod",
            *_subclass(walk, value, where),
            walk.of(value.dispatcher, where),
            walk.of(value.func, where),
        )
    if isinstance(value, functools.cached_property):
        return "cached property", *_subclass(walk, value, where), walk.of(value.func, where), value.attrname
    if isinstance(value, functools._lru_cache_wrapper):
        parameters = sorted(value.cache_parameters().items()) if hasattr(value, "cache_parameters") else []
        held = {k: v for k, v in vars(value).items() if k not in ("__wrapped__", "cache_parameters")}
        names = [(k, walk.of(v, where)) for k, v in held.items() if k not in functools.WRAPPER_ASSIGNMENTS]
        return "cache", walk.of(value.__wrapped__, where), parameters, names
    if isinstance(value, enum.Enum) and type(value).__members__.get(value.name or "") is value:
        return "enum", walk.of(type(value), where), value.name
    if isinstance(value, dataclasses.Field):
        return describe_field(walk, value, where)
    if (described := describe_library(walk, value, where)) is not None:
        return described, *_subclass(walk, value, where)
    return _plain(walk, value, where)


def _subclass(walk: Walk, value: Any, where: Where) -> list[Any]:
    """The class of an instance whose type is treated on its own, when it is a subclass of the app's."""
    kind = type(value)
    if not _is_apps(kind):
        return []
    own = {} if isinstance(value, PurePath) else _held(value)  # a path keeps caches
    return [walk.of(kind, where), [(name, walk.of(v, where)) for name, v in own.items() if name not in _OF_WRAPPERS]]


def _plain(walk: Walk, value: Any, where: Where) -> Any:
    """Types that are described by what they were made with, since pickle does not take them or takes their name."""
    kind = type(value)
    if kind is typing.ForwardRef:
        return "forward reference", value.__forward_arg__
    if kind is typing.NewType:
        return "new type", value.__name__, walk.of(value.__supertype__, where)
    if kind is typing.TypeVar:
        return "type variable", value.__name__, walk.of(value.__bound__, where), walk.of(value.__constraints__, where)
    if kind is typing.ParamSpec:
        return "type variable", value.__name__
    if kind in _LOCKS:
        return "lock", kind.__name__
    if kind is contextvars.ContextVar:
        return "context variable", value.name, walk.of(value.get(None), where)
    if kind is random.Random and value is not getattr(random, "_inst", None) and value.getstate() == random.getstate():
        return walk.report.cannot(where, "it is a copy of the generator behind random's functions, as it stands now")
    if kind is type(os.environ):  # what is in it is data
        return "environment variables"
    if kind is json.JSONDecoder or (kind.__name__ == "Scanner" and kind.__module__ == "_json"):
        held = [(name, walk.of(v, where)) for name, v in _held(value).items() if name not in ("scan_once", "memo")]
        return "decoder", held
    return None


def _content(walk: Walk, value: Any, where: Where) -> Any:
    """What an instance of a subclass of a built-in type holds as that type."""
    if isinstance(value, dict):
        return "dict", _items(walk, value, where)
    if isinstance(value, (set, frozenset)):
        return "set", walk.unordered(value, where)
    if isinstance(value, list):
        return "list", walk.each(list.__iter__(value), where)
    if isinstance(value, tuple):
        return "tuple", walk.each(tuple.__iter__(value), where)
    if isinstance(value, BaseException):
        return "exception", walk.each(value.args, where)
    if isinstance(value, str):
        return "str", walk.of(str.__str__(value), where)
    for simple in (bytes, bytearray, int, float, complex):
        if isinstance(value, simple):
            return simple.__name__, simple.__repr__(value)
    return None


def _held(value: Any) -> dict[str, Any]:
    """The attributes of an instance, in ``__dict__`` and in slots."""
    slots: dict[str, Any] = {}
    for made in type(value).__mro__:
        for name, descriptor in vars(made).items():
            if isinstance(descriptor, types.MemberDescriptorType) and name not in (
                "__weakref__",
                "__vectorcalloffset__",
            ):
                try:
                    slots.setdefault(name, descriptor.__get__(value))
                except AttributeError:  # not set
                    continue
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # it has none of its own: a method answers for its function
        own = {}
    return {**dict(sorted(slots.items())), **own}


def _reduced(walk: Walk, value: Any, where: Where) -> Any:
    """An instance as pickle takes it apart, walked: its class, arguments, state and members."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        parts = reduce(value) if reduce else value.__reduce_ex__(4)
        if isinstance(parts, str):
            if _find(str(getattr(value, "__module__", "")), parts) is value and not _is_apps(type(value)):
                return parts
            return walk.report.cannot(where, f"a {type(value).__qualname__} is known by its name only")
        made_by, arguments, state, members, items = (*parts, None, None, None)[:5]
        members, items = list(members or ()), list(items or ())
    except Exception as e:
        return walk.report.cannot(where, f"a {type(value).__qualname__} has no comparable value ({e})")
    if _is_unordered(value) and len(arguments) == 1 and isinstance(arguments[0], (list, tuple)):
        return walk.of(made_by, where), walk.unordered(value, where), walk.of(state, where)
    return (
        walk.of(made_by, where),
        [walk.of(a, where) for a in arguments if a is not type(value)],
        walk.of(state, where),
        walk.each(members, where),
        [(walk.of(k, where), walk.of(v, where)) for k, v in items],
    )


def _is_unordered(value: Any) -> bool:
    return isinstance(value, (set, frozenset))


def _has_own_reduce(made: type) -> bool:
    return any(name in vars(made) for name in ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__"))


def _installed_name(value: Any) -> tuple[str, str] | None:
    """Module and name of a function that is no Python function (of Cython's, a ufunc), where it is found there."""
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(home, str) or not isinstance(name, str) or owner(home) is Owner.APP:
        return None
    return (home, name) if _find(home, name) is value else None


def _compiled(walk: Walk, module: str, where: Where) -> Any:
    """The digest of a module of the app's that is compiled; None when it is no such module."""
    if module == "__main__" or owner(module) is not Owner.APP:
        return None
    try:
        return hashlib.sha256(Path(sys.modules[module].__file__ or "").read_bytes()).hexdigest()
    except (AttributeError, KeyError, OSError):  # made by compiled code that names no module
        return walk.report.cannot(where, f"it is compiled code of {module}, whose file is not known")


def _as_member(value: Any) -> tuple[str, str] | None:
    """Module and name of an instance that a module of Python's or of a package holds (``dataclasses.MISSING``, the
    generator behind ``random.random``): it is there whatever the app does."""
    if value is getattr(random, "_inst", None):
        return "random", "_inst"
    module = sys.modules.get(type(value).__module__)
    if module is None or owner(module.__name__) is Owner.APP:
        return None
    return next(((module.__name__, name) for name, held in list(vars(module).items()) if held is value), None)


def _is_apps(made: type) -> bool:
    """A class counts as Python's or a package's when it is found there: make_dataclass and others lie about it."""
    if _is_compiled(made):
        return False
    return owner(made.__module__) is Owner.APP or _find(made.__module__, made.__qualname__) is not made


def _is_compiled(made: type) -> bool:
    """Whether a class was made by C code, also a heap type: it has methods that are no Python functions."""
    if not made.__flags__ & _HEAP_TYPE or not isinstance(made.__module__, str):
        return True
    own = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
    return any(isinstance(v, own) and v.__objclass__ is made for v in vars(made).values())


def _find(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _note(walk: Walk, module: str, whose: Owner) -> None:
    if whose in (Owner.PACKAGE, Owner.PYTHON):
        walk.report.mentions_module(module, package(module) if whose is Owner.PACKAGE else "")
