"""An order for the members of sets, whose own order differs between processes.

A member's rank is a text of what it looks like from near by, in a bounded number of steps: what lies further away is
not looked at, so that neither cycles nor sets of linked objects take long. It is an order only: what the members are is
described by the walk (walk.py), so that two which look alike are still described both.
"""

from __future__ import annotations

import enum
import hashlib
import types
from pathlib import PurePath
from typing import Any

_STEPS = 5
_SIMPLE = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)})


class Ranks:
    """Remembers what it has seen: each object is looked at once per number of steps."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], str] = {}
        self._alive: list[Any] = []  # an id is only unique while its object lives

    def of(self, value: Any, steps: int = _STEPS) -> str:
        kind = type(value)
        if kind in _SIMPLE:
            return f"{kind.__name__} {_text(value)}"
        if (id(value), steps) not in self._known:
            self._alive.append(value)
            self._known[id(value), steps] = hashlib.sha256(
                repr(self._seen(value, steps)).encode("utf8", "surrogatepass")
            ).hexdigest()
        return self._known[id(value), steps]

    def _seen(self, value: Any, steps: int) -> Any:
        from .objects import _held

        kind = type(value)
        if isinstance(value, type):
            return "class", value.__module__, value.__qualname__
        if isinstance(value, enum.Enum):
            return "enum", kind.__qualname__, value.name
        if isinstance(value, types.ModuleType):
            return "module", value.__name__
        if isinstance(value, PurePath):
            return kind.__qualname__, _text(str(value))
        if not steps:
            return (kind.__qualname__,)
        if isinstance(value, types.FunctionType):
            cells = [c for c in value.__closure__ or () if _is_filled(c)]
            given = (value.__defaults__, value.__kwdefaults__, tuple(c.cell_contents for c in cells))
            return "function", value.__module__, _code(value.__code__), [self.of(v, steps - 1) for v in given]
        if isinstance(value, types.MethodType):
            return "method", self.of(value.__func__, steps - 1), self.of(value.__self__, steps - 1)
        if isinstance(value, (list, tuple)):
            items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
            seen: Any = [self.of(v, steps - 1) for v in items]
        elif isinstance(value, dict):
            seen = [(self.of(k, steps - 1), self.of(v, steps - 1)) for k, v in dict.items(value)]
        elif isinstance(value, (set, frozenset)):
            seen = sorted(self.of(v, steps - 1) for v in value)
        else:
            seen = None
        held = [(name, self.of(v, steps - 1)) for name, v in _held(value).items()]
        return kind.__qualname__, seen, held, None if seen or held else self._taken_apart(value, steps)

    def _taken_apart(self, value: Any, steps: int) -> Any:
        """What pickle would take of it."""
        try:
            parts = value.__reduce_ex__(4)
            return parts if isinstance(parts, str) else [self.of(p, steps - 1) for p in parts[1:3]]
        except Exception:  # it cannot be pickled
            return None


def _text(value: Any) -> str:
    from .owner import below_app
    from .walk import written

    if isinstance(value, int):
        return written(value)
    place = below_app(value) if isinstance(value, str) else None
    return repr(value if place is None else place)


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _code(code: types.CodeType) -> Any:
    constants = [_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts[1:] if _fixed(c)]
    return code.co_code, code.co_names, constants


def _fixed(constant: Any) -> bool:
    """Whether a constant is written in the same way in each process."""
    return not isinstance(constant, frozenset)
