"""Tables whose rows depend on which of their columns are read: `choosy` ones (spark_internals/plans/leaves.py)."""

from __future__ import annotations

from ..catalyst.marks import type_text
from ..catalyst.tree import Node
from ..sources import names_read, with_what_is_above
from .expressions.digest import digest


def note_tables_read(analyzed: Node, optimized: Node) -> None:
    """Which columns are read, and as which types, becomes a part of what such a table is, in both plans of a query."""
    read: dict[str, set[str]] = {}
    for leaf, above in with_what_is_above(optimized, ()):
        if leaf.fields.get("choosy") and leaf.fields["identity"]:
            read.setdefault(leaf.fields["identity"], set()).add(_typed(leaf, names_read(leaf, above)))
    for node in (*analyzed.walk(), *optimized.walk()):
        if node.fields.get("choosy") and (identity := node.fields["identity"]):
            told = read.get(identity) or {_typed(node, None)}  # all of them, where the optimizer made another leaf
            node.fields["identity"] = f"{identity} as #{digest(sorted(told))}"


def _typed(leaf: Node, names: tuple[str, ...] | None) -> str:
    columns = [(str(a.fields["name"]), type_text(a.fields["dataType"])) for a in leaf.expressions("output")]
    return ", ".join(f"{name} {kind}" for name, kind in sorted(columns) if names is None or name in names)
