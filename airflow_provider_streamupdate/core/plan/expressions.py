"""Expressions of a query as trees, traced to the columns of sources. Equal trees compute the same.

The planner builds them (streaming/planning/expressions/expression.py); `rendering.py` writes them for people.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import attrs

from ..clock import duration
from ..serde import converter

T = TypeVar("T")

# Metadata of the fields that hold other expressions: one, several, or several with a name each.
_ONE, _MANY, _NAMED = ({"holds": how} for how in ("one", "many", "named"))


class Expression:
    """A node of a tree. Frozen, so that trees share what they have in common."""

    @functools.cached_property
    def children(self) -> tuple[Expression, ...]:
        found: list[Expression] = []
        for field in _fields(type(self)):
            held, value = field.metadata.get("holds"), getattr(self, field.name)
            if held == "one":
                found.append(value)
            elif held:
                found += [inner for _, inner in value] if held == "named" else value
        return tuple(found)

    def with_children(self, children: Sequence[Expression]) -> Expression:
        """Return the node with other expressions in the places of `children`."""
        if not children:
            return self
        left, changes = iter(children), dict[str, Any]()
        for field in _fields(type(self)):
            held, value = field.metadata.get("holds"), getattr(self, field.name)
            if held == "one":
                changes[field.name] = next(left)
            elif held == "many":
                changes[field.name] = tuple(next(left) for _ in value)
            elif held == "named":
                changes[field.name] = tuple((name, next(left)) for name, _ in value)
        made: Expression = attrs.evolve(self, **changes)  # type: ignore[misc]
        return made

    @functools.cached_property
    def text(self) -> str:
        """All that counts, except types of columns, on one line; by it, operands are put in order."""
        left: list[Expression] = [self]
        while left:
            missing = [child for child in left[-1].children if "text" not in vars(child)]
            if not missing:
                node = left.pop()
                vars(node)["text"] = _text(node, [child.text for child in node.children])
            left += missing
        return str(vars(self)["text"])

    def __repr__(self) -> str:
        return self.text

    def walk(self) -> Iterator[Expression]:
        left: list[Expression] = [self]
        while left:
            node = left.pop()
            yield node
            left += node.children[::-1]


def _fields(kind: Any) -> tuple[Any, ...]:
    return tuple(kind.__attrs_attrs__)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Column(Expression):
    """A column, or a field in one.

    source: the name of the source or stage that has it, or ``static:`` and what a table is. Empty for a variable of a
        lambda function
    path: ``user.id``; names with other signs are in backticks. Empty for the source as a whole
    type: in words. It has no part in equality: what depends on it is judged separately (rules/stages/column_type.py)
    """

    source: str
    path: str
    type: str = attrs.field(default="", eq=False)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Literal(Expression):
    """A constant. value: as it is shown, texts in quotes; type: Spark's name of it"""

    value: str
    type: str = ""


