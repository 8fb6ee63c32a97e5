"""The text of everything that statements reach by name, in all of the app's modules.

For what runs when a module is imported and cannot be followed value by value: a method that is called by its name, an
operator, a metaclass. Nothing is walked or run, so nothing can be unknown: names lead to the statements that bind them,
whole functions and classes with everything that they name, through imports, including those inside functions.

Whether modules that functions import are loaded already is chance. So they count by their source alone.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from .source import absolute, namespace_of, outline_of, plain_text, source_tree

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
# What reaches names that are data: all of the module counts, and the modules that a text names.
_BY_NAME = frozenset(
    {"globals", "eval", "exec", "locals", "__import__", "import_module", "modules", "f_globals", "__globals__",
     "getmodule", "resolve_name", "iter_modules", "walk_packages"}
)  # fmt: skip

_DECORATORS = frozenset({"property", "staticmethod", "classmethod"})

Asked = tuple[str, str, tuple[str, ...]]  # a module, a name in it, the attributes that are taken of it


@attrs.frozen
class Reached:
    """texts: what is reached, as it is written, with its modules. packages: the modules of others that it takes from"""

    texts: tuple[tuple[str, str], ...]
    packages: tuple[str, ...]


def reached(module: str, statements: Iterable[ast.stmt]) -> Reached:
    """What statements of a module reach, themselves included."""
    search = _Search()
    for statement in statements:
        search.take(module, statement)
        if isinstance(statement, _IMPORTS):  # that has what it imports made
            search.todo += [(module, alias.asname or alias.name, ()) for alias in statement.names]
    search.run()
    texts = ((name, text) for (name, *_), text in sorted(search.found.items()))
    return Reached(tuple(texts), tuple(sorted(search.packages)))


class _Search:
    def __init__(self) -> None:
        self.found: dict[tuple[str, int, int, str], str] = {}  # by places, which give the order
        self.packages: set[str] = set()
        self._lazy: set[str] = set()
        self._apps: dict[str, bool] = {}
        self.todo: list[Asked] = []
        self._done: set[Asked] = set()

    def run(self) -> None:
        while self.todo:
            asked = self.todo.pop()
            if asked not in self._done:
                self._done.add(asked)
                self._look(*asked)

    def take(self, module: str, statement: ast.stmt) -> None:
        """A statement of a module's top level."""
        place = (module, statement.lineno, statement.col_offset, "")
        if place in self.found:
            return
        self.found[place] = plain_text(statement)
        uses = _uses(statement)
        self.todo += [(module, name, path) for name, path in uses.names]
        if uses.by_name:
            self.todo.append((module, "", ()))
            for text in filter(self._is_apps, uses.texts):
                self._lazily(text)
                self.todo.append((text, "", ()))
        for inner in uses.imports:
            for target in self._targets(module, inner):
                self._lazily(target[0])
                self.todo.append(target)

    def _look(self, module: str, name: str, path: tuple[str, ...]) -> None:
        tree = source_tree(module)
        if tree is None:
            return
        outline = outline_of(tree)
        if not name:
            for statement in tree.body:
                self.take(module, statement)
            return
        bound = outline.bound.get(name, [])
        for statement in bound:
            if isinstance(statement, _IMPORTS):
                self._follow(module, statement, name, path)
        if any(not isinstance(s, _IMPORTS) for s in bound):
            self._bound(module, outline, name)
        if not bound:
            self._elsewhere(module, outline, name)

    def _bound(self, module: str, outline: Any, name: str) -> None:
        """What binds a name; what may fill it, too, where it is no definition or constant."""
        fills = outline.is_data(name) and not all(_is_constant(s) for s in outline.bound[name])
        for statement, bound, touched in outline.statements:
            if name in bound or (fills and name in touched and not isinstance(statement, _IMPORTS)):
                self.take(module, statement)

    def _follow(self, module: str, statement: ast.stmt, name: str, path: tuple[str, ...]) -> None:
        for alias in statement.names:  # type: ignore[attr-defined]
            if (alias.asname or alias.name.partition(".")[0]) != name:
                continue
            if isinstance(statement, ast.ImportFrom):
                base, taken = (
                    absolute(statement.module or "", statement.level, namespace_of(module)),
                    (alias.name, *path),
                )
            else:
                base, taken = alias.name if alias.asname else name, path
            self.found[module, 0, 0, f"{name} {taken}"] = f"{name} of {base} {taken}"
            self._member(base, taken)

    def _member(self, module: str, path: tuple[str, ...]) -> None:
        """What a path of attributes takes from a module: a member, or one of a module below it."""
        if not self._is_apps(module):
            self.packages.add(module.partition(".")[0])
            return
        if path and self._is_apps(f"{module}.{path[0]}"):
            self._member(f"{module}.{path[0]}", path[1:])
        self.todo.append((module, path[0], path[1:]) if path else (module, "", ()))

    def _elsewhere(self, module: str, outline: Any, name: str) -> None:
        """A name that a module gets from ``import *``, or makes when it is asked for it."""
        for statement in outline.starred:
            base = absolute(statement.module or "", statement.level, namespace_of(module))
            tree = source_tree(base) if self._is_apps(base) else None
            if tree is not None and (name in outline_of(tree).bound or outline_of(tree).starred):
                self.todo.append((base, name, ()))
        if "__getattr__" in outline.bound:
            self.todo.append((module, "__getattr__", ()))

    def _lazily(self, module: str) -> None:
        """What importing a module does, as far as its text says it, with what it imports."""
        parts = module.split(".")
        for name in (".".join(parts[: i + 1]) for i in range(len(parts))):
            tree = source_tree(name) if name not in self._lazy and self._is_apps(name) else None
            if tree is None:
                continue
            self._lazy.add(name)
            for statement in tree.body:
                if isinstance(statement, _IMPORTS):
                    for other, *_ in self._targets(name, statement):
                        self._lazily(other)
                elif not _is_plain_text(statement):
                    self.take(name, statement)

    def _targets(self, module: str, statement: ast.stmt) -> Iterator[Asked]:
        """The modules and members of the app's that an import takes."""
        for alias in statement.names:  # type: ignore[attr-defined]
            base, name = alias.name, ""
            if isinstance(statement, ast.ImportFrom):
                base, name = absolute(statement.module or "", statement.level, namespace_of(module)), alias.name
            if not self._is_apps(base):
                self.packages.add(base.partition(".")[0])
                continue
            if name and self._is_apps(f"{base}.{name}"):
                yield f"{base}.{name}", "", ()
            yield base, "" if name == "*" else name, ()

    def _is_apps(self, module: str) -> bool:
        if module not in self._apps:
            self._apps[module] = module not in ("", "__main__") and source_tree(module) is not None
        return self._apps[module]


