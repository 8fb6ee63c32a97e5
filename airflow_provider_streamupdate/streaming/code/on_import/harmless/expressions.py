"""What expressions give, and which of them may run the app's code."""

from __future__ import annotations

import ast
import types

from ...owner import Owner
from .calls import call
from .classes import has_own, is_plain_kind
from .kinds import APP, DOUBT, HARMLESS, MISSING
from .live import live
from .names import Names
from .uses import hashed, most, unpacked, used


def kind(names: Names, node: ast.AST) -> int:
    """What an expression gives; DOUBT where it may run the app's code."""
    if isinstance(node, ast.Constant):
        return HARMLESS
    if isinstance(node, ast.Name):
        inner = names.scope.kind(node.id)
        return names.kind_of_name(node.id) if inner is None else min(inner, APP)
    if isinstance(node, (ast.Tuple, ast.List)):
        return most(names, node.elts)
    if isinstance(node, ast.Set):
        return max((hashed(names, e) for e in node.elts), default=HARMLESS)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        keys = [unpacked(names, v) if k is None else hashed(names, k) for k, v in pairs]
        return max(most(names, node.values), *keys, HARMLESS)
    if isinstance(node, ast.Attribute):
        return _attribute(names, node)
    if isinstance(node, ast.Call):
        return call(names, node)
    if isinstance(node, ast.Subscript):
        return _subscript(names, node)
    if isinstance(node, ast.Lambda):
        defaults = [kind(names, d) for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
        return max([*defaults, APP])
    if isinstance(node, ast.BinOp):
        if _is_union(names, node):
            return APP
        return max(used(names, node.left), used(names, node.right))
    if isinstance(node, ast.Compare):
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return min(most(names, [node.left, *node.comparators]), DOUBT)
        return max(used(names, n) for n in (node.left, *node.comparators))
    if isinstance(node, ast.BoolOp):
        return max(used(names, n) for n in node.values)
    if isinstance(node, ast.UnaryOp):
        return used(names, node.operand)
    if isinstance(node, ast.IfExp):
        return max(used(names, node.test), kind(names, node.body), kind(names, node.orelse))
    if isinstance(node, (ast.Starred, ast.FormattedValue)):
        inside = [node.format_spec] if isinstance(node, ast.FormattedValue) and node.format_spec else []
        return max(used(names, n) for n in (node.value, *inside))
    if isinstance(node, ast.JoinedStr):
        return most(names, node.values)
    if isinstance(node, ast.NamedExpr):
        value = kind(names, node.value)
        names.scope.keep(node.target.id, value)
        return value
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        return _comprehension(names, node)
    if isinstance(node, ast.Slice):
        return max((used(names, n) for n in (node.lower, node.upper, node.step) if n), default=HARMLESS)
    return DOUBT


def hint(names: Names, node: ast.expr | None) -> int:
    """Of a type hint, which is an expression that runs unless all are kept as texts."""
    return HARMLESS if node is None or names.has_text_hints else kind(names, node)


def _attribute(names: Names, node: ast.Attribute) -> int:
    base = kind(names, node.value)
    if base != APP:
        return base
    held = live(names, node)
    if held is MISSING:
        return DOUBT
    owned = live(names, node.value)
    if isinstance(owned, types.ModuleType) and names.owners.owner(owned.__name__) is Owner.APP:
        other = names.program.names(owned.__name__)
        if other is not None and node.attr in other.bound:
            return other.kind_of_name(node.attr)
    return names.owners.value(held)


def _subscript(names: Names, node: ast.Subscript) -> int:
    base, item = kind(names, node.value), kind(names, node.slice)
    if max(base, item) >= DOUBT:
        return DOUBT
    held = live(names, node.value)
    if isinstance(held, type) and names.owners.owner(held.__module__) is Owner.APP:  # Base[int]
        own = has_own(names.owners, held, ("__class_getitem__",)) or not is_plain_kind(names.owners, type(held))
        return DOUBT if own else APP
    if base == APP:
        return DOUBT
    typed = isinstance(held, type) or type(held).__module__ == "typing"  # list[Order], Optional[Order]
    return DOUBT if item == APP and not typed else max(base, item)


def _is_union(names: Names, node: ast.expr) -> bool:
    """``Order | None``"""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and _is_union(names, node.left) and _is_union(names, node.right)
    if isinstance(node, ast.Constant):
        return node.value is None
    held = live(names, node.value if isinstance(node, ast.Subscript) else node)
    is_class = isinstance(held, type) and is_plain_kind(names.owners, type(held))
    return (is_class or type(held).__module__ == "typing") and kind(names, node) < DOUBT


def _comprehension(names: Names, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
    names.scope.enter()
    try:
        return max(_parts(names, node))
    finally:
        names.scope.leave()


def _parts(names: Names, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> list[int]:
    """Of all parts of a comprehension."""
    kinds = []
    for part in node.generators:
        kinds.append(used(names, part.iter))
        for n in ast.walk(part.target):
            if isinstance(n, ast.Name):
                names.scope.keep(n.id, kinds[-1])
        kinds += [used(names, test) for test in part.ifs]
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    is_hashed = isinstance(node, (ast.DictComp, ast.SetComp))
    return [*kinds, hashed(names, parts[0]) if is_hashed else kind(names, parts[0]), most(names, parts[1:])]
