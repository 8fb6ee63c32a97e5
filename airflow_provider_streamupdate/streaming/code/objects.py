"""What is met on a walk, by its type: containers, functions, classes, and instances by their type and state."""

from __future__ import annotations

import abc
import contextlib
import copyreg
import dataclasses
import enum
import functools
import operator
import os
import random
import sys
import types
import typing
import weakref
from pathlib import PurePath
from typing import Any

from ..parameters import Parameters
from .functions import describe_function, describe_module, is_app_module, source_file
from .listing import names_in
from .owner import MAIN, Owner, owner
from .report import Level
from .spark import describe_spark
from .walk import Variable, Walk

_DESCRIPTORS = (
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType),
)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
# What counts of types whose state is not what pickle takes.
_PARTS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.partial: ("func", "args", "keywords", "__dict__"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.singledispatchmethod: ("dispatcher", "func"),  # Python 3.13 keeps a cache in it
    functools.cached_property: ("func", "attrname"),
    types.MethodType: ("__func__", "__self__"),
    typing.ForwardRef: ("__forward_arg__",),
    typing.TypeVar: ("__name__", "__bound__", "__constraints__"),
    typing.NewType: ("__name__", "__supertype__"),
    dataclasses.Field: (
        *("name", "type", "default", "default_factory", "init", "repr", "hash", "compare", "metadata", "kw_only"),
    ),
}
_OF_WRAPPERS = frozenset({*functools.WRAPPER_ASSIGNMENTS, "__wrapped__", "func", "args", "keywords"})
_CONTENT = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float, complex, BaseException)
_NOT_HELD = ("__weakref__", "__vectorcalloffset__")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, or by a newer C module


# Members that Python makes and that compute nothing: where they are kept, caches, texts, hints. (What hints do to a
# dataclass, a NamedTuple or a class of attrs is in members of its own.)
_NOT_CODE = names_in(
    "__module__ __doc__ __dict__ __weakref__ __qualname__ __firstlineno__ __static_attributes__ __annotations__ "
    "__annotate__ __annotate_func__ __annotations_cache__ __abstractmethods__ _abc_impl __parameters__ __slotnames__ "
    "_abc_registry"
)
_OF_ENUMS = names_in(
    "_member_names_ _member_map_ _value2member_map_ _unhashable_values_ _hashable_values_ _unhashable_values_map_ "
    "_member_type_ _value_repr_ _new_member_ _use_args_ __new_member__"
)
_NOT_OF_MEMBERS = ("__objclass__", "_sort_order_", "_name_")


def describe_object(walk: Walk, value: Any) -> Any:
    kind = type(value)
    if kind is Variable:
        return "variable"
    if kind is list:
        return "list", walk.sequence(value)
    if kind in (set, weakref.WeakSet):
        return kind.__name__, walk.unordered(value)
    if kind in (dict, types.MappingProxyType, Parameters):
        return "dict", _items(walk, value)
    if kind in _VIEWS:
        return kind.__name__, walk.sequence(value)
    if kind is types.CellType:
        with contextlib.suppress(ValueError):
            return "cell", walk.of(value.cell_contents)
        return "an empty cell"
    if kind is types.FunctionType:
        return _function(walk, value)
    if isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
        return _builtin(walk, value)
    if isinstance(value, _DESCRIPTORS):
        return "descriptor", walk.of(value.__objclass__), value.__name__
    if is_app_module(value):
        return describe_module(walk, value)
    if isinstance(value, types.ModuleType):
        walk.report.uses(value.__name__, value)
        return "module", value.__name__
    if isinstance(value, type) and kind is not types.GenericAlias:  # list[int] says it is a class
        return _class(walk, value)
    return _instance(walk, value)


def _items(walk: Walk, value: Any) -> Any:
    """Describe items in their order, which decides what a loop over them gives."""
    items = dict.items(value) if isinstance(value, dict) else value.items()
    return [(walk.of(k), walk.of(v)) for k, v in list(items)]


