"""Mutants of a Python source: each differs from it at one place. By `ast`, with no thought for what the place means."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any

_OTHER_OPERATOR: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.UAdd: ast.USub, ast.USub: ast.UAdd,
}  # fmt: skip
_WITHOUT = (ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.expr_context)
_SMALL = (ast.expr, ast.arguments, ast.arg, ast.keyword, ast.alias, ast.comprehension)
_BODIES = ("body", "orelse", "finalbody")


def mutants(source: str, every: int = 1, start: int = 0) -> Iterator[tuple[str, str]]:
    """What was done where, and the mutant's source: one in so many, from a number on."""
    nodes = [(i, n) for i, n in enumerate(ast.walk(ast.parse(source))) if not isinstance(n, _WITHOUT)]
    places = [(i, node, name, choice) for i, node in nodes for name in _CHANGES for choice in range(4)]
    for index, node, name, choice in places[start % every :: every]:
        if not _changes(copy.deepcopy(node), name, choice):
            continue
        tree = ast.parse(source)
        _CHANGES[name](list(ast.walk(tree))[index], choice)
        where = f"{name} {choice} at line {getattr(node, 'lineno', 0)}"
        yield where, ast.unparse(ast.fix_missing_locations(tree))
    for index, change in enumerate(_other_names(source)):
        if index % every == start % every:
            yield change


def _changes(node: ast.AST, name: str, choice: int) -> bool:
    before = ast.dump(node) if isinstance(node, _SMALL) else None
    return _CHANGES[name](node, choice) is not False and (before is None or ast.dump(node) != before)


def _constant(node: ast.AST, choice: int) -> Any:
    if not isinstance(node, ast.Constant) or choice > 1:
        return False
    value = node.value
    if isinstance(value, bool):
        node.value = not value if not choice else 2
    elif isinstance(value, (int, float)):
        node.value = value + 1 if not choice else -value
    elif isinstance(value, str):
        node.value = value + "b" if not choice else value[:-1]
    elif isinstance(value, bytes):
        node.value = value + b"b"
    elif value is None:
        node.value = 0
    return None


def _operator(node: ast.AST, choice: int) -> Any:
    if choice:
        return False
    if isinstance(node, ast.Compare):
        node.ops[0] = _OTHER_OPERATOR[type(node.ops[0])]()
    elif isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign, ast.UnaryOp)) and type(node.op) in _OTHER_OPERATOR:
        node.op = _OTHER_OPERATOR[type(node.op)]()
    return None


def _swap(node: ast.AST, choice: int) -> Any:
    if choice:
        return False
    if isinstance(node, ast.BinOp):
        node.left, node.right = node.right, node.left
    elif isinstance(node, ast.Compare):
        node.left, node.comparators[0] = node.comparators[0], node.left
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        node.args[0], node.args[1] = node.args[1], node.args[0]
    elif isinstance(node, ast.IfExp) or (isinstance(node, ast.If) and node.orelse):
        node.body, node.orelse = node.orelse, node.body
    elif isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.arguments) and len(node.args) > 1:
        node.args[0], node.args[1] = node.args[1], node.args[0]
    elif isinstance(node, ast.ClassDef) and len(node.bases) > 1:
        node.bases.reverse()
    elif isinstance(node, ast.Try) and len(node.handlers) > 1:
        node.handlers.reverse()
    elif isinstance(node, (ast.Break, ast.Continue)):
        node.__class__ = ast.Continue if isinstance(node, ast.Break) else ast.Break
    return None


def _order(node: ast.AST, choice: int) -> Any:
    if choice:
        return False
    if isinstance(node, ast.Dict):
        node.keys.reverse()
        node.values.reverse()
    elif isinstance(node, (ast.List, ast.Tuple)) and isinstance(getattr(node, "ctx", None), ast.Load):
        node.elts.reverse()
    elif isinstance(node, ast.FunctionDef):
        node.decorator_list.reverse()
    elif isinstance(node, (ast.ClassDef, ast.Module)):
        node.body.reverse()
    elif isinstance(node, ast.Match):
        node.cases.reverse()
    return None


def _drop(node: ast.AST, choice: int) -> Any:
    """One part of what has several: an argument, an element, a decorator, a base, a condition, a default."""
    lists = [
        node.__dict__.get(name) for name in ("elts", "args", "keywords", "decorator_list", "bases", "ifs", "names")
    ]
    lists += [node.__dict__.get(name) for name in ("names", "defaults", "kw_defaults", "handlers", "cases", "items")]
    full = [found for found in lists if isinstance(found, list) and found]
    if isinstance(node, ast.Dict) and node.keys:
        full = [node.keys]
    if choice >= len(full):
        return False
    full[choice].pop()
    if isinstance(node, ast.Dict):
        node.values.pop()
    return None


def _statement(node: ast.AST, choice: int) -> Any:
    """A statement of a body is left out."""
    bodies = [body for name in _BODIES if isinstance(body := getattr(node, name, None), list) and body]
    statements = [(body, i) for body in bodies for i in range(len(body))]
    if choice >= min(len(statements), 4):
        return False
    body, index = statements[-1 - choice]
    body[index] = ast.Pass()
    return None


def _result(node: ast.AST, choice: int) -> Any:
    if choice:
        return False
    if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None:
        node.value = ast.Constant(None)
    elif isinstance(node, ast.Lambda):
        node.body = ast.Constant(3)
    elif isinstance(node, ast.Raise):
        node.__class__ = ast.Pass
    elif isinstance(node, ast.Await):
        node.value = ast.Constant(None)
    return None


def _name(node: ast.AST, choice: int, names: list[str] = ["x", "len", "abs", "min"]) -> Any:  # noqa: B006
    """Another name is read."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or choice > 2:
        return False
    node.id = [n for n in names if n != node.id][choice]
    return None


def _attribute(node: ast.AST, choice: int) -> Any:
    if choice:
        return False
    if isinstance(node, ast.Attribute):
        node.attr = {"upper": "lower", "items": "keys", "values": "keys", "append": "extend"}.get(node.attr, "real")
    elif isinstance(node, ast.ImportFrom) and len(node.names) > 1:
        node.names[0].name, node.names[1].name = node.names[1].name, node.names[0].name
    elif isinstance(node, ast.keyword) and node.arg:
        node.arg += "_"
    return None


_CHANGES: dict[str, Callable[[ast.AST, int], Any]] = {
    "constant": _constant, "operator": _operator, "swapped": _swap, "reversed": _order, "dropped": _drop,
    "left out": _statement, "result": _result, "name": _name, "attribute": _attribute,
}  # fmt: skip


def _other_names(source: str) -> Iterator[tuple[str, str]]:
    """Each module-level name is read where another is."""
    tree = ast.parse(source)
    defined = [n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    defined += [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    nodes = list(ast.walk(tree))
    for index, node in enumerate(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in defined:
            for other in [d for d in defined if d != node.id][:3]:
                changed = copy.deepcopy(tree)
                list(ast.walk(changed))[index].id = other  # type: ignore[attr-defined]
                yield f"{node.id} -> {other} at line {node.lineno}", ast.unparse(changed)
