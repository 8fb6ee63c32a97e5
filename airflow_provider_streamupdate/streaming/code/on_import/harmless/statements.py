"""Which statements of a module run nothing of the app's: `is_plain`, which is asked with `names_of` the module."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from ...owner import Owner
from ..quiet import is_not_run
from ..source import absolute
from .assignments import assigned
from .definitions import function, plain_class
from .expressions import kind
from .kinds import APP, DOUBT, HARMLESS
from .names import Names, Program
from .uses import used


def names_of(module: str) -> Names | None:
    """What `is_plain` is asked with, for all statements of a module; None where there is no source."""
    return Program(kind).names(module)


def is_plain(statement: ast.stmt, names: Names) -> bool:
    """Of a quiet statement."""
    try:
        return _statement(names, statement) < DOUBT
    except Exception:  # what is looked at may be of any kind; what is not understood is not plain
        return False


def _statement(names: Names, s: ast.stmt) -> int:
    if isinstance(s, (ast.Import, ast.Pass, ast.Global)):
        return HARMLESS
    if isinstance(s, ast.ImportFrom):
        return DOUBT if any(_is_made_on_import(names, s, alias.name) for alias in s.names) else HARMLESS
    if isinstance(s, ast.Expr):
        return _call_arguments(names, s.value) if isinstance(s.value, ast.Call) else kind(names, s.value)
    if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return function(names, s)
    if isinstance(s, ast.ClassDef):
        return _class(names, s)
    if isinstance(s, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return assigned(names, s)
    if isinstance(s, ast.If):
        if is_not_run(s, names.namespace):
            return _all(names, s.orelse)
        return max(used(names, s.test), _all(names, [*s.body, *s.orelse]))
    if isinstance(s, ast.Try):
        handled = [each for handler in s.handlers for each in handler.body]
        caught = [kind(names, handler.type) for handler in s.handlers if handler.type]
        return max([*caught, _all(names, [*s.body, *handled, *s.orelse, *s.finalbody])])
    if isinstance(s, ast.For):
        return max(used(names, s.iter), _all(names, [*s.body, *s.orelse]))
    if isinstance(s, ast.With):
        return max(*(used(names, item.context_expr) for item in s.items), _all(names, s.body))
    if isinstance(s, ast.Assert):
        return used(names, s.test)
    return DOUBT


def _all(names: Names, body: Iterable[ast.stmt]) -> int:
    return max((_statement(names, s) for s in body), default=HARMLESS)


def _class(names: Names, s: ast.ClassDef) -> int:
    made = plain_class(names, s)
    if made is None:
        return DOUBT
    names.scope.enter(made)
    try:
        return max(_all(names, s.body), APP)
    finally:
        names.scope.leave()


def _is_made_on_import(names: Names, s: ast.ImportFrom, name: str) -> bool:
    """Whether a module's ``__getattr__`` gives what is imported from it."""
    base = absolute(s.module or "", s.level, names.namespace)
    if names.owners.owner(base) is not Owner.APP or "__getattr__" not in vars(sys.modules.get(base, sys)):
        return False
    other = names.program.names(base)
    return name != "*" and (other is None or name not in other.bound) and f"{base}.{name}" not in sys.modules


def _call_arguments(names: Names, node: ast.Call) -> int:
    """Of ``sys.path.insert(...)``."""
    return max((used(names, a) for a in (*node.args, *(k.value for k in node.keywords))), default=HARMLESS)
