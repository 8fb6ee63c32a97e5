"""A digest of a Python function as Spark pickled it: equal digests compute the same.

What counts: bytecode, constants, defaults, closures, the globals it uses, the classes and methods behind them, all
recursively, and the values they hold. What does not: names of the function, docstrings, line numbers, files. Modules
of the standard library and installed libraries count by name only: their versions are the environment's matter.
Source: cloudpickle pickles what is defined in the app's own file by value and what is imported by reference, so the
pickle alone (SimplePythonFunction.command) does not hold the code of the app's other files; it is loaded and walked.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import pickle
import site
import sys
import sysconfig
import types
from typing import Any

_SIMPLE = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_NOT_CODE = frozenset(
    {"__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__firstlineno__", "__static_attributes__",
     "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__abstractmethods__",
     "_abc_impl", "__parameters__", "__orig_bases__", "__slotnames__", "__hash__", "__match_args__"}
)  # fmt: skip
_LIBRARIES = tuple(
    {sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")} | set(site.getsitepackages())
)


def code_digest(command: bytes) -> str | None:
    """The digest of a pickled function, with the Python version its bytecode belongs to; None when it cannot be told
    (the pickle cannot be loaded here, or refers to something without a comparable value)."""
    from pyspark.serializers import CPickleSerializer

    try:
        function = CPickleSerializer().loads(command)
        described = _Walk().of(function[0] if isinstance(function, tuple) else function)
    except Exception:  # whatever an author's objects raise when they are loaded or pickled: not comparable
        return None
    return hashlib.sha256(repr((sys.version_info[:2], described)).encode()).hexdigest()[:12]


class _Walk:
    """Describes values as nested tuples of texts; what was seen before is referred to by its number."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # an id is only unique while its object lives

    def of(self, value: Any) -> Any:
        if isinstance(value, _SIMPLE):
            return type(value).__name__, repr(value)
        if id(value) in self.seen:
            return "seen", self.seen[id(value)]
        self.seen[id(value)] = len(self.seen)
        self.alive.append(value)
        if isinstance(value, (tuple, list)):
            return type(value).__name__, *map(self.of, value)
        if isinstance(value, (set, frozenset)):
            return "set", *sorted(map(repr, map(_Walk().of, value)))
        if isinstance(value, dict):
            pairs = sorted(value.items(), key=lambda pair: repr(pair[0]))
            return "dict", *((self.of(k), self.of(v)) for k, v in pairs)
        return self._object(value)

    def _object(self, value: Any) -> Any:
        if isinstance(value, types.CodeType):
            return self._code(value, None)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.ModuleType):
            return "module", value.__name__
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.MethodType):
            return "method", self.of(value.__func__), self.of(value.__self__)
        if isinstance(value, (staticmethod, classmethod)):
            return type(value).__name__, self.of(value.__func__)
        if isinstance(value, property):
            return "property", *(self.of(f) for f in (value.fget, value.fset, value.fdel))
        if isinstance(value, functools.partial):
            return "partial", self.of(value.func), self.of(value.args), self.of(value.keywords)
        if isinstance(value, types.CellType):
            return "cell", self.of(value.cell_contents)
        if isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            return "builtin", getattr(value, "__module__", None), value.__qualname__
        if isinstance(value, enum.Enum):
            return "enum", self.of(type(value)), value.name
        if _installed(type(value).__module__) and not type(value).__module__.startswith("pyspark."):
            return "pickled", pickle.dumps(value, protocol=4)
        return "instance", self.of(type(value)), self.of(_held(value))

    def _function(self, value: types.FunctionType) -> Any:
        # pyspark wraps a processor in functions of its own: what they hold is the author's, their code is not.
        code = ("code of", value.__qualname__) if _installed(value.__module__) else self._code(value.__code__, value)
        defaults = self.of(value.__defaults__), self.of(value.__kwdefaults__)
        return "function", code, defaults, *(self.of(c.cell_contents) for c in value.__closure__ or ())

    def _code(self, code: types.CodeType, function: types.FunctionType | None) -> Any:
        constants = code.co_consts
        if function is not None and constants and constants[0] == function.__doc__:
            constants = constants[1:]
        used = sorted(_names(code)) if function is not None else ()
        return (
            "code",
            code.co_code,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags),
            getattr(code, "co_exceptiontable", b""),  # from Python 3.11 on
            *map(self.of, constants),
            *(self._global(function, name, used) for name in used if function is not None),
        )

    def _global(self, function: types.FunctionType, name: str, used: Any) -> Any:
        """A name of the code: a global, an imported module of the author's with the parts that are used, or neither
        (an attribute, a builtin)."""
        value = function.__globals__.get(name, sys.modules.get(name))
        if isinstance(value, types.ModuleType) and not _installed(value.__name__):
            parts = [self.of(vars(value)[part]) for part in used if part in vars(value)]
            return name, "module", *parts
        return (name, self.of(value)) if name in function.__globals__ else (name,)

    def _class(self, value: type) -> Any:
        if _installed(value.__module__):
            return "class", value.__module__, value.__qualname__
        members = sorted((k, v) for k, v in vars(value).items() if k not in _NOT_CODE and not _slot(v))
        bases = [self.of(base) for base in value.__bases__]
        return "class", tuple(bases), *((name, self.of(member)) for name, member in members)


def _held(value: Any) -> dict[str, Any]:
    """The attributes of an instance, in ``__dict__`` and in slots."""
    slots = [s for c in type(value).__mro__ for s in _as_tuple(vars(c).get("__slots__", ()))]
    return {**{s: getattr(value, s) for s in slots if hasattr(value, s)}, **getattr(value, "__dict__", {})}


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _slot(value: Any) -> bool:
    return isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))


def _names(code: types.CodeType) -> set[str]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


@functools.cache
def _installed(module: str | None) -> bool:
    """Whether a module belongs to Python or to an installed library, and not to the app."""
    top = (module or "__main__").split(".")[0]
    if top == "__main__":
        return False
    if top in sys.builtin_module_names or top in ("pyspark", "py4j", "airflow_provider_streamupdate"):
        return True
    found = sys.modules.get(top)
    path = getattr(found, "__file__", None)
    if found is None or path is None:
        return found is not None and top in sys.stdlib_module_names
    return str(path).startswith(_LIBRARIES)
