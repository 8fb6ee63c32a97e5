"""Which decorators run nothing of the app's: they are known not to call what they are given."""

from __future__ import annotations

import ast
import functools
import types

from ...owner import Owner
from ..quiet import QUIET_PACKAGES
from ..source import function_node
from .calls import KEEP, given
from .kinds import APP, DOUBT, MISSING, PLATFORM, home_of
from .live import live
from .names import Names
from .wraps import only_wraps

# Of these modules the decorators call no function that they are given.
_DECORATORS = frozenset({"functools", "_functools", "contextlib", "typing", "abc", "dataclasses", "enum", "types"})
_BUILTIN_DECORATORS = (property, staticmethod, classmethod)


def decorator(names: Names, node: ast.expr) -> int:
    made = isinstance(node, ast.Call)
    func = node.func if isinstance(node, ast.Call) else node
    most = given(names, node) if isinstance(node, ast.Call) else PLATFORM
    if most >= DOUBT:
        return DOUBT
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
        holder = names.scope.held_by_class(func.value.id)
        if func.attr in ("setter", "getter", "deleter") and type(holder) is property:
            return APP
        if func.attr == "register" and isinstance(holder, functools.singledispatchmethod):
            return APP
    target = live(names, func)
    home, name = home_of(target)
    if isinstance(func, ast.Attribute) and func.attr == "register" and target is MISSING:
        generic = live(names, func.value)
        if isinstance(generic, types.FunctionType) and hasattr(generic, "registry"):
            return APP if names.owners.owner(generic.__module__) is Owner.APP else DOUBT
    if target is MISSING:
        return DOUBT
    whose = names.owners.owner(home)
    if whose is Owner.PLATFORM:
        return APP
    if whose is Owner.APP:
        is_known = isinstance(target, types.FunctionType) and not target.__closure__
        wraps = is_known and only_wraps(function_node(target), 2 if made else 1, target.__globals__)
        return APP if wraps else DOUBT
    if whose is Owner.PYTHON:
        if home == "builtins":
            return APP if target in _BUILTIN_DECORATORS else DOUBT
        return APP if home in _DECORATORS and (most < APP or (home, name) in KEEP) else DOUBT
    return APP if home.partition(".")[0] in QUIET_PACKAGES and most < APP else DOUBT
