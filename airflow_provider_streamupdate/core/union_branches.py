"""Branches of a union in a definition's texts: ``⟨a.k ∪ b.k⟩`` is a column that is ``a.k`` on one branch and ``b.k`` on
another. A branch that comes with a new source, or goes with an old one, says nothing about the state of the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

OPEN, CLOSE, OR = "⟨", "⟩", " ∪ "
AFTER = " after "  # a stage that the rows of a branch have passed, with a dot: ``a.k after d.``
_SIGNS = re.compile(f"({OPEN}|{CLOSE}|{OR})")
_REFERENCE = r"(?<![\w.\-])({names})(?=[.:])"


def union(branches: list[str]) -> str:
    """One text for the same column of all branches, in the order given."""
    return branches[0] if len(set(branches)) == 1 else f"{OPEN}{OR.join(branches)}{CLOSE}"


def ordered(value: Any) -> Any:
    """A definition whose unions have their branches in the order of the texts that they have by now: a rename may have
    changed them since they were put in order. Each branch's text says which branch it is of."""
    if isinstance(value, dict):
        return {part: ordered(inner) for part, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [ordered(inner) for inner in value]
    return _each(value, sorted) if isinstance(value, str) else value


def without(value: Any, gone: Iterable[str], kept: Iterable[str]) -> Any:
    """A definition (texts, lists of them, a dict of parts) without the branches that refer to the sources and stages
    `gone` and to none of `kept`."""
    gone, kept = list(gone), list(kept)
    if not gone:
        return value
    if isinstance(value, dict):
        return {part: without(inner, gone, kept) for part, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without(inner, gone, kept) for inner in value]
    return _without(value, _names(gone), _names(kept)) if isinstance(value, str) else value


def apart(texts: Iterable[str], gone: Iterable[str], kept: Iterable[str]) -> list[str]:
    """The texts that do not refer to the sources and stages `gone` alone."""
    own, shared = _names(list(gone)), _names(list(kept))
    return [text for text in texts if not own.search(text) or shared.search(text)]


def _without(text: str, gone: re.Pattern[str], kept: re.Pattern[str]) -> str:
    def reduced(branches: list[str]) -> list[str]:
        return [b for b in branches if not gone.search(b) or kept.search(b)] or branches

    return _each(re.sub(f"{AFTER}({gone.pattern})\\.", "", text), reduced)


def _each(text: str, change: Callable[[list[str]], list[str]]) -> str:
    """A text with the branches of each of its unions changed, inner ones first."""

    unions: list[list[str]] = [[""]]  # that are open, outer ones first, with their branches so far; the first is none
    for part in _SIGNS.split(text):
        if part == OPEN:
            unions.append([""])
        elif part == CLOSE and len(unions) > 1:
            branches = unions.pop()
            unions[-1][-1] += union(change(branches))
        elif part == OR and len(unions) > 1:
            unions[-1].append("")
        else:
            unions[-1][-1] += part
    while len(unions) > 1:  # cut short: as it is
        rest = OR.join(unions.pop())
        unions[-1][-1] += OPEN + rest
    return unions[0][0]


def mistaken(name: str, other: str) -> bool:
    """Whether a text that refers to the source or stage `name` looks as if it referred to `other`."""
    return name != other and _names([other]).search(f"{name}.") is not None


def _names(names: list[str]) -> re.Pattern[str]:
    if not names:
        return re.compile(r"(?!)")
    return re.compile(_REFERENCE.format(names="|".join(map(re.escape, sorted(names, key=len, reverse=True)))))
