"""The walk over everything that a function reaches.

Each object is described once, in the order in which it is met, and referred to by its number from then on: structures
of any depth and with cycles. Values without an identity (numbers, texts, tuples) are described where they stand.
"""

from __future__ import annotations

import hashlib
import os
import types
from collections.abc import Iterable
from typing import Any

from .owner import below_app
from .report import Report, Where

_SIMPLE = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)})
_LONG = 1000
_AHEAD = 100  # members of sets that are walked on their own: each may reach all there is


class Walk:
    def __init__(self, report: Report) -> None:
        self.report = report
        self._numbers: dict[int, int] = {}
        self._met: list[tuple[Any, Where]] = []  # keeps them alive, too: an id is only unique while its object lives
        self._alive: list[Any] = []
        self.on_import: dict[str, tuple[Any, ...]] = {}  # what importing a module does (modules.effects)
        self._variables: dict[tuple[int, str], int] = {}

    def all(self, value: Any, where: Where) -> list[Any]:
        """The descriptions of a value and of all it reaches."""
        from .objects import describe_object

        described = [self.of(value, where)]
        self.report.handed_on.clear()  # Spark only calls the function itself
        done = 0
        while True:
            while done < len(self._met):
                described.append(describe_object(self, *self._met[done]))
                done += 1
            if not (hinted := self.report.take_hints()):
                return described
            described += [("hint", self.of(hint, place)) for hint, place in hinted]

    def of(self, value: Any, where: Where, is_called: bool = False) -> Any:
        """is_called: whether the code that has it does nothing with it but to call it"""
        kind = type(value)
        if kind is types.FunctionType and not is_called:
            self.report.handed_on.add(id(value))
        if kind is bytes and (place := below_app(os.fsdecode(value))) is not None:
            return "bytes with the app's folder", place
        if kind is str and (place := below_app(value)) is not None:
            return "a text with the app's folder", place
        if kind is str:
            self.report.mentions_text(value)
        if kind in _SIMPLE:
            return _simple(value)
        if kind is tuple:
            return self.each(value, where)
        if kind is frozenset:
            return "set", self.unordered(value, where)
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._met)
            self._met.append((value, where))
        return "#", self._numbers[id(value)]

    def each(self, values: Iterable[Any], where: Where) -> Any:
        values = tuple(values)
        if len(values) > 8 and all(type(v) in _SIMPLE for v in values):
            return "values", digest([self.of(v, where) for v in values])
        return "tuple", *[self.of(v, where.part(f"[{i}]")) for i, v in enumerate(values)]

    def unordered(self, values: Iterable[Any], where: Where) -> Any:
        """The members of a set: each is looked at on its own first, which gives their order."""
        members = list(values)
        if all(type(v) in _SIMPLE for v in members):
            return self.each(sorted(members, key=self.report.ranks.of), where)
        alike: dict[str, list[Any]] = {}
        for member in members:
            alike.setdefault(self.report.ranks.of(member), []).append(member)
        return self.each([m for rank in sorted(alike) for m in self._apart(alike[rank], where)], where)

    def _apart(self, members: list[Any], where: Where) -> list[Any]:
        """Members that look alike from near by: each is walked on its own, which gives their order. Within such a walk
        they stay as they are."""
        if len(members) == 1 or self.report.looks_ahead:
            return members
        found: list[tuple[str, Any]] = []
        for member in members:
            self.report.ahead[0] += 1
            if self.report.ahead[0] > _AHEAD:
                self.report.cannot(where, "the order of a set's members, which look alike, takes too long to tell")
                return members
            found.append((digest(Walk(self.report.apart()).all(member, where)), member))
        return [member for _, member in sorted(found, key=lambda pair: pair[0])]

    def variable(self, namespace: dict[str, Any], name: str) -> int:
        """The number of a global variable or a module's: two that hold equal values are still two."""
        self._alive.append(namespace)
        return self._variables.setdefault((id(namespace), name), len(self._variables))


def digest(described: Any) -> str:
    return hashlib.sha256(repr(described).encode("utf8", "surrogatepass")).hexdigest()


def _simple(value: Any) -> Any:
    if isinstance(value, (str, bytes)) and len(value) > _LONG:
        data = value.encode("utf8", "surrogatepass") if isinstance(value, str) else value
        return type(value).__name__, len(value), hashlib.sha256(data).hexdigest()
    return type(value).__name__, written(value)


def written(value: Any) -> str:
    """repr(), which refuses numbers of more than 4300 digits."""
    return hex(value) if type(value) is int and value.bit_length() > _LONG else repr(value)
