"""What a walk over a function finds besides its description: values that cannot be compared, packages, and names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from .order import Ranks

# What can look at more than a function's instructions, by the names a function mentions. Kinds of what then counts:
_LOCALS, _FUNCTIONS, _TEXTS = "names of local variables", "names of functions", "docstrings"
_HINTS = "type hints"
_ORDER = "the order of a class's members"
_MODULES = "names of modules"
_LINES = "lines"  # their numbers, and what stands there: a traceback has both
_SOURCES = "source files"
_SAID = "names in texts"  # of classes, and of variables that may have no value: Python puts them into texts
_GIVEN = "docstrings and type hints of what is handed on"
_ALL = (_LOCALS, _FUNCTIONS, _TEXTS, _HINTS, _ORDER, _LINES, _SAID, _MODULES)
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
    **dict.fromkeys(("f_lineno", "tb_lineno", "co_firstlineno", "co_filename", "co_lines"), (_LINES,)),
    **dict.fromkeys(("co_positions", "co_linetable", "co_lnotab", "catch_warnings"), (_LINES,)),
    **dict.fromkeys(("_getframe", "currentframe", "f_locals", "f_code", "__code__", "f_back"), _ALL),
    **dict.fromkeys(("settrace", "setprofile", "help"), _ALL),
    **dict.fromkeys(
        ("str", "repr", "ascii", "format", "format_map", "args", "substitute", "safe_substitute"), (_SAID,)
    ),
    **dict.fromkeys(("pformat", "pprint", "writerow", "writerows", "astype", "to_string", "__str__"), (_SAID,)),
    **dict.fromkeys(("__repr__", "__format__", "StringIO"), (_SAID,)),
    **dict.fromkeys(
        ("getsource", "getsourcelines", "getcomments", "findsource", "getblock", "get_source"), (_SOURCES,)
    ),
    **dict.fromkeys(("getline", "getlines", "getsourcefile"), (_SOURCES,)),
}
# Where an error of a call may be caught, its text may be read, in which functions are named.
_CATCH = frozenset({"Exception", "BaseException", "TypeError", "exc_info", "suppress", "__exit__"})
_READING_MODULES = frozenset(
    {"inspect", "traceback", "dis", "linecache", "gc", "pydoc", "symtable", "tokenize", "doctest", "trace", "cgitb",
     "pdb", "bdb", "tracemalloc", "pyclbr"}
)  # fmt: skip
# What writes modules and names of classes and functions into its result.
_PICKLING_MODULES = frozenset({"pickle", "_pickle", "pickletools", "shelve", "cloudpickle", "dill", "joblib"})
# Packages that look neither at the docstrings nor at the hints of functions they are given. (attrs reads hints when a
# class is made; what it makes of them is part of the class.)
_READ_NO_TEXTS = frozenset(
    {"attr", "attrs", "dateutil", "numpy", "pandas", "pyarrow", "pytz", "scipy", "six", "typing_extensions"}
)


@attrs.frozen
class Note:
    """holder: the id of the function that it is of, where that one is described on its own; None where it may have been
    handed on to anything (a class, a function that another one makes)"""

    kind: str
    text: str
    holder: int | None = None


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
    noted: list[Note] = attrs.field(factory=list)
    hints: list[tuple[Any, Where, int | None]] = attrs.field(factory=list)
    handed_on: set[int] = attrs.field(factory=set)  # the ids of functions that are more than called
    ranks: Ranks = attrs.field(factory=Ranks)
    ahead: list[int] = attrs.field(factory=lambda: [0])  # how many looks ahead there were
    looks_ahead: bool = False
    _marks: set[str] = attrs.field(factory=set)

    def cannot(self, where: Where, reason: str) -> tuple[str, str]:
        """Note what cannot be compared; returns what describes it."""
        self.unknown.add(f"{where.user} uses {where.name or 'a value'}, which cannot be compared: {reason}")
        return "unknown", reason

    def mentions(self, name: object) -> None:
        if not isinstance(name, str):
            return
        self.reads.update(_READS.get(name, ()))
        if name in _CATCH:
            self._marks.add("catches")
        elif name in ("getattr", "attrgetter", "__getattribute__"):
            self._marks.add("gets by name")

    def mentions_text(self, text: str) -> None:
        """A text that is data: names in it may be looked up (``getattr(f, NAME)``, "{0.__doc__}".format(f))."""
        if "__" not in text:
            return
        for name in re.findall(r"__\w+?__", text):
            self.mentions(name)
        if "__" in re.sub(r"__\w+?__", "", text):  # a part of such a name: getattr(f, PART + "c__")
            self._marks.add("parts of names")

    def mentions_module(self, module: str, package: str) -> None:
        top = module.partition(".")[0]
        if top in _PICKLING_MODULES:
            self.reads.update((_SAID, _MODULES, _FUNCTIONS))
        if package:
            self.packages.add(package)
            self.reads.update((_FUNCTIONS,) if top in _READ_NO_TEXTS else (_FUNCTIONS, _GIVEN))
        elif top in _READING_MODULES:
            self.reads.update(_ALL)
            if top == "linecache":
                self.reads.add(_SOURCES)

    def writes_a_text(self) -> None:
        """Some value is written into a text."""
        self.reads.add(_SAID)

    def note_local(self, name: str) -> None:
        self.noted.append(Note(_LOCALS, name))

    def note_function(self, name: str) -> None:
        self.noted.append(Note(_FUNCTIONS, name))

    def note_module(self, name: object) -> None:
        self.noted.append(Note(_MODULES, str(name)))

    def note_said(self, *names: object) -> None:
        self.noted.append(Note(_SAID, repr(names)))

    def note_text(self, text: object, holder: int | None = None) -> None:
        self.noted.append(Note(_TEXTS, repr(text), holder))

    def note_lines(self, lines: object) -> None:
        self.noted.append(Note(_LINES, repr(lines)))

    def note_source(self, digest: object) -> None:
        self.noted.append(Note(_SOURCES, repr(digest)))

    def note_hint(self, text: str) -> None:
        """A type hint of which only the names that it loads are known."""
        self.noted.append(Note(_HINTS, text))

    def note_hints(
        self, hints: Mapping[str, Any], namespace: Mapping[str, Any], where: Where, holder: int | None = None
    ) -> None:
        """Type hints as objects: what they are made of counts when something may look at them."""
        for name, hint in hints.items():
            self.hints.append((name, where, holder))
            self.hints.append((hint, where.part(f"the hint of {name}"), holder))
            for each in re.findall(r"[^\W\d]\w*", hint) if isinstance(hint, str) else ():
                if each in namespace:
                    self.hints.append((namespace[each], where.part(each), holder))

    def take_hints(self) -> list[tuple[Any, Where]]:
        kinds = self._kinds()
        taken = [hint for hint in self.hints if self._counts(_HINTS, hint[2], kinds)]
        self.hints = [hint for hint in self.hints if not self._counts(_HINTS, hint[2], kinds)]
        return [(hint, where) for hint, where, _ in taken]

    def note_order(self, names: object) -> None:
        self.noted.append(Note(_ORDER, repr(names)))

    def read(self) -> list[tuple[str, str]]:
        """The names that count."""
        kinds = self._kinds()
        return [(note.kind, note.text) for note in self.noted if self._counts(note.kind, note.holder, kinds)]

    def _kinds(self) -> set[str]:
        found = set(self.reads)
        if _SAID in found and "catches" in self._marks:
            found.add(_FUNCTIONS)
        if {"gets by name", "parts of names"} <= self._marks:
            found.update(_ALL)
        return found

    def _counts(self, kind: str, holder: int | None, kinds: set[str]) -> bool:
        if kind in (_TEXTS, _HINTS) and _GIVEN in kinds and (holder is None or holder in self.handed_on):
            return True
        return kind in kinds

    def apart(self) -> Report:
        """One for a look ahead: all but the names go into this one, too."""
        return attrs.evolve(self, noted=[], hints=[], handed_on=set(), looks_ahead=True)
