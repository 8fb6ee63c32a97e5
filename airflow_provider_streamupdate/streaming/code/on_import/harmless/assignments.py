"""Which assignments run nothing of the app's."""

from __future__ import annotations

import ast

from .expressions import hint, kind
from .kinds import APP, DOUBT, HARMLESS, MISSING, is_immutable
from .names import Names

_MADE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Constant, ast.Tuple)


def assigned(names: Names, s: ast.Assign | ast.AnnAssign | ast.AugAssign) -> int:
    targets = s.targets if isinstance(s, ast.Assign) else [s.target]
    value = kind(names, s.value) if s.value is not None else HARMLESS
    if isinstance(s, ast.AnnAssign):
        value = max(value, hint(names, s.annotation))
    if isinstance(s, ast.AugAssign):
        value = max(value, _changed(names, s.target) if isinstance(s.target, ast.Name) else DOUBT)
    for target in targets:
        if isinstance(target, ast.Name):
            names.scope.keep(target.id, value)
        elif value >= APP or not isinstance(target, (ast.Tuple, ast.List)):  # taken apart, or put into something
            return DOUBT
        else:
            for n in ast.walk(target):
                if isinstance(n, ast.Name):
                    names.scope.keep(n.id, value)
    return value


def _changed(names: Names, target: ast.Name) -> int:
    """``NAME += ...`` changes a list in place, which may be another's: ``FILTERS = warnings.filters``."""
    inner = names.scope.innermost
    if inner is not None:
        return inner.get(target.id, DOUBT)
    bound = names.bound.get(target.id, ())
    values = [getattr(s, "value", None) for s in bound if not isinstance(s, ast.AugAssign)]
    if is_immutable(names.namespace.get(target.id, MISSING)) or all(isinstance(v, _MADE) for v in values):
        return HARMLESS if names.kind_of_name(target.id) < APP else DOUBT
    return DOUBT
