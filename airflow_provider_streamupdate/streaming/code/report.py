"""What a walk over a function finds besides its description: what it cannot compare, packages, and names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from .order import Ranks

# What can look at more than a function's instructions, by the names a function mentions. Kinds of what then counts:
_LOCALS, _FUNCTIONS, _TEXTS = "names of local variables", "names of functions", "docstrings and lines"
_HINTS = "type hints"
_ORDER = "the order of a class's members"
_MODULES = "names of modules"
_ALL = (_LOCALS, _FUNCTIONS, _TEXTS, _HINTS, _ORDER)
_READS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("locals", "eval", "exec", "query", "co_varnames", "co_names"), (_LOCALS,)),
    **dict.fromkeys(("vars", "dir", "__dict__"), (_LOCALS, _ORDER)),
    **dict.fromkeys(("getattr", "attrgetter"), (_FUNCTIONS,)),  # by a name that may be data
    **dict.fromkeys(("__name__", "__qualname__", "co_name", "co_qualname"), (_FUNCTIONS,)),
    "__module__": (_MODULES,),
    **dict.fromkeys(("__doc__", "getdoc"), (_TEXTS,)),
    **dict.fromkeys(("__annotations__", "get_type_hints", "get_annotations", "fields", "signature"), (_HINTS,)),
    **dict.fromkeys(("__dataclass_fields__", "register", "singledispatch", "singledispatchmethod"), (_HINTS,)),
    **dict.fromkeys(("dataclass", "make_dataclass", "__attrs_attrs__"), (_HINTS,)),
    **dict.fromkeys(("f_lineno", "tb_lineno", "co_firstlineno", "co_filename"), (_TEXTS,)),
    **dict.fromkeys(("_getframe", "currentframe", "f_locals", "f_code", "__code__", "f_back"), _ALL),
}
_READING_MODULES = frozenset({"inspect", "traceback", "dis", "linecache", "gc", "pydoc", "symtable", "tokenize"})
# Packages that look neither at the docstrings nor at the hints of functions they are given. (attrs reads hints when a
# class is made; what it makes of them is part of the class.)
_READ_NO_TEXTS = frozenset(
    {"attr", "attrs", "dateutil", "numpy", "pandas", "pyarrow", "pytz", "scipy", "six", "typing_extensions"}
)


@attrs.frozen
class Where:
    """The function that uses a value, and what the value is called there."""

    user: str = "the function"
    name: str = ""

    def part(self, name: str) -> Where:
        return Where(self.user, f"{self.name}{name}")


@attrs.define
class Report:
    """broadcasts: the values of broadcast variables by their ids. unknown: reasons. reads: the kinds of `noted` that
    count"""

    broadcasts: Mapping[int, Any] = attrs.field(factory=dict)
    unknown: set[str] = attrs.field(factory=set)
    packages: set[str] = attrs.field(factory=set)
    reads: set[str] = attrs.field(factory=set)
    noted: list[tuple[str, str]] = attrs.field(factory=list)
    hints: list[tuple[Any, Where]] = attrs.field(factory=list)
    ranks: Ranks = attrs.field(factory=Ranks)
    ahead: list[int] = attrs.field(factory=lambda: [0])  # how many looks ahead there were
    looks_ahead: bool = False

    def cannot(self, where: Where, reason: str) -> tuple[str, str]:
        """Note what cannot be compared; returns what describes it."""
        self.unknown.add(f"{where.user} uses {where.name or 'a value'}, which cannot be compared: {reason}")
        return "unknown", reason

    def mentions(self, name: object) -> None:
        if isinstance(name, str):
            self.reads.update(_READS.get(name, ()))

    def mentions_module(self, module: str, package: str) -> None:
        top = module.partition(".")[0]
        if package:
            self.packages.add(package)
            self.reads.update((_FUNCTIONS,) if top in _READ_NO_TEXTS else (_FUNCTIONS, _TEXTS, _HINTS))
        elif top in _READING_MODULES:
            self.reads.update(_ALL)

    def note_local(self, name: str) -> None:
        self.noted.append((_LOCALS, name))

    def note_function(self, name: str) -> None:
        self.noted.append((_FUNCTIONS, name))

    def note_module(self, name: object) -> None:
        self.noted.append((_MODULES, str(name)))

    def note_text(self, text: object) -> None:
        self.noted.append((_TEXTS, repr(text)))

    def note_hint(self, text: str) -> None:
        """A type hint of which only the names that it loads are known."""
        self.noted.append((_HINTS, text))

    def note_hints(self, hints: Mapping[str, Any], namespace: Mapping[str, Any], where: Where) -> None:
        """Type hints as objects: what they are made of counts when something may look at them."""
        for name, hint in hints.items():
            self.hints.append((name, where))
            self.hints.append((hint, where.part(f"the hint of {name}")))
            for each in re.findall(r"[^\W\d]\w*", hint) if isinstance(hint, str) else ():
                if each in namespace:
                    self.hints.append((namespace[each], where.part(each)))

    def take_hints(self) -> list[tuple[Any, Where]]:
        if _HINTS not in self.reads:
            return []
        taken = self.hints[:]
        self.hints.clear()
        return taken

    def note_order(self, names: object) -> None:
        self.noted.append((_ORDER, repr(names)))

    def read(self) -> list[tuple[str, str]]:
        """The names that count."""
        return [note for note in self.noted if note[0] in self.reads]

    def apart(self) -> Report:
        """One for a look ahead: all but the names go into this one, too."""
        return attrs.evolve(self, noted=[], hints=[], looks_ahead=True)
