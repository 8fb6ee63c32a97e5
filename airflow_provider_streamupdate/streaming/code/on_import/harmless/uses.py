"""What may run when the value of an expression is used: by an operator, as a key, unpacked."""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Iterable

from .classes import has_own, is_plain_kind
from .kinds import APP, DOUBT, HARMLESS
from .live import live
from .names import Names


def most(names: Names, nodes: Iterable[ast.expr]) -> int:
    """The worst of what is only put into something."""
    return max(map(names.kind, nodes), default=HARMLESS)


def used(names: Names, node: ast.expr) -> int:
    """By an operator, a loop, a condition: the app's own may be called by it."""
    kind = names.kind(node)
    return DOUBT if kind == APP else kind


def hashed(names: Names, node: ast.expr) -> int:
    """As a key, or in a set."""
    kind = names.kind(node)
    if kind == APP:
        held = live(names, node)
        known = isinstance(held, types.FunctionType) or (
            isinstance(held, type) and is_plain_kind(names.owners, type(held))
        )
        if isinstance(held, enum.Enum):
            known = not has_own(names.owners, type(held), ("__hash__", "__eq__"))
        return APP if known else DOUBT
    return kind


def unpacked(names: Names, node: ast.expr) -> int:
    """By ``**``."""
    kind = names.kind(node)
    known = isinstance(node, ast.Dict) or type(live(names, node)) is dict
    return DOUBT if kind == APP and not known else kind
