"""Time windows, recognized in what Spark's rules TimeWindowing and SessionWindowing make of F.window and
F.session_window."""

from __future__ import annotations

from collections.abc import Callable

from ....core.plan.expressions import Expression, Literal, SessionWindow, Window
from ....core.plan.visitors import replaced
from ...catalyst.tree import Node
from .scope import digest

Trace = Callable[[Node], Expression]

_TIME = Literal("its column")  # in the digest of a window, so that branches of a union can be told apart


def window(node: Node, trace: Trace) -> Expression | None:
    """Return a window or session window; None for any other expression. It has a digest of the whole expression but for
    its column, so that no detail is lost."""
    if not _is_window(node):
        return None
    gaps = [n for n in node.children[3].walk() if n.name == "TimestampAddInterval"]
    if len(gaps) == 1 and trace(gaps[0].children[0]) == trace(_unconverted(node.children[1])):
        column, gap = map(trace, gaps[0].children[:2])
        return SessionWindow(column, gap, digest([replaced(trace(c), column, _TIME) for c in node.children]))
    return _time_window(node, trace)


def _time_window(node: Node, trace: Trace) -> Window | None:
    """Return what F.window was asked for, read from what Spark's TimeWindowing rule makes of it."""
    if not _ends_after(node, trace):
        return None
    inner = list(node.walk())
    columns = {trace(n.children[0]) for n in inner if n.name == "PreciseTimestampConversion" and _to_long(n)}
    remainders = [n for n in inner if n.name == "Remainder"]
    slides = {n.children[1].fields.get("value") for n in remainders}
    starts = {_offset(n.children[0]) for n in remainders}
    ends = [n for n in node.children[3].walk() if n.name == "Add" and n.children[1].name == "Literal"]
    if len(columns) != 1 or len(slides) != 1 or len(starts) != 1 or not ends:
        return None
    column, size, slide = columns.pop(), int(ends[0].children[1].fields["value"]), int(slides.pop() or 0)
    parts = [replaced(trace(c), column, _TIME) for child in node.children for c in child.children]
    return Window(column, size, slide, starts.pop(), digest(parts))


def _is_window(expression: Node) -> bool:
    return (
        expression.name == "CreateNamedStruct"
        and len(expression.children) == 4
        and [c.fields.get("value") for c in expression.children[::2]] == ["start", "end"]
    )


def _ends_after(node: Node, trace: Trace) -> bool:
    """Return whether its end is its start and a number: an author's own struct may have fields of these names, of
    anything."""
    start, end = (_converted(node.children[place]) for place in (1, 3))
    if start is None or end is None or end.name != "Add" or end.children[1].name != "Literal":
        return False
    return trace(start) == trace(end.children[0])


def _converted(node: Node) -> Node | None:
    """Return the number of which a point in time is made."""
    while node.name in ("Alias", "KnownNullable"):
        node = node.children[0]
    return node.children[0] if node.name == "PreciseTimestampConversion" and not _to_long(node) else None


def _offset(dividend: Node) -> int:
    """TimeWindowing takes ``(time - startTime) % slide``."""
    if dividend.name == "Subtract" and dividend.children[1].name == "Literal":
        return int(dividend.children[1].fields["value"])
    return 0


def _unconverted(node: Node) -> Node:
    while node.name in ("PreciseTimestampConversion", "KnownNullable"):
        node = node.children[0]
    return node


def _to_long(node: Node) -> bool:
    return node.fields.get("toType") == "long"
