"""The app's modules as a worker finds them: their statements, by the names that these bind.

The driver may have set what a module's source makes to something else (``helpers.LIMIT = 5``, a patch in a test's
manner), or have another module under its name. Workers import the module afresh, from the path.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import hashlib
import importlib.util
import os
import pkgutil
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .listing import Listing, Uses, form, read, uses
from .owner import MAIN, Owner, owner, spec_of
from .report import Level

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_SCOPES = (*DEFINITIONS, ast.Lambda)
_OF_HINTS = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Constant, ast.BinOp),
    *(ast.BitOr, ast.expr_context),
)
IMPORTS = (ast.Import, ast.ImportFrom)


def absolute(name: str, level: int, module: str, package: str | None = None) -> str:
    """The full name of a module that another one imports, which is in a package."""
    if not level:
        return name
    spec = None if package else spec_of(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    try:
        around = package or (module if is_package else module.rpartition(".")[0])
        return importlib.util.resolve_name("." * level + name, around)
    except ImportError:
        return name


class Statement:
    """A statement of a module's top level; all the code of a module that has no source has a `node` of None."""

    def __init__(self, node: ast.stmt | None, plain: ast.stmt | types.CodeType) -> None:
        """plain: what it computes, without docstrings and most hints"""
        self.node = node
        self._plain = plain

    @functools.cached_property
    def _listing(self) -> Listing:
        if isinstance(self._plain, types.CodeType):
            return read(self._plain)
        return read(compile(ast.Module([self._plain], []), "<statement>", "exec", dont_inherit=True))

    @functools.cached_property
    def form(self) -> Any:
        return form(self._listing, {})

    @functools.cached_property
    def uses(self) -> Uses:
        return uses(self._listing)


class Source:
    """A module of the app's: its text, or its code where it has none."""

    def __init__(self, text: str, code: types.CodeType | None = None) -> None:
        tree, plain = ast.parse(text), _without_docs(ast.parse(text))
        self._texts = {Level.TREES: ast.dump(plain), Level.TEXTS: text}
        self.statements = list(map(Statement, tree.body, plain.body)) if code is None else [Statement(None, code)]
        self.bound: dict[str, list[Statement]] = {}
        for statement in self.statements:
            for name in set(_bound(statement.node)) if statement.node is not None else ():
                self.bound.setdefault(name, []).append(statement)

    def written(self, level: Level) -> str:
        """All of it; of `Level.TREES`, without comments, positions, docstrings and most hints."""
        return self._texts[level]

    def place(self, number: int) -> tuple[int, str]:
        """Return where a statement counts as standing, in a module that only gives values to names. Where a function
        stands does not count, if its name has no other value and nothing is computed when it is defined: it goes to the
        end, by its name."""
        node = self.statements[number].node
        if not isinstance(node, FUNCTIONS) or node.decorator_list or "*" in self.bound:
            return number, ""
        if len(self.bound[node.name]) > 1 or hasattr(builtins, node.name):
            return number, ""
        given = (*node.args.defaults, *node.args.kw_defaults)
        plain = all(d is None or isinstance(d, ast.Constant) for d in given) and all(map(is_plain, hints_of(node)))
        return (len(self.statements), node.name) if plain else (number, "")

    def binders(self, name: str) -> list[Statement]:
        return self.statements if self.statements and self.statements[0].node is None else self.bound.get(name, [])


def _without_docs(tree: ast.Module) -> ast.Module:
    """Without docstrings, and hints of functions that no decorator sees and that compute nothing."""
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, FUNCTIONS) and not node.decorator_list and all(map(is_plain, hints_of(node))):
            node.returns = None
            for each in ast.walk(node.args):
                if isinstance(each, ast.arg):
                    each.annotation = None
    return ast.fix_missing_locations(tree)


def hints_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    a = function.args
    every = (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg)
    return [hint for hint in (*(x.annotation for x in every if x is not None), function.returns) if hint is not None]


def is_plain(hint: ast.expr) -> bool:
    """Whether a hint is one by its looks: ``dict[str, Order] | None``."""
    return all(isinstance(n, _OF_HINTS) for n in ast.walk(hint))


class Sources:
    """The sources of one description; files may have changed in the next one."""

    def __init__(self) -> None:
        self._known: dict[str, Source | None] = {}
        self.loud: dict[str, list[Statement]] = {}  # filled by statements.py

    def of(self, module: str) -> Source | None:
        """The source of a module of the app's; None of others and of ``__main__``, whose functions are pickled."""
        if module not in self._known:
            self._known[module] = _source(module) if module not in MAIN and owner(module) is Owner.APP else None
        return self._known[module]

    def neighbours(self, modules: Iterable[str]) -> list[str]:
        """The app's modules in the folders of modules, and all in the packages there."""
        found: dict[str, None] = {}
        for top in {module.partition(".")[0] for module in modules}:
            file = getattr(sys.modules.get(top), "__file__", None) or getattr(spec_of(top), "origin", None)
            if isinstance(file, str):
                folder, name = os.path.split(os.path.abspath(file))
                self._add([os.path.dirname(folder) if name == "__init__.py" else folder], "", found)
        return list(found)

    def _add(self, places: Iterable[str], prefix: str, found: dict[str, None]) -> None:
        for each in pkgutil.iter_modules(places, prefix):
            if each.name not in found and not each.name.endswith("__main__") and self.of(each.name) is not None:
                found[each.name] = None
                if each.ispkg and (spec := spec_of(each.name)):
                    self._add(spec.submodule_search_locations or (), f"{each.name}.", found)
        for folder in (folder for place in places for folder in sorted(Path(place).glob("*/"))):  # without __init__
            is_package = folder.name.isidentifier() and folder.name != "__pycache__" and not folder.is_symlink()
            if is_package and not (folder / "__init__.py").exists() and any(folder.glob("*.py")):
                self._add([str(folder)], f"{prefix}{folder.name}.", found)


def _source(module: str) -> Source | None:
    """Read a module by the path, where a worker looks, else by what has loaded it."""
    spec, held = spec_of(module), sys.modules.get(module)
    for loader in (getattr(spec, "loader", None), getattr(held, "__loader__", None)):
        with contextlib.suppress(Exception):  # no loader, none of the kind, not of this Python
            if (text := loader.get_source(module)) is not None:  # type: ignore[union-attr]
                return _parsed(text)
        with contextlib.suppress(Exception):
            if (code := loader.get_code(module)) is not None:  # type: ignore[union-attr]
                return Source("", code)
    if spec is None and held is None:
        return None
    file = str(getattr(spec, "origin", None) or getattr(held, "__file__", None))
    content = hashlib.sha256(Path(file).read_bytes()).hexdigest() if Path(file).is_file() else ""
    return Source("", compile(repr(content), "<file>", "eval"))


@functools.lru_cache(maxsize=500)
def _parsed(text: str) -> Source:
    return Source(text)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names of the module that a statement binds, now or (``global``) when a function in it runs."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, IMPORTS):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
        if isinstance(node, _SCOPES):
            yield from (n for inner in ast.walk(node) if isinstance(inner, ast.Global) for n in inner.names)
        else:
            todo += ast.iter_child_nodes(node)


def imports_of(statement: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when a statement runs, those of class bodies as well."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, IMPORTS):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.expr)):
            todo += reversed(list(ast.iter_child_nodes(node)))