@attrs.frozen
class _Uses:
    """names: with the attributes that are taken of them. imports: those inside functions and classes"""

    names: tuple[tuple[str, tuple[str, ...]], ...]
    imports: tuple[ast.stmt, ...]
    by_name: bool
    texts: tuple[str, ...]


@functools.lru_cache(maxsize=5000)
def _uses(statement: ast.stmt) -> _Uses:
    names: dict[tuple[str, tuple[str, ...]], None] = {}
    imports: list[ast.stmt] = []
    texts: list[str] = []
    by_name = False
    definitions = [n for n in ast.walk(statement) if isinstance(n, _DEFINITIONS)]
    inside = {n for definition in definitions for n in ast.walk(definition) if isinstance(n, _IMPORTS)}
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Attribute):
            path: list[str] = []
            root: ast.AST = node
            while isinstance(root, ast.Attribute):
                path.insert(0, root.attr)
                root = root.value
            by_name = by_name or not _BY_NAME.isdisjoint(path)
            if isinstance(root, ast.Name):
                names[root.id, tuple(path)] = None
                by_name = by_name or root.id in _BY_NAME
            else:
                todo.append(root)
            continue
        if isinstance(node, ast.Name):
            names[node.id, ()] = None
            by_name = by_name or node.id in _BY_NAME
        elif isinstance(node, _IMPORTS):
            imports += [node] if node in inside else []
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.replace(".", "").isidentifier()
        ):
            texts.append(node.value)
        todo += ast.iter_child_nodes(node)
    return _Uses(tuple(names), tuple(imports), by_name, tuple(texts))


def _is_constant(statement: ast.stmt) -> bool:
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    made = (ast.Constant, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.JoinedStr, ast.FormattedValue)
    parts = (*made, ast.operator, ast.unaryop, ast.expr_context)
    return all(isinstance(t, ast.Name) for t in targets) and all(
        isinstance(n, parts) for n in ast.walk(statement.value)
    )


def _is_plain_text(statement: ast.stmt) -> bool:
    """Whether a statement only gives a value to a name, whatever its module holds."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        defaults = [d for d in (*statement.args.defaults, *statement.args.kw_defaults) if d is not None]
        decorators = all(isinstance(d, ast.Name) and d.id in _DECORATORS for d in statement.decorator_list)
        return decorators and all(isinstance(d, (ast.Constant, ast.Name)) for d in defaults)
    if isinstance(statement, ast.ClassDef):
        known = not (statement.bases or statement.keywords or statement.decorator_list)
        return known and all(map(_is_plain_text, statement.body))
    return isinstance(statement, ast.Pass) or _is_constant(statement)
