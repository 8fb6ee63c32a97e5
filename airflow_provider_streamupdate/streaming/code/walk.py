"""The walk over everything that a function reaches.

Each object is described once, in the order in which it is met, and referred to by its number from then on: structures
of any depth and with cycles. Values without an identity (numbers, texts, tuples) are described where they stand. The
members of sets have no order: they are put in one by what they are and refer to (`canonical`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from .listing import written
from .owner import below_app
from .report import Report

_SIMPLE = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)})
_ROUNDS = 50


@attrs.frozen
class Ref:
    number: int  # of an object that is described on its own


@attrs.frozen
class Bag:
    members: tuple[Any, ...]  # the descriptions of a set's members


@attrs.frozen(eq=False)
class Variable:
    """A global variable or a module's: two that hold equal values are still two."""

    namespace: dict[str, Any]  # kept alive


class Walk:
    def __init__(self, report: Report, describe: Callable[[Walk, Any], Any]) -> None:
        self.report = report
        self.described: list[Any] = []  # by the numbers of the objects
        self.imported: set[str] = set()  # modules of the app's that are imported
        self.members: set[tuple[str, str]] = set()  # modules with names in them that are used; with none: all of it
        self.namespaces: dict[int, dict[str, Any]] = {}  # of the functions that were met
        self._describe = describe
        self._numbers: dict[Any, int] = {}
        self._met: list[Any] = []  # keeps them alive, too: an id is only unique while its object lives

    def finish(self) -> None:
        """Describe all that is referred to."""
        while len(self.described) < len(self._met):
            self.described.append(self._describe(self, self._met[len(self.described)]))

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in (str, bytes):
            text = value if kind is str else os.fsdecode(value)
            self.report.mentions(text)
            place = below_app(text)
            return kind.__name__, written(value) if place is None else ("in the app's folder", place)
        if kind in _SIMPLE:
            return kind.__name__, written(value)
        if kind is tuple:
            return self.sequence(value)
        if kind is frozenset:
            return self.unordered(value)
        return self._ref(id(value), value)

    def _ref(self, key: Any, value: Any) -> Ref:
        if key not in self._numbers:
            self._numbers[key] = len(self._met)
            self._met.append(value)
        return Ref(self._numbers[key])

    def sequence(self, values: Iterable[Any]) -> Any:
        return "each", *map(self.of, values)

    def named(self, values: Iterable[tuple[str, Any]]) -> Any:
        return [(name, self.of(value)) for name, value in values]

    def unordered(self, values: Iterable[Any]) -> Any:
        """The members of a set."""
        return "set", Bag(tuple(map(self.of, values)))

    def variable(self, namespace: dict[str, Any], name: str) -> Ref:
        return self._ref((id(namespace), name), Variable(namespace))


def digest(described: Any) -> str:
    return hashlib.sha256(repr(described).encode("utf8", "surrogatepass")).hexdigest()


def canonical(root: Any, described: list[Any]) -> list[Any]:
    """A description and those of the objects that it refers to, with the members of sets in an order that is the same
    in each process.

    Each object gets a label of what it is, then of what the ones are that it refers to, and so on until no more of them
    are told apart. Members are put in the order of their labels, and the objects are numbered anew.
    """
    labels = [""] * len(described)
    has_sets = any(_has_bag(each) for each in (root, *described))

    def key(value: Any) -> Any:
        if isinstance(value, Ref):
            return "#", labels[value.number]
        if isinstance(value, Bag):
            return sorted(repr(key(v)) for v in value.members)
        return [key(v) for v in value] if isinstance(value, (tuple, list)) else value

    for _ in range(_ROUNDS if has_sets else 0):
        before = len(set(labels))
        labels = [digest(key(each)) for each in described]
        if len(set(labels)) == before:
            break
    numbers: dict[int, int] = {}

    def ordered(value: Any) -> Any:
        if isinstance(value, Bag):
            return [ordered(v) for v in sorted(value.members, key=lambda v: repr(key(v)))]
        if isinstance(value, Ref):
            return "#", numbers.setdefault(value.number, len(numbers))
        return [ordered(v) for v in value] if isinstance(value, (tuple, list)) else value

    found = [ordered(root)]
    while len(found) <= len(numbers):  # describing them numbers more
        found += [ordered(described[number]) for number in list(numbers)[len(found) - 1 :]]
    return found


def _has_bag(value: Any) -> bool:
    return isinstance(value, Bag) or (isinstance(value, (tuple, list)) and any(map(_has_bag, value)))
