"""What a listing (bytecode.py) computes as plain data, and what it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from .bytecode import Import, Listing, Path, Step, Variable

_WORD = re.compile(r"[^\W\d]\w*")


def form(
    listing: Listing,
    numbers: dict[Variable, int],
    number_of: Callable[[str], Any] | None = None,
    bound: frozenset[Variable] | None = None,
) -> Any:
    """Equal forms compute the same, where equal names stand for equal values. Local variables are numbered; the names
    count of those that may have no value when they are read, since the error has them.

    numbers: of the variables, filled in the order in which they are met. number_of: replaces names of globals. bound:
    the variables around it that have values; None where the function exists, and so do they
    """
    for variable in listing.arguments:
        numbers.setdefault(variable, len(numbers))
    steps: list[Any] = []
    for step, known in zip(listing.steps, _bound(listing, bound), strict=True):
        value: Any = step.value
        if step.kind == "code":
            value = form(value, numbers, number_of, known)
        elif step.kind == "constant":
            value = constant(value)
        elif step.kind == "variable":
            is_sure = step.value in known or step.op.startswith("STORE_")
            value = numbers.setdefault(value, len(numbers)), "" if is_sure else value.name
        elif step.kind == "global" and number_of is not None:
            value = number_of(value)
        elif step.kind in ("import", "imported"):
            value = (value.name, value.level, value.top) if step.kind == "import" else None, step.attributes
        steps.append((step.op, value))
    return listing.code.co_name, [v.name for v in listing.arguments], listing.shape, steps, listing.handlers


def _bound(listing: Listing, around: frozenset[Variable] | None) -> list[frozenset[Variable]]:
    """For each step, the variables that surely have values before it: what was stored further above, where no jump and
    no error leads past it."""
    passes = [(index, s.value) for index, s in enumerate(listing.steps) if s.kind == "jump" and s.value > index]
    passes += [(start - 1, target) for start, _, target, *_ in listing.handlers]
    deleted = {s.value for s in listing.steps if s.kind == "variable" and s.op.startswith(("DELETE_", "LOAD_FAST_AND"))}
    always = frozenset((*listing.arguments, *(listing.free if around is None else around & set(listing.free))))
    until: dict[Variable, int] = {}
    found: list[frozenset[Variable]] = []
    for index, step in enumerate(listing.steps):
        found.append((always | {v for v, end in until.items() if index < end}) - deleted)
        if step.kind == "variable" and step.op.startswith("STORE_"):
            end = min((end for start, end in passes if start < index < end), default=len(listing.steps))
            until[step.value] = max(end, until.get(step.value, 0))
    return found


def constant(value: Any) -> Any:
    """A constant as it is written in each process."""
    if isinstance(value, tuple):
        return "tuple", [constant(v) for v in value]
    if isinstance(value, frozenset):
        return "set", sorted(repr(constant(v)) for v in value)
    return type(value).__name__, written(value)


def written(value: Any) -> str:
    """repr(), which refuses numbers of more than 4300 digits."""
    return hex(value) if type(value) is int and value.bit_length() > 1000 else repr(value)


@attrs.frozen
class Uses:
    """What the code of a listing, with the functions inside it, takes from elsewhere."""

    names: dict[tuple[str, tuple[str, ...]], None]  # with the attributes read of them
    imports: dict[Path, None]  # with the attributes read of them
    modules: dict[Import, tuple[str, ...]]  # all that it imports, with the names that it takes
    attributes: dict[str, None]  # of whatever object
    texts: dict[str, None]  # constants

    def words(self) -> Iterator[str]:
        """The names in the texts."""
        for text in self.texts:
            yield from _WORD.findall(text)


def uses(listing: Listing) -> Uses:
    found = Uses({}, {}, {}, {}, {})
    _add_uses(listing, listing.sources, found)
    return found


def _add_uses(listing: Listing, sources: Mapping[Variable, list[Path]], found: Uses) -> None:
    for step, after in zip(listing.steps, (*listing.steps[1:], Step("", "", None)), strict=True):
        # or what follows says what is used of it
        is_value = after.kind not in ("variable", "imported") and after.op != "POP_TOP"
        if step.kind == "code":
            _add_uses(step.value, sources, found)
        elif step.kind == "constant":
            found.texts.update(dict.fromkeys(_texts(step.value)))
        elif step.kind == "global":
            found.names[step.value, step.attributes] = None
        elif step.kind == "name":
            found.attributes[str(step.value)] = None
        elif step.kind == "import":
            found.modules[step.value] = (*found.modules.get(step.value, ()), *step.attributes)
            if is_value and not step.attributes:
                found.imports[Path(step.value)] = None
        elif step.kind == "imported" and is_value:
            found.imports[step.value] = None
        elif step.kind == "variable" and step.op.startswith("LOAD_"):
            for path in sources.get(step.value, ()):
                found.imports[Path(path.root, (*path.attributes, *step.attributes))] = None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value if isinstance(value, (tuple, frozenset)) else ():
        yield from _texts(inner)
