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

from .listing import names_in
from .owner import Owner, owner, package


class Level(enum.IntEnum):
    """The part of the app's modules that counts, besides what is reached by its name."""

    NONE = 0
    TREES = 1  # all that they compute: names are data
    TEXTS = 2  # all that is written in them: lines, docstrings, hints, comments


def _names(level: Level, module: str, names: str) -> dict[str, Level]:
    return {f"{module}{name}": level for name in names.split()}


_LEVELS = {  # of modules and of objects in them
    **_names(Level.TREES, "", "importlib pkgutil runpy imp pickle _pickle marshal shelve cloudpickle dill joblib code"),
    **_names(Level.TREES, "", "codeop zipimport ctypes sys.modules pandas.eval pandas.core.computation.eval.eval"),
    **_names(Level.TREES, "builtins.", "eval exec compile globals locals vars dir __import__"),
    **_names(Level.TEXTS, "", "inspect traceback dis linecache gc pickletools pydoc symtable tokenize doctest trace"),
    **_names(Level.TEXTS, "", "cgitb pdb bdb tracemalloc pyclbr typing.get_type_hints"),
    **_names(Level.TEXTS, "sys.", "_getframe settrace setprofile _current_frames"),
    **_names(Level.TEXTS, "", "builtins.breakpoint builtins.help _sitebuiltins._Helper"),
}
_RESERVED = {  # names of attributes of functions, classes, frames and tracebacks
    **_names(Level.TREES, "", "__subclasses__ __import__ __loader__ __spec__"),
    **_names(Level.TEXTS, "__", "code__ globals__ closure__ builtins__ annotations__ doc__"),
    **_names(Level.TEXTS, "", "tb_frame tb_lineno f_back f_builtins f_code f_globals f_lineno f_locals"),
    **_names(Level.TEXTS, "", "gi_code gi_frame cr_code cr_frame ag_code ag_frame"),
}
_HARMLESS = ("importlib.metadata", "importlib.resources")
_GET_BY_NAME = ("builtins.getattr", "operator.attrgetter", "__getattribute__")
# Warnings that are recorded tell the lines that they come from; whoever only ignores them sees none.
_CATCHES, _RECORDS = "warnings.catch_warnings", "record"
_TASK_CONTEXTS = ("TaskContext", "BarrierTaskContext")
_DUNDER = re.compile(r"__\w+?__")
_VARIABLE = re.compile(r"(?<![\w.])@[^\W\d]")  # in a query of pandas: "amount > @LIMIT"
# Packages that look neither at the docstrings nor at the hints of functions they are given. (attrs reads hints when a
# class is made; what it makes of them is part of the class.)
_READ_NO_TEXTS = names_in("attr attrs dateutil numpy pandas pyarrow pytz scipy six typing_extensions")


@attrs.define
class Report:
    broadcasts: Mapping[int, Any] = attrs.field(factory=dict)  # the values of broadcast variables by their ids
    unknown: set[str] = attrs.field(factory=set)  # reasons
    packages: set[str] = attrs.field(factory=set)
    is_read: bool = False  # by a package that may look at docstrings and hints
    _level: Level = Level.NONE
    _gets_by_name: bool = False
    _has_part_of_name: bool = False
    _catches_warnings: bool = False
    _records: bool = False
    _in_order: bool = False
    _notes: list[tuple[Level, str]] = attrs.field(factory=list)
    _docs: list[str] = attrs.field(factory=list)

    @property
    def level(self) -> Level:
        by_part = self._gets_by_name and self._has_part_of_name  # getattr(f, PART + "c__")
        return Level.TEXTS if by_part or (self._catches_warnings and self._records) else self._level

    @property
    def looks_at_order(self) -> bool:
        """Return whether it can see in which order a module's names were made: a registry of its functions."""
        return self._in_order or self.level != Level.NONE

    def cannot(self, reason: str) -> tuple[str, str]:
        """Note what cannot be compared; returns what describes it."""
        self.unknown.add(reason)
        return "unknown", reason

    def uses(self, module: str, value: Any = None) -> None:
        """Note a module that is not the app's, which may not be loaded, or an object of it."""
        top = module.partition(".")[0]
        if owner(module) is Owner.PACKAGE:
            self.packages.add(package(module))
            self.is_read |= top not in _READ_NO_TEXTS
        self._sees("sys.modules" if value is sys.modules else module if module.startswith(_HARMLESS) else top)
        if value is not None and not isinstance(value, types.ModuleType):
            named = value if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) else type(value)
            home = str(getattr(named, "__module__", None))
            self._sees(home)
            self._sees(f"{home}.{getattr(named, '__name__', None)}")

    def uses_path(self, module: str, attributes: tuple[str, ...]) -> None:
        """Note attributes of a module that is not the app's. Whether it is loaded is chance."""
        self.uses(module)
        for name in attributes:
            module = f"{module}.{name}"
            self._sees(module)

    def mentions(self, text: str) -> None:
        """Note the name of an attribute, or a text that may be one or hold some: "{0.__doc__}".format(f)"""
        for name in (text, *(_DUNDER.findall(text) if "__" in text else ())):
            self._sees(name, _RESERVED)
        if "@" in text and _VARIABLE.search(text):
            self._level = max(self._level, Level.TREES)
        self._records |= text == _RECORDS
        self._in_order |= text == "__dict__"
        self._has_part_of_name |= "__" in text and "__" in _DUNDER.sub("", text)

    def _sees(self, name: str, levels: Mapping[str, Level] = _LEVELS) -> None:
        self._level = max(self._level, levels.get(name, Level.NONE))
        self._gets_by_name |= name in _GET_BY_NAME
        self._catches_warnings |= name == _CATCHES
        if name.rpartition(".")[2] in _TASK_CONTEXTS:
            self.cannot(f"{name} is used, which tells how rows are shared out among tasks")

    def note(self, level: Level, *texts: object) -> None:
        """Note what counts from a level on."""
        self._notes.append((level, repr(texts)))

    def note_docs(self, *texts: object) -> None:
        """Note docstrings and hints, which packages may read."""
        self._docs.append(repr(texts))

    def noted(self) -> list[str]:
        docs = self._docs if self.is_read or self.level == Level.TEXTS else []
        return sorted([*docs, *(text for least, text in self._notes if least <= self.level)])
