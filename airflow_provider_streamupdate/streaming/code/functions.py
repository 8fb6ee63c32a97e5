"""Functions: their instructions with all that the names in them stand for."""

from __future__ import annotations

import builtins
import importlib
import os
import re
import sys
import types
from collections.abc import Iterable
from typing import Any

from .listing.bytecode import Import, Listing, Path, Step, Variable, read
from .listing.surroundings import (
    constant_argument,
    constant_text,
    expects_no_module,
    first_constant,
    next_value,
    writes_a_text,
)
from .listing.texts import lines_of, source_file
from .listing.unbound import unbound
from .modules import MADE_BY_PYTHON, Effect, effects, import_module, member, set_since, source_of
from .on_import.source import absolute, function_as_written, is_there, made
from .owner import Owner, found, owner, package
from .report import Where
from .spark import TASK_CONTEXTS, TELLS_PARTITIONS
from .walk import Walk

# What reaches the global variables of the code that uses it, by names that are data.
_READ_GLOBALS = frozenset(
    {"eval", "exec", "globals", "compile", "query", "f_globals", "__globals__", "getmodule", "__module__"}
)
_TAKE_TEXTS = frozenset({"eval", "exec", "query"})
_FRAMES = frozenset({"f_back", "stack", "getouterframes", "getinnerframes"})
# What loads code from places that are data. With a constant name, import_module is followed.
_IMPORTS = frozenset({"import_module", "__import__"})
_LOADS_CODE = frozenset(
    {"spec_from_file_location", "spec_from_loader", "run_path", "run_module", "SourceFileLoader", "exec_module",
     "load_module", "load_source", "resolve_name", "locate"}
)  # fmt: skip
_LISTS_MODULES = frozenset({"iter_modules", "walk_packages"})


def describe_function(walk: Walk, function: types.FunctionType, where: Where) -> Any:
    """A function of the app's: its names and docstring do not count unless something looks at them."""
    if function.__code__.co_filename.startswith("<attrs generated") and function.__name__ == "__hash__":
        # It is salted with another number in each process; the fields it takes are those it names.
        return "hash of attrs", function.__code__.co_names
    listing = read(function.__code__)
    user = Where(f"function {function.__qualname__} in {os.path.basename(function.__code__.co_filename)}")
    cells = dict(zip(listing.free, function.__closure__ or (), strict=True))
    body = _Body(walk, function.__globals__, user, listing, cells)
    described = body.code(listing, id(function))
    walk.report.note_function(function.__qualname__)
    walk.report.note_module(function.__module__)
    walk.report.note_text(function.__doc__, id(function))
    walk.report.note_hints(function.__annotations__, function.__globals__, user, id(function))
    closure = [
        walk.of(cell, user.part(variable.name))
        for variable, cell in sorted(cells.items(), key=lambda pair: body.number(pair[0]))
        if variable not in body.modules
    ]
    given = sorted((function.__kwdefaults__ or {}).items())
    own = function.__globals__.get("__builtins__", builtins)
    if own is not builtins and own is not vars(builtins) and not _is_of_named_tuple(function):
        walk.report.cannot(user.part("__builtins__"), "they are not Python's own")
    return (
        "function",
        described,
        closure,
        walk.of(function.__defaults__, user.part("a default")),
        [(name, walk.of(value, user.part(f"the default of {name}"))) for name, value in given],
        [(name, walk.of(value, where.part(f".{name}"))) for name, value in function.__dict__.items()],
        imported(walk, function.__globals__),
        function_as_written(function),
    )


def _is_of_named_tuple(function: types.FunctionType) -> bool:
    """The ``__new__`` that collections.namedtuple makes: it has a namespace without builtins, and uses none."""
    held = {k: v for k, v in function.__globals__.items() if k != "__name__"}
    return function.__code__.co_names == ("_tuple_new",) and held == {"_tuple_new": tuple.__new__, "__builtins__": {}}


