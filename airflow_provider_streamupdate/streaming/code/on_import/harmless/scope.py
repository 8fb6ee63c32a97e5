"""The class bodies and comprehensions around what is looked at, which have names of their own."""

from __future__ import annotations

from typing import Any

from .kinds import PLATFORM


class Scope:
    def __init__(self) -> None:
        self._kinds: list[dict[str, int]] = []  # what the names stand for, the innermost last
        self._classes: list[type | None] = []  # None for a comprehension

    def enter(self, made: type | None = None) -> None:
        """A class body (made: the class), or a comprehension."""
        self._kinds.append({})
        self._classes.append(made)

    def leave(self) -> None:
        self._kinds.pop()
        self._classes.pop()

    def keep(self, name: str, kind: int) -> None:
        """What a name of the innermost is given; nothing outside of them all."""
        if self._kinds:
            self._kinds[-1][name] = max(kind, self._kinds[-1].get(name, PLATFORM))

    def kind(self, name: str) -> int | None:
        """None where it is a name of the module."""
        return next((kinds[name] for kinds in reversed(self._kinds) if name in kinds), None)

    @property
    def innermost(self) -> dict[str, int] | None:
        return self._kinds[-1] if self._kinds else None

    @property
    def made(self) -> type | None:
        """The innermost class."""
        return next((made for made in reversed(self._classes) if made is not None), None)

    def held_by_class(self, name: str) -> Any:
        """What the innermost class has under a name that was given in its body before."""
        made = self.made
        return vars(made).get(name) if made is not None and name in self._kinds[-1] else None