def _function(walk: Walk, value: types.FunctionType) -> Any:
    """Whose a function is tells where its code was compiled: a decorator's wrapper bears the author's names."""
    home = value.__globals__.get("__name__") or "__main__"
    whose = owner(home)
    if whose is Owner.APP:
        return describe_function(walk, value)
    walk.report.uses(home, value)
    if _find(home, value.__qualname__) is value:
        return "function", home, value.__qualname__
    if hasattr(value, "registry") and hasattr(value, "dispatch") and home == "functools":
        return "singledispatch", walk.of(value.registry)
    # A function inside one of Python's or of a package: what it holds is the author's, its code is not.
    code = value.__code__
    known = (code.co_code, code.co_names) if whose is not Owner.PLATFORM else ()
    return (
        "function inside",
        home,
        code.co_name,
        known,
        [walk.of(cell) for cell in value.__closure__ or ()],
        walk.of(value.__defaults__),
        walk.of(value.__kwdefaults__),
        walk.named(value.__dict__.items()),
    )


def _builtin(walk: Walk, value: Any) -> Any:
    holder = value.__self__
    if holder is None or isinstance(holder, types.ModuleType):
        home = value.__module__ or getattr(holder, "__name__", "builtins")
        _uses(walk, home, value)
        return "builtin", home, value.__qualname__
    return "builtin of", value.__name__, walk.of(holder)


def _uses(walk: Walk, module: str, value: Any) -> None:
    """Something that is known by its name, also of a module of the app's that is compiled."""
    walk.report.uses(module, value)
    if owner(module) is Owner.APP:
        walk.members.add((module, ""))


def _class(walk: Walk, value: type) -> Any:
    if not _is_apps(value):
        home = value.__module__ if isinstance(value.__module__, str) else "builtins"  # some C types hide theirs
        _uses(walk, home, value)
        return "class", home, value.__qualname__
    return _class_of_app(walk, value)


def _class_of_app(walk: Walk, made: type) -> Any:
    """Bases, metaclass and members, those that decorators and metaclasses made included."""
    slots = (types.MemberDescriptorType, types.GetSetDescriptorType)
    members = {k: v for k, v in sorted(vars(made).items()) if k not in _NOT_CODE and not isinstance(v, slots)}
    top = made.__qualname__.partition(".")[0]
    if made.__module__ not in MAIN and hasattr(sys.modules.get(made.__module__), top):
        walk.imported.add(made.__module__)
        walk.members.add((made.__module__, top))
    walk.report.note_docs(made.__doc__)
    walk.report.note(Level.TEXTS, source_file(getattr(sys.modules.get(made.__module__), "__file__", None)))
    own: Any = made.__members__.items() if isinstance(made, enum.EnumMeta) else ()
    if own:
        members = {k: v for k, v in members.items() if k not in _OF_ENUMS and k not in dict(own)}
    # the classes that an abstract base class was told to take for its own
    registered = abc._get_dump(made)[0] if isinstance(made, abc.ABCMeta) else ()  # type: ignore[attr-defined]
    return (
        "class",
        (made.__module__, made.__qualname__),
        walk.sequence(made.__bases__),
        walk.of(type(made)),
        walk.named(members.items()),
        [(name, walk.named((k, v) for k, v in vars(m).items() if k not in _NOT_OF_MEMBERS)) for name, m in own],
        walk.unordered(each for reference in registered if (each := reference()) is not None),
        walk.named(sorted(vars(made).get("__annotations__", {}).items())),
    )


def _instance(walk: Walk, value: Any) -> Any:
    kind = type(value)
    if (described := _special(walk, value)) is not None:
        own = {} if isinstance(value, PurePath) or not _is_apps(kind) else _held(value)  # a path keeps caches
        held = walk.named((name, v) for name, v in own.items() if name not in _OF_WRAPPERS)
        return described, walk.of(kind), held
    if (described := describe_spark(walk, value)) is not None:
        return described
    if name := _installed_name(value):
        walk.report.uses(name[0])
        return "of a module", *name
    if not _is_apps(kind):
        return "instance", walk.of(kind), _reduced(walk, value)
    others = [c for c in kind.__mro__ if c not in _CONTENT and c is not object and not _is_apps(c)]
    return (
        "instance",
        walk.of(kind),
        _content(walk, value),
        walk.named(_held(value).items()),
        _reduced(walk, value) if any(_is_compiled(c) or _has_own_reduce(c) for c in others) else None,
    )


