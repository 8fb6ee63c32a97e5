"""Branches of a union in a definition's texts: ``⟨a.k ∪ b.k⟩`` is a column that is ``a.k`` on one branch and ``b.k`` on
another. A branch that comes with a new source, or goes with an old one, says nothing about the state of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

OPEN, CLOSE, OR = "⟨", "⟩", " ∪ "
AFTER = " after "  # a stage that the rows of a branch have passed, with a dot: ``a.k after d.``
_INNERMOST = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_REFERENCE = r"(?<![\w.\-])({names})(?=[.:])"


def union(branches: list[str]) -> str:
    """One text for the same column of all branches, in the order given."""
    return branches[0] if len(set(branches)) == 1 else f"{OPEN}{OR.join(branches)}{CLOSE}"


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
    def reduced(match: re.Match[str]) -> str:
        branches = match[1].split(OR)
        left = [b for b in branches if not gone.search(b) or kept.search(b)]
        return union(left or branches).replace(OPEN, "\0(").replace(CLOSE, "\0)")

    text = re.sub(f"{AFTER}({gone.pattern})\\.", "", text)
    while _INNERMOST.search(text):
        text = _INNERMOST.sub(reduced, text)
    return text.replace("\0(", OPEN).replace("\0)", CLOSE)


def mistaken(name: str, other: str) -> bool:
    """Whether a text that refers to the source or stage `name` looks as if it referred to `other`."""
    return name != other and _names([other]).search(f"{name}.") is not None


def _names(names: list[str]) -> re.Pattern[str]:
    if not names:
        return re.compile(r"(?!)")
    return re.compile(_REFERENCE.format(names="|".join(map(re.escape, sorted(names, key=len, reverse=True)))))
