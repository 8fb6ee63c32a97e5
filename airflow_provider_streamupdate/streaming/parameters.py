"""The parameters that a query function is given: a dict that notes which of them are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..core.errors import InvalidInputError
from ..core.names import meant


class MissingParameterError(KeyError):
    """A parameter that was read and not set; a KeyError, since that is what a dict raises."""


class Parameters(dict[str, str]):
    """Reading one (``[]``, ``get``, ``in``, ``pop`` ...) notes its name; going through all of them notes all."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self._given = tuple(values)
        self._asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self._asked.add(name)
        return super().__getitem__(name)

    def __missing__(self, name: str) -> str:
        raise MissingParameterError(name)

    def __contains__(self, name: object) -> bool:
        self._asked.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, *default: Any) -> Any:
        self._asked.add(name)
        return super().get(name, *default)

    def pop(self, name: str, *default: Any) -> Any:
        self._asked.add(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, *default: Any) -> Any:
        self._asked.add(name)
        return super().setdefault(name, *default)

    # What goes through all of them, `dict(params)`, `{**params}` and `f(**params)` among it, which call `keys` because
    # `__iter__` is a method of its own (CPython's dict_merge).

    def __iter__(self) -> Iterator[str]:
        self._asked.update(self._given)
        return super().__iter__()

    def keys(self) -> Any:
        self._asked.update(self._given)
        return super().keys()

    def values(self) -> Any:
        self._asked.update(self._given)
        return super().values()

    def items(self) -> Any:
        self._asked.update(self._given)
        return super().items()

    def popitem(self) -> Any:
        self._asked.update(self._given)
        return super().popitem()

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def __reversed__(self) -> Any:
        return reversed(dict(self))

    def copy(self) -> dict[str, str]:
        return dict(self)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # what is in a function that goes to the workers is a dict

    def names_read(self) -> set[str]:
        """The names that were read, set or not."""
        return set(self._asked)


def unread(given: Iterable[str], asked: Iterable[str]) -> list[str]:
    """Return a warning for each parameter that was given but not read, with the name that may be meant."""
    known, set_ = set(asked), set(given)
    found = []
    for name in sorted(set_ - known):
        question = meant(name, known - set_)
        hint = f"; {question}" if question else f" (they read {', '.join(sorted(known)) or 'none'})"
        found.append(f"parameter {name!r} was set, but no query function reads it{hint}")
    return found


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """``["key=value", ...]`` to a dict; InvalidInputError for one without a key or ``=``."""
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise InvalidInputError(f"{pair!r} is not key=value")
        settings[key] = value
    return settings
