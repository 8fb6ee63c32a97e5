"""Which definitions of functions and classes run nothing of the app's: their hints, defaults, decorators and bases."""

from __future__ import annotations

import ast

from ..source import hints_of
from .classes import is_plain_class
from .decorators import decorator
from .expressions import hint, kind
from .kinds import APP, DOUBT, MISSING
from .live import live
from .names import Names

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def function(names: Names, s: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    hints = [hint(names, h) for h in hints_of(s)]
    defaults = [kind(names, d) for d in (*s.args.defaults, *s.args.kw_defaults) if d is not None]
    names.scope.keep(s.name, APP)
    return max([*hints, *defaults, *(decorator(names, d) for d in s.decorator_list), APP])


def plain_class(names: Names, s: ast.ClassDef) -> type | None:
    """The class that a statement makes; None where that runs the app's code, whatever its body does."""
    around = names.scope.made
    made = (names.namespace if around is None else vars(around)).get(s.name)
    names.scope.keep(s.name, APP)
    bound = [b for b in names.bound.get(s.name, ()) if isinstance(b, _DEFINITIONS)]
    if not isinstance(made, type) or (around is None and len(bound) != 1) or not is_plain_class(names.owners, made):
        return None
    kinds = [decorator(names, d) for d in s.decorator_list] + [kind(names, k.value) for k in s.keywords]
    kinds += [_base(names, b) for b in s.bases]
    return None if max(kinds, default=APP) >= DOUBT else made


def _base(names: Names, node: ast.expr) -> int:
    """An instance in place of a base class has ``__mro_entries__`` called."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        held = live(names, node)
        if not isinstance(held, type) and names.owners.value(held) >= APP:
            return DOUBT if held is MISSING or type(held).__module__ != "typing" else APP
        return APP
    base = kind(names, node)
    return DOUBT if base == APP and isinstance(node, ast.Call) else base