EITHER = "either"  # the function of a column of which several rows are made of one (of grouping sets, sliding windows)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Call(Expression):
    """A function of Spark's, or another operation.

    function: Spark's class in lower case (``sum``, ``equalto``)
    arguments: what it is computed from
    options: its settings that count
    """

    function: str
    arguments: tuple[Expression, ...] = attrs.field(default=(), metadata=_MANY)
    options: tuple[tuple[str, Expression], ...] = attrs.field(default=(), metadata=_NAMED)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Lambda(Expression):
    """A lambda function; its variables are columns of no source."""

    variables: tuple[str, ...]
    body: Expression = attrs.field(metadata=_ONE)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Python(Expression):
    """A function of the app's.

    digest: of its code. Empty when the code cannot be compared: two of these are never known to mean the same
    name: for people, with the reason where there is no digest. It has no part in equality
    """

    digest: str
    name: str = attrs.field(default="", eq=False)
    arguments: tuple[Expression, ...] = attrs.field(default=(), metadata=_MANY)
    options: tuple[tuple[str, Expression], ...] = attrs.field(default=(), metadata=_NAMED)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Unknown(Expression):
    """A part that could not be traced or read. Two of them are never known to mean the same."""

    reason: str
    arguments: tuple[Expression, ...] = attrs.field(default=(), metadata=_MANY)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Window(Expression):
    """A time window of a column, in microseconds; tumbling when size and slide are equal. digest: of the whole
    expression but for its column"""

    column: Expression = attrs.field(metadata=_ONE)
    size: int
    slide: int
    start: int
    digest: str

    @property
    def tumbling(self) -> bool:
        return self.size == self.slide


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class SessionWindow(Expression):
    """A session window of a column. digest: as a window's"""

    column: Expression = attrs.field(metadata=_ONE)
    gap: Expression = attrs.field(metadata=_ONE)
    digest: str


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Output(Expression):
    """A key, an aggregate or a column that has passed a stage."""

    stage: str
    value: Expression = attrs.field(metadata=_ONE)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Branch(Expression):
    """One branch of a union's column.

    sources: the branch's sources and stages, where `value` names none of them
    where, by: the filters on the branch, and what makes its rows, where branches read the same
    stages: those that its rows have passed and that `value` does not name
    number: tells branches that are described alike from each other (0: there are none)
    """

    value: Expression = attrs.field(metadata=_ONE)
    sources: tuple[str, ...] = ()
    where: tuple[Expression, ...] = attrs.field(default=(), metadata=_MANY)
    by: tuple[Expression, ...] = attrs.field(default=(), metadata=_MANY)
    stages: tuple[str, ...] = ()
    number: int = 0

    @property
    def plain(self) -> bool:
        return not (self.sources or self.where or self.by or self.stages or self.number)


@attrs.frozen(cache_hash=True, repr=False, slots=False)
class Union(Expression):
    """A column that is another one on each branch of a union. Made by `union`, which puts the branches in order."""

    branches: tuple[Branch, ...] = attrs.field(metadata=_MANY)


_KINDS = (Column, Literal, Call, Lambda, Python, Unknown, Window, SessionWindow, Output, Branch, Union)
_BY_NAME: dict[str, Any] = {kind.__name__.lower(): kind for kind in _KINDS}


def fold(tree: Expression, make: Callable[[Any, list[T]], T]) -> T:
    """Return what `make` gives for the root, of each node and what it gave for the node's children. Without recursion:
    trees may be deep."""
    made: dict[int, T] = {}
    left = [(tree, False)]
    while left:
        node, children_made = left.pop()
        if children_made:
            made[id(node)] = make(node, [made[id(child)] for child in node.children])
        elif id(node) not in made:
            left.append((node, True))
            left += [(child, False) for child in node.children]
    return made[id(tree)]


def field_of(value: Expression, name: str) -> Call:
    """Return a field, or a column, of what an expression gives."""
    return Call("field", (value,), (("name", Literal(name)),))


def named(name: str, value: Expression) -> Call:
    """Return an expression that is given under a name."""
    return Call("named", (value,), (("name", Literal(name)),))


# As text


def _text(node: Expression, parts: list[str]) -> str:
    match node:
        case Literal():
            return f"{node.value}:{node.type}" if node.type else node.value
        case Call():
            return special_text(node, parts) or f"{node.function}({arguments_text(node, parts)})"
        case Python() if node.digest:
            return f"python#{node.digest}({arguments_text(node, parts)})"
        case Python():
            return f"python:{node.name}({arguments_text(node, parts)})"
        case Window():
            return f"window({parts[0]}, {size_text(node)}, #{node.digest})"
        case SessionWindow():
            return f"session_window({parts[0]}, gap {parts[1]}, #{node.digest})"
        case _:
            return plain_text(node, parts)


def plain_text(node: Expression, parts: list[str]) -> str:
    """Write nodes that read the same in words and exactly."""
    match node:
        case Column():
            return f"{node.source}.{node.path}" if node.source and node.path else node.source or node.path
        case Lambda():
            return f"({', '.join(node.variables)} -> {parts[0]})"
        case Unknown():
            return f"?{node.reason}" + (f"({', '.join(parts)})" if parts else "")
        case Output():
            return f"{node.stage}.{parts[0]}"
        case Branch():
            return _branch(node, parts)
        case Union() if len(parts) == 1:
            return parts[0]
    return f"⟨{' ∪ '.join(parts)}⟩"