def describe_effects(walk: Walk, effect: Effect) -> Any:
    """What a module does when it is imported, besides giving values to names."""
    for name in effect.packages:
        if owner(name) is Owner.PACKAGE:
            walk.report.packages.add(package(name))
    if effect.code is None:
        return "on import", effect.text
    listing = read(effect.code)
    namespace, where = vars(sys.modules[effect.module]), Where(f"module {effect.module}")
    return "on import", _Body(walk, namespace, where, listing, {}).code(listing), effect.text


def imported(walk: Walk, namespace: dict[str, Any]) -> list[Any]:
    """What happens when the module is imported that a function or a class is loaded from."""
    name = namespace.get("__name__")
    return [walk.of(e, Where(f"module {name}")) for e in effects(walk, name)] if isinstance(name, str) else []


class _Body:
    """The code of one function, with the functions inside it."""

    def __init__(
        self,
        walk: Walk,
        namespace: dict[str, Any],
        user: Where,
        listing: Listing,
        cells: dict[Variable, types.CellType],
    ) -> None:
        self.walk = walk
        self.namespace = namespace
        self.user = user
        self.sources = listing.sources
        self.modules = {v: held for v, cell in cells.items() if _is_app_module(held := _content(cell))}
        self._numbers: dict[Variable, int] = {}
        self._listings = 0

    def number(self, variable: Variable) -> int:
        return self._numbers.setdefault(variable, len(self._numbers))

    def code(self, listing: Listing, holder: int | None = None) -> Any:
        """holder: the id of the function whose code it is; None for one that this one makes"""
        code, report = listing.code, self.walk.report
        for variable in listing.arguments:
            self.number(variable)
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            report.note_local(name)
        report.note_function(code.co_name)
        # a docstring, when it is one: the first constant of a comprehension is code, and code is told by its address
        first = code.co_consts[0] if code.co_consts and isinstance(code.co_consts[0], str) else None
        report.note_text(first, holder)
        report.note_lines(lines_of(code))
        report.note_source(source_file(code.co_filename))
        report.note_said(*unbound(listing))
        if any(step.op == "LOAD_BUILD_CLASS" for step in listing.steps):
            report.note_said(self.namespace.get("__name__"), getattr(code, "co_qualname", code.co_name))
        if any(writes_a_text(listing, index) for index in range(len(listing.steps))):
            report.writes_a_text()
        own = {step.value for step in listing.steps if step.op == "STORE_NAME"}
        steps = [self._step(listing, index, step, own) for index, step in enumerate(listing.steps)]
        arguments = [variable.name for variable in listing.arguments]
        return "code", arguments, listing.shape, [s for s in steps if s is not None], listing.handlers

    def _step(self, listing: Listing, index: int, step: Step, own: set[Any]) -> Any:
        report = self.walk.report
        kind, value, op = step.kind, step.value, step.op
        if kind == "hint":
            report.note_text(value)
            report.note_hint(repr(value))
            return None
        if kind == "function name":
            report.note_function(value)
            return None
        if kind == "code":
            return op, self.code(value)
        if kind == "constant":
            report.mentions(value)
            if value == "__subclasses__":
                return report.cannot(self.user.part("__subclasses__"), "which classes there are is not known")
            if isinstance(value, str) and value in _IMPORTS | TASK_CONTEXTS:
                return report.cannot(self.user.part(value), "its name is a value")
            return op, self.walk.of(value, self.user.part("a constant"))
        if kind == "variable":
            return op, self.number(value), self._held(step), self._dynamic(listing, index)
        if kind == "global":
            name = self._name_of(step)
            report.mentions(name)
            return op, self._global(step, own), self._dynamic(listing, index), self._by_name(listing, index, name)
        if kind == "name":
            report.mentions(value)
            return op, value, self._dynamic(listing, index), self._by_name(listing, index, value)
        if kind in ("import", "imported"):
            return op, self._import(listing, index, step)
        return op, kind, value

    def _held(self, step: Step) -> Any:
        """The modules that a local variable may hold, in what is used of them."""
        if not step.op.startswith("LOAD_"):
            return []
        used = [self._path(path, step.attributes) for path in self.sources.get(step.value, ())]
        if step.value in self.modules:
            used.append(self._reach(self.modules[step.value], step.attributes, self.user.part(step.value.name)))
        return used

    def _global(self, step: Step, own: set[Any]) -> Any:
        name, where = step.value, self.user.part(step.value)
        number = self.walk.variable(self.namespace, name)
        if not step.op.startswith("LOAD_"):
            return number
        known = name if name in own else None  # a class body's own name may come first
        if name in self.namespace:
            module = str(self.namespace.get("__name__"))
            by_name = vars(sys.modules[module]) is self.namespace if module in sys.modules else False
            if by_name and (reason := set_since(module, name, self.namespace[name])):
                self.walk.report.cannot(where, reason)
            held = self.namespace[name]
            if held is importlib.import_module:
                return known, number, "import_module"  # followed where it is called
            return (
                known,
                number,
                source_of(module, name, held) if by_name else None,
                self._reach(held, step.attributes, where, step.is_called),
            )
        self.walk.report.mentions(name)
        home = str(self.namespace.get("__name__"))  # the driver may have deleted it
        written = made(home, name, None) if vars(sys.modules.get(home, sys)) is self.namespace else None
        return known, "builtin" if hasattr(builtins, name) else "missing", name, written or None

    def _name_of(self, step: Step) -> Any:
        """What a global variable is called where it is defined: ``from inspect import getmodule as home``."""
        held = self.namespace.get(step.value)
        if (
            isinstance(held, (types.FunctionType, types.BuiltinFunctionType))
            and owner(held.__module__) is not Owner.APP
        ):
            return held.__name__
        return step.value

    def _by_name(self, listing: Listing, index: int, name: Any) -> Any:
        """The global variables that are reached by names that are data: those in a text that stands there, or all."""
        if name in _FRAMES and "f_globals" in listing.code.co_names:
            return self.walk.report.cannot(self.user.part("f_globals"), "whose global variables it takes is not known")
        if name not in _READ_GLOBALS:
            return None
        after = listing.steps[index + 1 :]
        text = constant_text(after)
        if name not in _TAKE_TEXTS or text is None:
            said = any(s.kind == "constant" and isinstance(s.value, str) and "import" in s.value for s in listing.steps)
            if name in _TAKE_TEXTS and said:
                return self.walk.report.cannot(self.user.part(str(name)), "the code that it runs may import modules")
            return name, self._every_global()
        return name, self._every_global(set(re.findall(r"[^\W\d]\w*", text))), self._text(text)

    def _text(self, text: str) -> Any:
        """Code that stands in a text."""
        for mode in ("eval", "exec"):
            try:
                return self.code(read(compile(text, "<text>", mode, dont_inherit=True)))
            except (SyntaxError, ValueError):  # a statement; the language of pandas' queries
                continue
        return None

    def _every_global(self, names: set[str] | None = None) -> Any:
        return [
            (
                name,
                source_of(str(self.namespace.get("__name__")), name, value),
                self._reach(value, (), self.user.part(name)),
            )
            for name, value in sorted(self.namespace.items())
            if name not in MADE_BY_PYTHON and (names is None or name in names)
        ]

    def _reach(self, value: Any, attributes: tuple[str, ...], where: Where, is_called: bool = False) -> Any:
        """A value, or what is used of it when it is a module of the app's."""
        passed: list[Any] = []
        if isinstance(value, types.ModuleType) and not _is_app_module(value):
            self._task_context(value.__name__, attributes, where)
            value, attributes, outer = _inside(value, attributes)
            passed += [self.walk.of(module, where) for module in outer]
        while _is_app_module(value) and attributes:
            passed += [self.walk.of(e, Where(f"module {value.__name__}")) for e in effects(self.walk, value.__name__)]
            name, attributes = attributes[0], attributes[1:]
            where = where.part(f".{name}")
            passed.append(self.walk.variable(vars(value), name))
            value, how = member(self.walk, value, name, where)
            passed.append(how)
        return (*passed, self.walk.of(value, where, is_called and not attributes))

    def _task_context(self, module: str, attributes: Iterable[str], where: Where) -> None:
        """Of Spark's modules, what tells a function on which partition it is."""
        if owner(module) is Owner.PLATFORM:
            for name in TASK_CONTEXTS.intersection(attributes):
                self.walk.report.cannot(where.part(f".{name}"), TELLS_PARTITIONS)

    def _path(self, path: Path, attributes: tuple[str, ...] = ()) -> Any:
        module = self._module(path.root)
        where = self.user.part(f"module {path.root.name}")
        self._task_context(path.root.name, (*path.attributes, *attributes), where)
        return None if module is None else self._reach(module, (*path.attributes, *attributes), where)

    def _module(self, asked: Import, guarded: bool = True) -> types.ModuleType | None:
        """What is imported, when it is the app's. guarded: whether the code expects that it may not be there"""
        name = absolute(asked.name, asked.level, self.namespace)
        where = self.user.part(f"module {name}")
        if not found(name):
            if guarded or name.partition(".")[0] in sys.stdlib_module_names:  # of another system, another Python
                return None
            self.walk.report.cannot(where, "it is not found here")
            return None
        if owner(name) is not Owner.APP:
            self.walk.report.mentions_module(name, package(name) if owner(name) is Owner.PACKAGE else "")
            return None
        module = import_module(self.walk, name, where)
        return import_module(self.walk, name.partition(".")[0], where) if module and asked.top else module

    def _import(self, listing: Listing, index: int, step: Step) -> Any:
        path = Path(step.value) if step.kind == "import" else step.value
        if path is None:
            return step.attributes
        after = listing.steps[index + 1] if index + 1 < len(listing.steps) else step
        followed = after.kind in ("variable", "imported") or (step.kind == "import" and not step.value.top)
        name = absolute(path.root.name, path.root.level, self.namespace)
        module = self._module(path.root, expects_no_module(listing))
        self._task_context(name, path.attributes, self.user.part(f"module {name}"))
        if module is None:
            return name, step.attributes, found(name)
        ran = [self.walk.of(e, Where(f"module {name}")) for e in effects(self.walk, name)]
        if step.kind == "imported":
            holder, *_ = self._value(module, path.attributes[:-1])
            value, how = member(self.walk, holder, path.attributes[-1], self.user.part(path.attributes[-1]))
            if followed and _is_app_module(value):
                return ran, how
            return ran, how, self.walk.of(value, self.user.part(path.attributes[-1]))
        return (ran,) if followed else (ran, self.walk.of(module, self.user.part(f"module {name}")))

    def _value(self, module: Any, attributes: tuple[str, ...]) -> tuple[Any, ...]:
        for name in attributes:
            module, _ = member(self.walk, module, name, self.user.part(name))
        return (module,)

    def _dynamic(self, listing: Listing, index: int) -> Any:
        """Code that is loaded by a name that may be data."""
        step = listing.steps[index]
        if step.kind == "variable":
            return self._loader(listing, index) if step.op.startswith("LOAD_") else None
        value = self.namespace.get(step.value) if step.kind == "global" else None
        name = self._name_of(step) if step.kind == "global" else step.value
        table = step.kind == "name" and name == "modules" and self._is_sys(listing, index - 1)
        if table or value is sys.modules:
            if next_value(listing, index) != "__name__":
                return self.walk.report.cannot(self.user.part("sys.modules"), "the module that it takes is not known")
            return "its own module", self._every_global()
        if name == "_getframe" and "f_globals" in listing.code.co_names and first_constant(listing, index) != 0:
            return self.walk.report.cannot(self.user.part("f_globals"), "whose global variables it takes is not known")
        if name in ("loads", "load") and self._takes_pickle(listing, index):
            return self.walk.report.cannot(self.user.part("a pickle"), "what it holds is not followed")
        if name == "__subclasses__":
            return self.walk.report.cannot(self.user.part("__subclasses__"), "which classes there are is not known")
        if name in _LISTS_MODULES:
            return self.walk.report.cannot(self.user.part(str(name)), "which modules there are is not known")
        if name in ("find_spec", "find_loader"):
            return self._looked_up(listing, index, str(name))
        if name in _LOADS_CODE:
            return self.walk.report.cannot(self.user.part(str(name)), "it loads code from a place that is not known")
        return self._loaded(listing, index, str(name)) if name in _IMPORTS else None

    def _loader(self, listing: Listing, index: int) -> Any:
        """``from importlib import import_module as load`` inside a function."""
        for path in self.sources.get(listing.steps[index].value, ()):
            if path.attributes and path.root.name in ("importlib", "pkgutil", "pydoc", "runpy", "builtins"):
                if path.attributes[-1] in _IMPORTS:
                    return self._loaded(listing, index, path.attributes[-1])
                if path.attributes[-1] in _LOADS_CODE | _READ_GLOBALS:
                    return self.walk.report.cannot(
                        self.user.part(path.attributes[-1]), "it loads code from a place that is not known"
                    )
        return None

    def _takes_pickle(self, listing: Listing, index: int) -> bool:
        """Whether bytes that the code has at hand are given to a function: those of a pickle name what is loaded."""
        after = listing.steps[index + 1] if index + 1 < len(listing.steps) else None
        if after is None or after.kind not in ("global", "constant"):
            return False
        return isinstance(self.namespace.get(after.value) if after.kind == "global" else after.value, bytes)

    def _loaded(self, listing: Listing, index: int, name: str) -> Any:
        asked = constant_argument(listing.steps[index + 1 :])
        if asked is None:
            return self.walk.report.cannot(self.user.part(name), "the name of what it imports is not known")
        level = len(asked) - len(asked.lstrip("."))
        module = self._module(Import(asked[level:], level, top=False), expects_no_module(listing))
        return module and self.walk.of(module, self.user.part(f"module {asked}"))

    def _looked_up(self, listing: Listing, index: int, name: str) -> Any:
        """Whether there is a module of a name: its place in what is asked of it counts by the module's text."""
        asked = constant_argument(listing.steps[index + 1 :])
        if asked is None or asked.startswith("."):
            return self.walk.report.cannot(self.user.part(name), "the name of the module it looks for is not known")
        return "there", is_there(asked)

    def _is_sys(self, listing: Listing, index: int) -> bool:
        """Whether a step loads the module sys."""
        step = listing.steps[index] if index >= 0 else None
        if step is None or step.kind not in ("global", "variable"):
            return False
        if step.kind == "global":
            return self.namespace.get(step.value) is sys
        return any(path.root.name == "sys" for path in listing.sources.get(step.value, ()))


def _inside(value: Any, attributes: tuple[str, ...]) -> tuple[Any, tuple[str, ...], list[Any]]:
    """A module of the app's inside an installed package, when the attributes lead to it (acme.orders of acme): with the
    attributes that are left, and the packages around it."""
    outer, found = [value], value
    for number, name in enumerate(attributes):
        found = vars(found).get(name)
        if not isinstance(found, types.ModuleType):
            break
        if _is_app_module(found):
            return found, attributes[number + 1 :], outer
        outer.append(found)
    return value, attributes, []


def _is_app_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and owner(value.__name__) is Owner.APP


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None
