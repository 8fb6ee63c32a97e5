"""Time windows, recognized in what Spark's rules TimeWindowing and SessionWindowing make of F.window and
F.session_window."""

from __future__ import annotations

from collections.abc import Callable

from ....core.clock import duration
from ....core.plan.plan import WindowKey
from ...catalyst.tree import Node
from .digest import digest

Text = Callable[[Node], str]

_TIME = "its column"  # which is in the text itself, where branches of a union can be told apart


def window_key(expression: Node, text: Text) -> WindowKey | None:
    """What F.window was asked for, read from what Spark's TimeWindowing rule makes of it; None for any other
    expression. `position` is left at 0."""
    if expression.name in ("Alias", "KnownNullable"):
        return window_key(expression.children[0], text)
    if not _is_window(expression) or not _ends_after(expression, text):
        return None
    inner = list(expression.walk())
    columns = {text(n.children[0]) for n in inner if n.name == "PreciseTimestampConversion" and _to_long(n)}
    remainders = [n for n in inner if n.name == "Remainder"]
    slides = {n.children[1].fields.get("value") for n in remainders}
    starts = {_offset(n.children[0]) for n in remainders}
    ends = [n for n in expression.children[3].walk() if n.name == "Add" and n.children[1].name == "Literal"]
    if len(columns) != 1 or len(slides) != 1 or len(starts) != 1 or not ends:
        return None
    size, slide = int(ends[0].children[1].fields["value"]), int(slides.pop() or 0)
    return WindowKey(position=0, column=columns.pop(), size=size, slide=slide, start=starts.pop())


def window_text(expression: Node, text: Text) -> str | None:
    """``window(column, size, slide, #digest)`` or ``session_window(column, gap)``; None for any other expression. A
    digest of the whole expression but for its column stays in the text, so that no detail is lost."""
    if not _is_window(expression):
        return None
    gaps = [n for n in expression.children[3].walk() if n.name == "TimestampAddInterval"]
    if len(gaps) == 1 and text(gaps[0].children[0]) == text(_unconverted(expression.children[1])):
        gap = text(gaps[0].children[1])
        column = text(gaps[0].children[0])
        shape = digest([text(c).replace(column, _TIME) for c in expression.children])
        return f"session_window({column}, gap {gap}, #{shape})"
    window = window_key(expression, text)
    if window is None:
        return None
    inner = [text(c) for child in expression.children for c in child.children]
    shape = digest([t.replace(window.column, _TIME) for t in inner])
    sliding = "" if window.tumbling else f", every {duration(window.slide)}"
    return f"window({window.column}, {duration(window.size)}{sliding}, #{shape})"


def _is_window(expression: Node) -> bool:
    return (
        expression.name == "CreateNamedStruct"
        and len(expression.children) == 4
        and [c.fields.get("value") for c in expression.children[::2]] == ["start", "end"]
    )


def _ends_after(window: Node, text: Text) -> bool:
    """Whether its end is its start and a number: an author's own struct may have fields of these names, of anything."""
    start, end = (_converted(window.children[place]) for place in (1, 3))
    if start is None or end is None or end.name != "Add" or end.children[1].name != "Literal":
        return False
    return text(start) == text(end.children[0])


def _converted(node: Node) -> Node | None:
    """What is made a point in time of, if anything is."""
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