def _branch(node: Branch, parts: list[str]) -> str:
    value, where, by = parts[0], parts[1 : 1 + len(node.where)], parts[1 + len(node.where) :]
    return "".join(
        [
            f"{'+'.join(node.sources)}: " if node.sources else "",
            value,
            f" where {' and '.join(where)}" if where else "",
            f" by {', '.join(by)}" if by else "",
            *(f" after {name}" for name in node.stages),
            f" #{node.number}" if node.number else "",
        ]
    )


def arguments_text(node: Call | Python, parts: Sequence[str], left_out: Sequence[str] = ()) -> str:
    count = len(node.arguments)
    options = zip(node.options, parts[count:], strict=True)
    shown = [f"{name}={value}" for (name, _), value in options if name not in left_out]
    return ", ".join([*parts[:count], *shown])


def special_text(node: Call, parts: list[str]) -> str | None:
    """Write what is no function but another form; None for a function."""
    first, rest = (parts[0], parts[1:]) if parts else ("", [])
    match node.function:
        case "":
            return arguments_text(node, parts)
        case "field":
            return f"{first}.{rest[0]}"
        case "named":
            return f"{rest[0]} = {first}"
        case "again":
            return f"{first}{'′' * int(rest[0])}"
        case "distinct" | "left" | "right" | "by" | "event time":
            return f"{node.function} {first}"
        case "filter" if rest:
            return f"{first} filter ({rest[0]})"
        case name if name == EITHER:
            return f"({' | '.join(parts)})"
        case "in partitions":
            return f"{first} in {'; '.join(rest)}"
        case "of" | "grouped by":
            return f"{first} {node.function} ({', '.join(rest)})"
        case "times":
            return f"{first} {rest[0]} times"
        case "struct<>" | "array<>" | "map<>":  # a type
            return f"{node.function[:-1]}{arguments_text(node, parts)}>"
    return None


def size_text(window: Window) -> str:
    return duration(window.size) + ("" if window.tumbling else f", every {duration(window.slide)}")


# As data


def to_rows(tree: Expression) -> list[list[Any]]:
    """Return the nodes in pre-order, a row each: the kind, and the fields. In place of a field that holds expressions
    stands their number, or their names. (Nested as the tree is, deep ones could not be written as JSON.)"""
    rows = []
    for node in tree.walk():
        row: list[Any] = [type(node).__name__.lower()]
        for field in _fields(type(node)):
            held, value = field.metadata.get("holds"), getattr(node, field.name)
            if held == "named":
                value = [name for name, _ in value]
            elif held:
                value = 1 if held == "one" else len(value)
            row.append(list(value) if isinstance(value, tuple) else value)
        rows.append(row)
    return rows


def from_rows(rows: list[list[Any]]) -> Expression:
    """Return the tree of `to_rows`. ValueError or TypeError where they are none."""
    stack: list[Expression] = []
    for kind, *values in reversed(rows):
        made: dict[str, Any] = {}
        for field, value in zip(_fields(_BY_NAME[kind]), values, strict=True):
            held = field.metadata.get("holds")
            if held == "named":
                made[field.name] = tuple((str(name), stack.pop()) for name in value)
            elif held == "many":
                made[field.name] = tuple(stack.pop() for _ in range(value))
            elif held:
                made[field.name] = stack.pop()
            else:
                made[field.name] = converter.structure(value, _SCALARS[field.type])
        stack.append(_BY_NAME[kind](**made))
        hash(stack[-1])  # is kept, so that a deep tree needs no deep stack later
    [tree] = stack
    return tree


_SCALARS: dict[Any, Any] = {"str": str, "int": int, "tuple[str, ...]": tuple[str, ...]}
converter.register_unstructure_hook_func(lambda kind: isinstance(kind, type) and issubclass(kind, Expression), to_rows)
converter.register_structure_hook_func(
    lambda kind: isinstance(kind, type) and issubclass(kind, Expression), lambda rows, _: from_rows(rows)
)
