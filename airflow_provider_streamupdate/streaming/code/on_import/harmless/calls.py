"""Which calls run nothing of the app's: the function is known, and so is what it does with what it is given."""

from __future__ import annotations

import ast
import os
import types
from typing import Any

from ...owner import Owner
from ..quiet import QUIET_METHODS, QUIET_PACKAGES
from .classes import makes_plainly
from .kinds import APP, DOUBT, HARMLESS, MISSING, PLATFORM, home_of
from .live import live
from .names import Names
from .uses import unpacked

# What keeps functions and instances that it is given, without a call.
KEEP = frozenset(
    {("functools", "partial"), ("functools", "partialmethod"), ("functools", "cached_property"),
     ("dataclasses", "field"), ("collections", "defaultdict"), ("types", "SimpleNamespace"),
     ("types", "MappingProxyType"), ("typing", "cast"), ("typing", "NewType"), ("typing", "TypeVar"),
     ("attr._make", "attrib"), ("attr._next_gen", "field"), ("builtins", "property"), ("builtins", "staticmethod"),
     ("builtins", "classmethod"), ("pyspark.sql.udf", "udf"), ("pyspark.sql.functions.builtin", "udf"),
     ("pyspark.sql.functions.builtin", "udtf"), ("pyspark.sql.pandas.functions", "pandas_udf"),
     ("pyspark.sql.pandas.functions", "arrow_udf")}
)  # fmt: skip


def call(names: Names, node: ast.Call) -> int:
    target = live(names, node.func)
    most = given(names, node)
    if most >= DOUBT:
        return DOUBT
    if target is MISSING:
        if not isinstance(node.func, ast.Attribute) or most >= APP:
            return DOUBT
        base = names.kind(node.func.value)
        if base == PLATFORM or (base == HARMLESS and node.func.attr in QUIET_METHODS and node.func.attr != "add"):
            return base
        return DOUBT
    home, name = home_of(target)
    whose = names.owners.owner(home)
    if whose is Owner.APP:
        return APP if isinstance(target, type) and makes_plainly(names.owners, target, most) else DOUBT
    kind = names.owners.kind_of(home)
    if max(kind, names.kind(node.func)) >= APP or not _is_called_alone(target):
        return DOUBT
    if most < APP:
        return kind
    keeps = (home, name) in KEEP or (target is dict and not node.args)
    return APP if keeps or (target in (list, tuple) and isinstance(node.args[0], (ast.List, ast.Tuple))) else DOUBT


def given(names: Names, node: ast.Call) -> int:
    """The arguments of a call."""
    named = [names.kind(k.value) if k.arg else unpacked(names, k.value) for k in node.keywords]
    return max([*map(names.kind, node.args), *named], default=PLATFORM)


def _is_called_alone(target: Any) -> bool:
    """Whether what is called is a function or a class, not one bound to an instance, which may hold anything."""
    if isinstance(target, (types.BuiltinFunctionType, types.MethodType)):
        holder = target.__self__
        return holder is None or holder is os.environ or isinstance(holder, (types.ModuleType, type))
    if isinstance(target, (type, types.FunctionType)):
        return True
    return type(target).__module__.partition(".")[0] in QUIET_PACKAGES  # a ufunc
