"""Where the code of a Python function differs between two versions: its file and line, and what stood there."""

from __future__ import annotations

import ast
import contextlib
import difflib
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import attrs

from ..core.compatibility.verdict import CodeChange
from ..core.redaction import hide
from ..core.secret_names import is_secret
from .code_diff import Version, python_files

_SHOWN = 50  # characters of a line
Files = dict[str, list[str]]


@attrs.frozen
class _Definition:
    """A function, class or variable of the new version: the lines it has, and the names it uses."""

    name: str
    file: str
    first: int
    last: int
    uses: tuple[str, ...]


@attrs.frozen
class _Change:
    """Lines that differ: at which line of the new version, and the first of them before and after."""

    line: int
    before: str
    after: str


def find_changes(functions: Iterable[str], old: Version, new: Version) -> dict[str, CodeChange]:
    """Return, by function, the first change of its code, or else of something that it uses. Functions without one are
    left out: what changed is no text of the app's."""
    before, after = python_files(old, new)
    changes = {name: list(_changes(before.get(name, []), lines)) for name, lines in after.items()}
    known = list(_definitions(after))
    found = {}
    for function in functions:
        if place := _first_change(function, known, changes):
            definition, change = place
            file = definition.file or PurePosixPath(new.application.file).name
            texts = {"before": change.before, "after": change.after}
            found[function] = CodeChange(
                function=function, file=file, line=change.line, definition=definition.name, **texts
            )
    return found


def _first_change(
    function: str, known: list[_Definition], changes: dict[str, list[_Change]]
) -> tuple[_Definition, _Change] | None:
    left, seen = [function.rpartition(".")[2]], set[str]()
    while left:
        name = left.pop(0)
        seen.add(name)
        for each in (each for each in known if each.name == name):
            for change in changes.get(each.file, ()):
                if each.first <= change.line <= each.last:
                    return each, change
            left += [used for used in each.uses if used not in seen]
    return None


def _changes(before: list[str], after: list[str]) -> Iterator[_Change]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i, end, j, until in matcher.get_opcodes():
        was, now = (_code(lines, *span) for lines, span in ((before, (i, end)), (after, (j, until))))
        pairs = itertools.zip_longest(was, now, fillvalue=(j + 1, ""))
        first = next(((a, line, b) for (_, a), (line, b) in pairs if a != b), None)
        if tag != "equal" and first:
            a, line, b = first
            named = any(is_secret(word) for word in re.findall(r"\w+", f"{a} {b}"))  # a report is for all to read
            yield _Change(line, *(("", "") if named else _differing(hide(a), hide(b))))


def _code(lines: list[str], first: int, end: int) -> list[tuple[int, str]]:
    """Return the number and text of each line from `first` up to `end` that is code."""
    numbered = ((number + 1, lines[number].strip()) for number in range(first, end))
    return [(number, text) for number, text in numbered if text and not text.startswith("#")]


def _differing(before: str, after: str) -> tuple[str, str]:
    """Return the words of two lines without those that both begin and end with."""
    was, now = before.split(), after.split()
    while was and now and was[0] == now[0]:
        was, now = was[1:], now[1:]
    while was and now and was[-1] == now[-1]:
        was, now = was[:-1], now[:-1]
    return _cut(" ".join(was)), _cut(" ".join(now))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _definitions(files: Files) -> Iterator[_Definition]:
    for file, lines in files.items():
        with contextlib.suppress(SyntaxError, ValueError):
            tree = ast.parse("\n".join(lines))
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    yield _definition(node.name, file, node)
            for statement in tree.body:
                for name in _assigned(statement):
                    yield _definition(name, file, statement)


def _definition(name: str, file: str, node: ast.stmt) -> _Definition:
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    used |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return _Definition(name, file, first, node.end_lineno or first, tuple(sorted(used)))


def _assigned(statement: ast.stmt) -> list[str]:
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]
