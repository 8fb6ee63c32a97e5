"""Decorators of the app's that only wrap: they call nothing of the function that they are given."""

from __future__ import annotations

import ast
import functools
from typing import Any

from ..source import hints_of, is_plain_hint

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def only_wraps(node: Any, times: int, namespace: dict[str, Any]) -> bool:
    """Whether a decorator does nothing but to return a function that it holds (times: 2 for one that is called with
    arguments first), or what it is given."""
    if not isinstance(node, _FUNCTIONS) or (node.decorator_list and times > 1):
        return False
    inner = {s.name: s for s in node.body if isinstance(s, _FUNCTIONS)}
    given = {a.arg for a in node.args.args}
    for s in node.body:
        if isinstance(s, _FUNCTIONS):
            known = all(isinstance(d, ast.Call) and _is_wraps(d.func, namespace) for d in s.decorator_list)
            if not known or s.args.defaults or any(s.args.kw_defaults) or not all(map(is_plain_hint, hints_of(s))):
                return False
        elif isinstance(s, ast.Return):
            if not isinstance(s.value, ast.Name) or s.value.id not in {*inner, *(given if times == 1 else ())}:
                return False
            if times > 1 and not only_wraps(inner[s.value.id], times - 1, namespace):
                return False
        elif not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)):
            return False
    return True


def _is_wraps(node: ast.expr, namespace: dict[str, Any]) -> bool:
    """``functools.wraps``"""
    if isinstance(node, ast.Attribute):
        return node.attr == "wraps" and isinstance(node.value, ast.Name) and namespace.get(node.value.id) is functools
    return isinstance(node, ast.Name) and namespace.get(node.id) is functools.wraps
