"""What the names in the app's modules stand for."""

from __future__ import annotations

import ast
import builtins
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from ...owner import Owner
from ..quiet import loud_statements
from ..source import absolute, outline_of, tree_of
from .kinds import APP, HARMLESS, MISSING, PLATFORM, Owners, is_immutable
from .scope import Scope


class Program:
    """The app's modules.

    kind: what an expression of a module gives (expressions.py, which asks for names in turn)
    """

    def __init__(self, kind: Callable[[Names, ast.AST], int]) -> None:
        self.kind = kind
        self.owners = Owners()
        self.open: list[tuple[str, str]] = []  # names that are being looked at
        self._names: dict[str, Names | None] = {}

    def names(self, module: str) -> Names | None:
        """None where there is no source."""
        if module not in self._names:
            tree = tree_of(module)
            self._names[module] = None if tree is None else Names(self, module, tree)
        return self._names[module]


class Names:
    """Those of one module."""

    def __init__(self, program: Program, module: str, tree: ast.Module) -> None:
        self.program = program
        self.owners = program.owners
        # bound, not wrapped in a method: expressions are as deep as they are written
        self.kind: Callable[[ast.AST], int] = types.MethodType(program.kind, self)
        self.scope = Scope()
        self.namespace = vars(sys.modules[module])
        self.bound = outline_of(tree).bound
        self.has_text_hints = any(
            isinstance(s, ast.ImportFrom) and s.module == "__future__" and any(a.name == "annotations" for a in s.names)
            for s in tree.body
        )
        self._module = module
        self._tree = tree
        self._declared = {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
        self._kinds: dict[str, int] = {}

    @functools.cached_property
    def _touched_loudly(self) -> frozenset[str]:
        """The names that statements use which may fill them."""
        loud = {id(s) for s in loud_statements(self._module, self._tree)}
        return frozenset().union(*(touched for s, _, touched in outline_of(self._tree).statements if id(s) in loud))

    def kind_of_name(self, name: str) -> int:
        asked, open = (self._module, name), self.program.open
        if asked in open:  # of what is computed from itself (X = X + 1) the rest decides
            return PLATFORM if open[-1] == asked else APP
        if name not in self._kinds:
            around, self.scope = self.scope, Scope()
            open.append(asked)
            try:  # a look may raise (`is_plain`): the next one must find all as it was
                self._kinds[name] = min(self._kind_of_name(name), APP)
            finally:
                open.pop()
                self.scope = around
        return self._kinds[name]

    def _kind_of_name(self, name: str) -> int:
        bound = self.bound.get(name, ())
        held = self.namespace.get(name, MISSING)
        if not bound:
            if held is MISSING:
                return HARMLESS if hasattr(builtins, name) else APP
            return self.owners.value(held)
        if name in self._declared:  # a function may have set it to anything
            return APP
        if len(bound) == 1 and is_immutable(held):
            return HARMLESS
        kind = max(self._bound(statement, name) for statement in bound)
        if kind < APP and not isinstance(held, types.ModuleType) and name in self._touched_loudly:
            return APP
        return kind

    def _bound(self, statement: ast.stmt, name: str) -> int:
        if isinstance(statement, ast.Import):
            return max(self.owners.kind_of(alias.name) for alias in statement.names)
        if isinstance(statement, ast.ImportFrom):
            base = absolute(statement.module or "", statement.level, self.namespace)
            if self.owners.owner(base) is not Owner.APP:
                return self.owners.kind_of(base)
            other = self.program.names(base) if base in sys.modules else None
            asked = [a.name for a in statement.names if (a.asname or a.name) == name]
            if other is None or not asked or f"{base}.{asked[0]}" in sys.modules:
                return APP
            return other.kind_of_name(asked[0])
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            return self.kind(statement.value) if statement.value else PLATFORM
        if isinstance(statement, ast.For):
            return self.kind(statement.iter)
        if isinstance(statement, ast.With):
            return max(self.kind(item.context_expr) for item in statement.items)
        return APP

    def live_name(self, name: str) -> Any:
        """The value that it has in the module, where no other can have been there before."""
        bound = self.bound.get(name, ())
        several = len(bound) > 1 and not all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in bound)
        if several or name in self._declared:
            return MISSING
        return self.namespace.get(name, MISSING if bound else getattr(builtins, name, MISSING))
