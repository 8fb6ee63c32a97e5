"""What is asked of expressions, and how they are changed: each by one walk over the tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import attrs

from .expressions import (
    EITHER,
    Branch,
    Call,
    Column,
    Expression,
    Output,
    Python,
    SessionWindow,
    Union,
    Unknown,
    Window,
    fold,
)


def union(branches: Iterable[Branch]) -> Expression:
    """Return the same column of all branches as one expression. Their order does not count."""
    ordered = sorted(branches, key=lambda branch: branch.text)
    if len(set(ordered)) > 1:
        return Union(tuple(ordered))
    return ordered[0].value if ordered[0].plain else Union((ordered[0],))


# Questions


def is_unknown(tree: Expression) -> bool:
    """Return whether a part of it could not be traced or read."""
    return any(isinstance(node, Unknown) for node in tree.walk())


def has_opaque_code(tree: Expression) -> bool:
    """Return whether it calls a function whose code cannot be compared."""
    return any(isinstance(node, Python) and not node.digest for node in tree.walk())


def is_comparable(tree: Expression) -> bool:
    """Return whether an equal tree means the same."""
    return not is_unknown(tree) and not has_opaque_code(tree)


def contains(tree: Expression, part: Expression) -> bool:
    return any(node == part for node in tree.walk())


def calls(tree: Expression) -> Iterator[Call]:
    return (node for node in tree.walk() if isinstance(node, Call))


def references(tree: Expression) -> set[str]:
    """Return the names of the sources and stages that it refers to."""
    found: set[str] = set()
    for node in tree.walk():
        if isinstance(node, Column):
            found.add(node.source)
        elif isinstance(node, Output):
            found.add(node.stage)
        elif isinstance(node, Branch):
            found |= {*node.sources, *node.stages}
    return found


def column_types(trees: Iterable[Expression]) -> dict[Column, str]:
    """Return the type of each column that is read. A column that is read as a whole in one place, and of
    which only the shape counts in another, is read as a whole."""
    found: dict[Column, str] = {}
    for column in (node for tree in trees for node in tree.walk() if isinstance(node, Column) and node.type):
        found[column] = max(column.type, found.get(column, ""), key=len)
    return found


def is_window(key: Expression) -> bool:
    """Return whether a key is a time window, sliding ones and those over a union included."""
    if isinstance(key, Union):
        return all(branch.plain and is_window(branch.value) for branch in key.branches)
    several = isinstance(key, Call) and key.function == EITHER
    return isinstance(key, Window) or (several and all(map(is_window, key.children)))


def sessions(key: Expression) -> list[SessionWindow]:
    """Return the session windows that a key is, by branch; none for another key."""
    parts = [branch.value for branch in key.branches] if isinstance(key, Union) else [key]
    found = [part for part in parts if isinstance(part, SessionWindow)]
    return found if len(found) == len(parts) else []


# Changes


def with_columns(tree: Expression, columns: Mapping[tuple[str, str], str]) -> Expression:
    """Return the expression with columns under other names. columns: the new name by source and old name"""

    def rename_node(node: Any, children: list[Expression]) -> Expression:
        node = node.with_children(children)
        name, dot, below = node.path.partition(".") if isinstance(node, Column) else ("", "", "")
        new = columns.get((node.source, name)) if name else None
        return attrs.evolve(node, path=f"{new}{dot}{below}") if new else node

    return fold(tree, rename_node)


def renamed(tree: Expression, names: Mapping[str, str]) -> Expression:
    """Return the expression with sources and stages under other names."""

    def changed(these: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names.get(name, name) for name in these))

    def rename_node(node: Any, children: list[Expression]) -> Expression:
        node = node.with_children(children)
        if isinstance(node, Column) and node.source in names:
            return attrs.evolve(node, source=names[node.source])
        if isinstance(node, Output) and node.stage in names:
            return attrs.evolve(node, stage=names[node.stage])
        if isinstance(node, Branch) and (node.sources or node.stages):
            return attrs.evolve(node, sources=changed(node.sources), stages=changed(node.stages))
        return union(node.branches) if isinstance(node, Union) else node

    return fold(tree, rename_node)


def without_branches(tree: Expression, gone: Iterable[str], kept: Iterable[str]) -> Expression:
    """Return the expression without the branches of unions that refer to the sources and stages `gone` and to none of
    `kept`: a branch that comes with a new source, or goes with an old one, says nothing about the others' state."""
    gone, kept = {*gone}, {*kept}

    def drop_from_node(node: Any, children: list[Expression]) -> Expression:
        if not children:
            return cast(Expression, node)
        node = node.with_children(children)
        if isinstance(node, Branch):
            return attrs.evolve(node, stages=tuple(name for name in node.stages if name not in gone))
        if isinstance(node, Union):
            return union([b for b in node.branches if not refers_only_to(b, gone, kept)] or node.branches)
        return cast(Expression, node)

    return fold(tree, drop_from_node) if gone else tree


def refers_only_to(tree: Expression, gone: Iterable[str], kept: Iterable[str]) -> bool:
    """Return whether it refers to sources and stages `gone`, and to none of `kept`."""
    found = references(tree)
    return not found.isdisjoint(gone) and found.isdisjoint(kept)


def replaced(tree: Expression, part: Expression, by: Expression) -> Expression:
    """Return the expression with one part replaced wherever it is."""
    return fold(tree, lambda node, children: by if node == part else node.with_children(children))
