"""Whether a worker has the same as the driver where more than values decides: arguments of decorators, values of enums,
deleted members, registrations. Source: the statements of the app's modules (source.py)."""

from __future__ import annotations

import abc
import ast
import enum
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..owner import Owner, owner

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Modules of Python's whose members are others in another process.
_SURROUNDINGS = frozenset({"os", "sys", "platform", "socket", "time", "datetime", "random", "locale"})
_AUTO = frozenset({"auto()", "enum.auto()"})


def is_settled(statement: ast.stmt, namespace: dict[str, Any], is_made_alike: Callable[[str], bool]) -> bool:
    """Whether what a definition's decorators (and a class's keywords) are given is the same on a worker.

    is_made_alike: whether a name of the module is a definition or a constant as it is written
    """
    return all(_is_alike(n, namespace, is_made_alike) for given in _given(statement) for n in ast.walk(given))


def _given(statement: ast.stmt) -> Iterator[ast.expr]:
    for decorator in getattr(statement, "decorator_list", ()):
        if isinstance(decorator, ast.Call):
            yield from (*decorator.args, *(k.value for k in decorator.keywords))
    if isinstance(statement, ast.ClassDef):
        yield from (k.value for k in statement.keywords)
        yield from (base for base in statement.bases if isinstance(base, (ast.Call, ast.IfExp)))


def _is_alike(node: ast.AST, namespace: dict[str, Any], is_made_alike: Callable[[str], bool]) -> bool:
    if isinstance(node, ast.Call):  # of the app's own function: it may give anything
        called = namespace.get(node.func.id) if isinstance(node.func, ast.Name) else None
        return not (isinstance(called, types.FunctionType) and owner(called.__module__) is Owner.APP)
    if not isinstance(node, ast.Name) or node.id not in namespace:
        return True
    held = namespace[node.id]
    if isinstance(held, types.ModuleType):
        return owner(held.__name__) is not Owner.APP and held.__name__.partition(".")[0] not in _SURROUNDINGS
    return is_made_alike(node.id)


def has_values_of(made: enum.EnumMeta, body: dict[str, list[ast.stmt]], is_literal: Callable[..., bool]) -> bool:
    """Whether an enum's values are those that are written."""
    members: Mapping[str, Any] = made.__members__
    for name, member in members.items():
        statements = body.get(name, [])
        value = getattr(statements[0], "value", None) if len(statements) == 1 else None
        if not isinstance(value, ast.expr):
            return False
        if ast.unparse(value) not in _AUTO and not is_literal(statements[0], member._value_):
            return False
    return True


def lacks(made: type, body: dict[str, list[ast.stmt]]) -> bool:
    """Whether a class has lost what its body gives it."""
    return any(
        name not in vars(made) and not _is_private(name) and all(_stays(s, made) for s in statements)
        for name, statements in body.items()
    )


def _is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")


def _stays(statement: ast.stmt, made: type) -> bool:
    """Whether a class keeps what a statement gives it; what is annotated, dataclasses, attrs and others take."""
    if isinstance(statement, _DEFINITIONS):
        return True
    if isinstance(statement, ast.AnnAssign):
        plain = type(made) in (type, abc.ABCMeta) and not hasattr(made, "__attrs_attrs__")
        return plain and isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)


def registered_elsewhere(
    generic: Any, tree_of: Callable[[str], ast.Module | None], node_of: Callable[[types.FunctionType], Any]
) -> Iterator[ast.stmt]:
    """The functions that the app's modules register with one of functools.singledispatch, and that are not in it: the
    driver has put others there."""
    held = {id(node_of(f)) for f in generic.registry.values() if isinstance(f, types.FunctionType)}
    for name, module in sorted(sys.modules.items()):
        tree = tree_of(name) if isinstance(module, types.ModuleType) and owner(name) is Owner.APP else None
        for node in (n for n in ast.walk(tree) if isinstance(n, _DEFINITIONS)) if tree is not None else ():
            for decorator in node.decorator_list:
                function = decorator.func if isinstance(decorator, ast.Call) else decorator
                if not isinstance(function, ast.Attribute) or function.attr != "register":
                    continue
                if _value(function.value, vars(module)) is generic and id(node) not in held:
                    yield node


def _value(node: ast.expr, namespace: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return namespace.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(holder := _value(node.value, namespace), types.ModuleType):
        return vars(holder).get(node.attr)
    return None