def _special(walk: Walk, value: Any) -> Any:
    """Types whose state is not what pickle would take."""
    if isinstance(value, PurePath):
        return "path", walk.of(str(value))
    for made, parts in _PARTS.items():
        if isinstance(value, made):
            kind = getattr(getattr(value, "_field_type", None), "name", None)  # of a dataclass's field
            return made.__name__, kind, [walk.of(getattr(value, part, None)) for part in parts]
    if isinstance(value, functools._lru_cache_wrapper):
        parameters = sorted(value.cache_parameters().items()) if hasattr(value, "cache_parameters") else []
        held = {k: v for k, v in vars(value).items() if k not in ("cache_parameters", *_OF_WRAPPERS)}
        return "cache", walk.of(value.__wrapped__), parameters, walk.named(held.items())
    if isinstance(value, enum.Enum) and type(value).__members__.get(value.name or "") is value:
        return "enum", value.name
    if isinstance(value, operator.attrgetter):
        walk.report.uses("operator", operator.attrgetter)
    if type(value) is type(os.environ):  # what is in it is data
        return "environment variables"
    return None


def _content(walk: Walk, value: Any) -> Any:
    """Describe what an instance of a subclass of a built-in type holds as that type."""
    if isinstance(value, dict):
        return _items(walk, value)
    if isinstance(value, (set, frozenset)):
        return walk.unordered(value)
    if isinstance(value, (list, tuple)):
        return walk.sequence(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value))
    if isinstance(value, BaseException):
        return walk.sequence(value.args)
    if isinstance(value, str):
        return walk.of(str.__str__(value))
    for simple in (bytes, bytearray, int, float, complex):
        if isinstance(value, simple):
            return simple.__name__, simple.__repr__(value)
    return None


def _held(value: Any) -> dict[str, Any]:
    """The attributes of an instance, in ``__dict__`` and in slots."""
    slots: dict[str, Any] = {}
    for made in type(value).__mro__:
        for name, descriptor in vars(made).items():
            if isinstance(descriptor, types.MemberDescriptorType) and name not in _NOT_HELD:
                with contextlib.suppress(AttributeError):  # it is not set
                    slots.setdefault(name, descriptor.__get__(value))
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # it has none of its own: a method answers for its function
        own = {}
    return {**dict(sorted(slots.items())), **own}


def _reduced(walk: Walk, value: Any) -> Any:
    """An instance as pickle takes it apart, walked: its class, arguments, state and members."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        parts = reduce(value) if reduce else value.__reduce_ex__(4)
        if isinstance(parts, str):
            if _find(str(getattr(value, "__module__", "")), parts) is value and not _is_apps(type(value)):
                return parts
            _uses(walk, str(getattr(value, "__module__", "")), value)  # of a compiled module of the app's
            return "known by its name", type(value).__qualname__, parts
        made_by, arguments, state, members, items = (*parts, None, None, None)[:5]
        members, items = list(members or ()), list(items or ())
    except Exception:  # so that no pickle has brought it: a module makes it, whose text counts
        return "cannot be pickled"
    if isinstance(value, (set, frozenset)) and len(arguments) == 1 and isinstance(arguments[0], (list, tuple)):
        return walk.of(made_by), walk.unordered(value), walk.of(state)
    return (
        walk.of(made_by),
        [walk.of(a) for a in arguments if a is not type(value)],
        walk.of(state),
        walk.sequence(members),
        [(walk.of(k), walk.of(v)) for k, v in items],
    )


def _has_own_reduce(made: type) -> bool:
    return any(name in vars(made) for name in ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__"))


def _installed_name(value: Any) -> tuple[str, str] | None:
    """Module and name of what a module of Python's or of a package holds, whatever the app does: a function that is no
    Python function (of Cython's, a ufunc), ``dataclasses.MISSING``, the generator behind ``random.random``."""
    if value is getattr(random, "_inst", None):
        return "random", "_inst"
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(home, str) and isinstance(name, str) and owner(home) is not Owner.APP and _find(home, name) is value:
        return home, name
    module = sys.modules.get(type(value).__module__)
    held = list(vars(module).items()) if module is not None and not is_app_module(module) else []
    return next(((type(value).__module__, name) for name, each in held if each is value), None)


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
