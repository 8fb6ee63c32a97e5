"""What code can reach or look at besides what it names, and what else a walk finds: packages, values that cannot be
compared. Objects are judged by their owner: a name's spelling says nothing."""

from __future__ import annotations

import enum
import re
import sys
import types
from collections.abc import Mapping
from typing import Any

import attrs

from .owner import Owner, owner, package


class Level(enum.IntEnum):
    """What of the app's modules counts, besides what is reached by its name."""

    NONE = 0
    TREES = 1  # all that they compute: names are data
    TEXTS = 2  # all that is written in them: lines, docstrings, hints, comments


_OF_MODULES = {
    **dict.fromkeys(
        ("importlib", "pkgutil", "runpy", "imp", "pickle", "_pickle", "marshal", "shelve", "cloudpickle", "dill",
         "joblib", "code", "codeop", "zipimport", "ctypes"), Level.TREES),
    **dict.fromkeys(
        ("inspect", "traceback", "dis", "linecache", "gc", "pickletools", "pydoc", "symtable", "tokenize", "doctest",
         "trace", "cgitb", "pdb", "bdb", "tracemalloc", "pyclbr"), Level.TEXTS),
}  # fmt: skip
_OF_OBJECTS = {
    **dict.fromkeys((f"builtins.{name}" for name in ("eval", "exec", "compile", "globals", "locals")), Level.TREES),
    **dict.fromkeys(("builtins.vars", "builtins.dir", "builtins.__import__"), Level.TREES),
    **dict.fromkeys(("pandas.core.computation.eval.eval", "pandas.eval", "sys.modules"), Level.TREES),
    **dict.fromkeys((f"sys.{name}" for name in ("_getframe", "exc_info", "settrace", "setprofile")), Level.TEXTS),
    **dict.fromkeys(
        ("builtins.breakpoint", "builtins.help", "_sitebuiltins._Helper", "sys._current_frames"), Level.TEXTS
    ),
    **dict.fromkeys(("warnings.catch_warnings", "typing.get_type_hints"), Level.TEXTS),
}
# Names that Python has reserved: attributes of functions, frames and tracebacks.
_OF_ATTRIBUTES = {
    **dict.fromkeys(("__subclasses__", "__import__", "__loader__", "__spec__"), Level.TREES),
    **dict.fromkeys(
        ("__code__", "__globals__", "__closure__", "__builtins__", "__annotations__", "__doc__", "tb_frame",
         "tb_lineno", "f_back", "f_builtins", "f_code", "f_globals", "f_lineno", "f_locals", "gi_code", "gi_frame",
         "cr_code", "cr_frame", "ag_code", "ag_frame"), Level.TEXTS),
}  # fmt: skip
_GET_BY_NAME = ("builtins.getattr", "operator.attrgetter")
_DUNDER = re.compile(r"__\w+?__")
_VARIABLE = re.compile(r"(?<![\w.])@[^\W\d]")  # in a query of pandas: "amount > @LIMIT"
# Packages that look neither at the docstrings nor at the hints of functions they are given. (attrs reads hints when a
# class is made; what it makes of them is part of the class.)
_READ_NO_TEXTS = frozenset(
    {"attr", "attrs", "dateutil", "numpy", "pandas", "pyarrow", "pytz", "scipy", "six", "typing_extensions"}
)
_TASK_CONTEXTS = ("TaskContext", "BarrierTaskContext")


@attrs.define
class Report:
    broadcasts: Mapping[int, Any] = attrs.field(factory=dict)  # the values of broadcast variables by their ids
    unknown: set[str] = attrs.field(factory=set)  # reasons
    packages: set[str] = attrs.field(factory=set)
    is_read: bool = False  # by a package that may look at docstrings and hints
    _level: Level = Level.NONE
    _gets_by_name: bool = False
    _has_part_of_name: bool = False
    _notes: list[tuple[Level, str]] = attrs.field(factory=list)
    _docs: list[str] = attrs.field(factory=list)

    @property
    def level(self) -> Level:
        both = self._gets_by_name and self._has_part_of_name  # getattr(f, PART + "c__")
        return Level.TEXTS if both else self._level

    def raise_to(self, level: Level) -> None:
        self._level = max(self._level, level)

    def cannot(self, reason: str) -> tuple[str, str]:
        """Note what cannot be compared; returns what describes it."""
        self.unknown.add(reason)
        return "unknown", reason

    def uses(self, module: str, value: Any = None) -> None:
        """A module that is not the app's, which may not be loaded, or an object of it."""
        if owner(module) is Owner.PACKAGE:
            self.packages.add(package(module))
            self.is_read |= module.partition(".")[0] not in _READ_NO_TEXTS
        if not module.startswith(("importlib.metadata", "importlib.resources")):
            self.raise_to(_OF_MODULES.get(module.partition(".")[0], Level.NONE))
        if value is not None and not isinstance(value, types.ModuleType):
            is_named = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType))
            named = value if is_named else type(value)
            home, name = str(getattr(named, "__module__", None)), str(getattr(named, "__name__", None))
            self.raise_to(max(_OF_MODULES.get(home, Level.NONE), _OF_OBJECTS.get(f"{home}.{name}", Level.NONE)))
            self._gets_by_name |= f"{home}.{name}" in _GET_BY_NAME
            if owner(home) is Owner.PLATFORM:
                self._uses_task_context(name)
        if value is sys.modules:
            self.raise_to(Level.TREES)

    def uses_path(self, module: str, attributes: tuple[str, ...]) -> None:
        """What attributes lead to in a module that is not the app's; whether it is loaded is chance."""
        self.uses(module)
        for name in attributes:
            module = f"{module}.{name}"
            self.raise_to(max(_OF_OBJECTS.get(module, Level.NONE), _OF_MODULES.get(module, Level.NONE)))
            self._gets_by_name |= module in _GET_BY_NAME
            self._uses_task_context(name)

    def _uses_task_context(self, name: str) -> None:
        if name in _TASK_CONTEXTS:
            self.cannot(f"{name} is used, which tells how rows are shared out among tasks")

    def mentions(self, text: str) -> None:
        """The name of an attribute, or a text that may be one or hold some: "{0.__doc__}".format(f)"""
        self._uses_task_context(text)
        self._gets_by_name |= text == "__getattribute__"
        if "@" in text and _VARIABLE.search(text):
            self.raise_to(Level.TREES)
        for name in (text, *(_DUNDER.findall(text) if "__" in text else ())):
            self.raise_to(_OF_ATTRIBUTES.get(name, Level.NONE))
        self._has_part_of_name |= "__" in text and "__" in _DUNDER.sub("", text)

    def note(self, level: Level, *texts: object) -> None:
        """What counts from a level on."""
        self._notes.append((level, repr(texts)))

    def note_docs(self, *texts: object) -> None:
        """Docstrings and hints."""
        self._docs.append(repr(texts))

    def noted(self) -> list[str]:
        docs = self._docs if self.is_read or self.level == Level.TEXTS else []
        return sorted([*docs, *(text for least, text in self._notes if least <= self.level)])
