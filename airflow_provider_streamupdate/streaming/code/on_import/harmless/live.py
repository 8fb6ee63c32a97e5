"""The values that expressions stand for, where they are there by now and nothing runs to find them."""

from __future__ import annotations

import ast
import enum
import inspect
import os
import sys
import types
from typing import Any

from ...owner import Owner
from .classes import has_own
from .kinds import MISSING
from .names import Names


def live(names: Names, node: ast.expr) -> Any:
    """What an expression gives, where that is one thing and nothing runs to find it."""
    if isinstance(node, ast.Name):
        return names.live_name(node.id) if names.scope.kind(node.id) is None else MISSING
    if isinstance(node, ast.Attribute):
        base = live(names, node.value)
        return MISSING if base is MISSING else _member(names, base, node.attr)
    return MISSING


def _member(names: Names, base: Any, name: str) -> Any:
    owners = names.owners
    if isinstance(base, types.ModuleType):
        if owners.owner(base.__name__) is not Owner.APP:
            return getattr(base, name, MISSING)
        if (other := names.program.names(base.__name__)) is not None and name in other.bound:
            return other.live_name(name)
        return sys.modules.get(f"{base.__name__}.{name}", vars(base).get(name, MISSING))
    if base is os.environ:
        return getattr(base, name, MISSING)
    whose = owners.owner(type(base).__module__)
    if isinstance(base, enum.EnumMeta) and name in base.__members__:
        return base.__members__[name] if whose is Owner.PYTHON else MISSING
    if isinstance(base, enum.Enum) and name in ("value", "name"):
        return MISSING if has_own(owners, type(base), (name,)) else base.__dict__.get(f"_{name}_", MISSING)
    if isinstance(base, type) and owners.owner(base.__module__) is not Owner.APP:
        return getattr(base, name, MISSING)
    if isinstance(base, type) and whose is not Owner.PYTHON:  # a metaclass may give anything
        return MISSING
    if whose in (Owner.APP, Owner.PLATFORM) or isinstance(base, type):
        if has_own(owners, type(base), ("__getattribute__",)):
            return MISSING
        found = inspect.getattr_static(base, name, MISSING)
        is_found = hasattr(type(found), "__get__") and not isinstance(found, types.FunctionType)
        return MISSING if is_found else found
    return MISSING
