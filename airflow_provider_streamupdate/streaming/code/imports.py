"""What importing the app's modules does, besides giving values to names, and what statements reach by name.

Nothing is run: names lead to the statements that bind them, whole functions and classes with everything that they name,
through imports, those inside functions as well. So a text says what a worker has, whatever the driver has changed.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .listing import Path
from .report import Report
from .sources import IMPORTS, Sources, Statement, absolute, imports_of
from .statements import loud_statements

Asked = tuple[str, str]  # a module, and a name in it; all of it where the name is empty


class Reach:
    """The statements that are reached.

    found: what the function itself can look at
    on_import: whether it is what imports do, which nothing else follows: all counts of modules that functions import
    """

    def __init__(self, sources: Sources, found: Report | None = None, on_import: bool = False) -> None:
        # Packages that the statements take from, and what they can look at
        self.report = Report(level=found.level, in_order=found.looks_at_order) if found else Report()
        self._sources = sources
        self._on_import = on_import
        self._found: dict[tuple[str, int], Statement] = {}
        self._imports: set[Any] = set()  # names with what they are imported as
        self._todo: list[Asked] = []
        self._done: set[Any] = set()

    def run(self, asked: Iterable[Asked]) -> list[Any]:
        self._todo += asked
        while self._todo or self._add_all():
            if (each := self._todo.pop()) not in self._done:
                self._done.add(each)
                self._name(*each)
        forms = [(place[0], self._found[place].form) for place in sorted(self._found, key=self._place)]
        docs = [ast.dump(s.node) for s in self._found.values() if s.node and self._on_import and self.report.is_read]
        every = sorted({each[0] for each in self._done}) if self.report.level else []
        written = [
            (module, source.written(self.report.level)) for module in every if (source := self._sources.of(module))
        ]
        return [forms, sorted(self._imports), sorted(docs), written]

    def _place(self, found: tuple[str, int]) -> tuple[str, tuple[int, str]]:
        module, number = found
        source = self._sources.of(module)
        as_written = self._on_import or self.report.looks_at_order or bool(loud_statements(self._sources, module))
        return module, (number, "") if source is None or as_written else source.place(number)

    def _add_all(self) -> bool:
        """Add all that names can mean which are data. Return whether there is anything to do."""
        if self.report.level:
            modules = {each[0] for each in self._done if len(each) == 2}
            modules |= set(self._sources.neighbours({*modules, "__main__"}))
            self._todo += [(module, "") for module in modules if (module, "") not in self._done]
        return bool(self._todo)

    def take(self, module: str, statement: Statement) -> None:
        source = self._sources.of(module)
        if source is None or (place := (module, source.statements.index(statement))) in self._found:
            return
        self._found[place] = statement
        uses = statement.uses
        for name, attributes in uses.names:
            self._used(module, name, attributes)
        for path in uses.imports:
            self._target(absolute(path.root.name, path.root.level, module), path.attributes)
        for each, names in uses.modules.items():
            base = absolute(each.name, each.level, module)
            self.report.uses(base)
            for name in (base, *(f"{base}.{name}" for name in names)) if self._on_import else ():
                self._todo += [(inner, "") for inner in imported(self._sources, name)]
        for text in (*uses.texts, *uses.attributes):
            self.report.mentions(text)
        self._todo += [(module, word) for word in uses.words() if word in source.bound]

    def _name(self, module: str, name: str) -> None:
        source = self._sources.of(module)
        if source is not None and not name:
            for each in source.bound:
                self._used(module, each, ())
        for statement in () if source is None else source.binders(name) if name else source.statements:
            if not isinstance(statement.node, IMPORTS):
                self.take(module, statement)

    def _used(self, module: str, name: str, attributes: tuple[str, ...], on_module: bool = False) -> None:
        """Add a name in a module. on_module: whether it is taken of the module itself (``helpers.__dict__``)"""
        source = self._sources.of(module)
        if source is None or (module, name, attributes) in self._done:
            return
        self._done.add((module, name, attributes))
        self._todo.append((module, name))
        binders, stars = source.binders(name), source.bound.get("*", [])
        if binders and stars:  # the later one wins
            order = sorted((source.statements.index(s), "*" if s in stars else name) for s in {*binders, *stars})
            self._imports.add((module, name, "*", tuple(each for _, each in order)))
            stars = []
        if not binders:
            self.report.uses("builtins", getattr(builtins, name, None))
            self._todo.append((module, "__getattr__" if "__getattr__" in source.bound or not on_module else ""))
        for node in (node for s in (*binders, *stars) if s.node for node in imports_of(s.node)):
            for alias in node.names:
                if (alias.asname or alias.name.partition(".")[0]) not in (name, "*"):
                    continue
                base, path = alias.name if alias.asname else name, attributes
                if isinstance(node, ast.ImportFrom):
                    base = absolute(node.module or "", node.level, module)
                    path = (name if alias.name == "*" else alias.name, *attributes)
                self._imports.add((module, name, base, path))
                self._target(base, path)

    def _target(self, base: str, path: tuple[str, ...]) -> None:
        """Add what attributes take from a module: a member, or one of a module below it."""
        if path and self._sources.of(f"{base}.{path[0]}") is not None:
            self._target(f"{base}.{path[0]}", path[1:])
        elif self._sources.of(base) is None:
            self.report.uses_path(base, path)
        elif path:
            self._used(base, path[0], path[1:], True)
        else:
            self._todo.append((base, ""))


def imported(sources: Sources, module: str) -> list[str]:
    """The app's modules that importing one imports, in the order in which it does."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        if "." in name:
            add(name.rpartition(".")[0])
        if name not in found and (source := sources.of(name)) is not None:
            found[name] = None
            for inner in (inner for s in source.statements for inner in _imports(sources, name, s)):
                add(inner)

    add(module)
    return list(found)


def _imports(sources: Sources, module: str, statement: Statement) -> Iterator[str]:
    """The modules that a statement imports when it runs."""
    if statement.node is None:
        for path in (*map(Path, statement.uses.modules), *statement.uses.imports):
            base = absolute(path.root.name, path.root.level, module)
            yield from (base, *(f"{base}.{name}" for name in path.attributes[:1]))
    for node in imports_of(statement.node) if statement.node is not None else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            continue
        base = absolute(node.module or "", node.level, module)
        every = getattr(sys.modules.get(base), "__all__", ()) if node.names[0].name == "*" else ()
        yield from (base, *(f"{base}.{name}" for name in (*(alias.name for alias in node.names), *every)))


def effects(sources: Sources, modules: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the modules that do something when they are imported, with their statements and what these reach.

    An import of another module that does something is one of them: each may set what another has set.
    """
    every = sorted({name for module in modules for name in imported(sources, module)})
    does = {name: loud_statements(sources, name) for name in every}
    busy = {name for name in every if any(does[inner] for inner in imported(sources, name))}
    for name in sorted(busy):
        source, reach = sources.of(name), Reach(sources, on_import=True)
        steps: list[Any] = []
        for statement in source.statements if source is not None else ():
            if statement in does[name]:
                steps.append(statement.form)
                reach.take(name, statement)
            else:
                steps += [inner for inner in _imports(sources, name, statement) if inner in busy]
        if does[name] or len(steps) > 1:
            yield name, (steps, reach.run(()), sorted(reach.report.packages))
