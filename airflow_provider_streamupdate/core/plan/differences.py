"""What differs between two lists of expressions, in words: not two texts for the reader to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import attrs

from .expressions import Call, Column, Expression, Python, fold
from .rendering import words
from .visitors import references, renamed

MOST = 240  # characters of all differences together
_SHOWN = 70  # characters of an expression
_ALIKE = 0.3  # of their parts have two expressions in common of which one became the other
_OTHER = "something that reads the same (--verbose shows it)"


def describe_differences(old: Iterable[Expression], new: Iterable[Expression]) -> str:
    """Return what became of the expressions: ``k -> upper(k); late is new``."""
    old, new = list(old), list(new)
    gone, added = (list(each.elements()) for each in (Counter(old) - Counter(new), Counter(new) - Counter(old)))
    if not gone and not added:
        return f"their order: {_list(old)} -> {_list(new)}" if old != new else ""
    pairs = list(_pairs(gone, added))
    found = [difference(was, now) for was, now in pairs]
    found += [f"{_short(each)} is gone" for each in gone if all(each is not was for was, _ in pairs)]
    found += [f"{_short(each)} is new" for each in added if all(each is not now for _, now in pairs)]
    return shortened(dict.fromkeys(found), "; ")


def _pairs(gone: list[Expression], added: list[Expression]) -> Iterator[tuple[Expression, Expression]]:
    """Yield what became what: those with the most in common first."""
    scores = [(_likeness(was, now), i, j) for i, was in enumerate(gone) for j, now in enumerate(added)]
    left, right = set[int](), set[int]()
    for score, i, j in sorted(scores, key=lambda each: (-each[0], each[1:])):
        if score >= _ALIKE and i not in left and j not in right:
            left.add(i)
            right.add(j)
            yield gone[i], added[j]


def _likeness(one: Expression, other: Expression) -> float:
    mine, others = (Counter(node.text for node in tree.walk()) for tree in (one, other))
    if words(one) == words(other):
        return 1.0
    same_form = type(one) is type(other) and getattr(one, "function", "") == getattr(other, "function", "")
    return max((mine & others).total() / max((mine | others).total(), 1), _ALIKE if same_form else 0.0)


def difference(old: Expression, new: Expression) -> str:
    """Return what differs between two expressions: the smallest part that does."""
    if table := _other_table(old, new):
        return table
    was, now = old, new
    while (pair := _one_part(was, now)) is not None:
        was, now = pair
    if isinstance(was, Python) and isinstance(now, Python) and was.name == now.name and was.digest != now.digest:
        return code_changed(was.name)
    if isinstance(was, Column) and isinstance(now, Column) and (was.source, was.path) == (now.source, now.path):
        return f"{words(was)} was {was.type} and is {now.type}"
    if isinstance(was, Call) and isinstance(now, Call) and was.function == now.function == "struct<>":
        return _fields(was, now)
    if (
        isinstance(was, Call)
        and isinstance(now, Call)
        and was.arguments == now.arguments
        and was.function == now.function
    ):
        return f"{was.function}: {_options(was, now)}"
    before, after = _cut_pair(words(was), words(now))
    around = f" in {_short(new)}" if now is not new and len(words(new)) <= _SHOWN else ""
    return f"{before} -> {after if after != before else _OTHER}{around}"


def _other_table(old: Expression, new: Expression) -> str:
    """Return the sentence about a table of which something else is read; empty where more than that differs."""

    def is_table(name: str) -> bool:
        return name.startswith("static:") and "#" in name

    def without_rows(node: Any, children: list[Expression]) -> Expression:
        node = node.with_children(children)
        of_rows = isinstance(node, Call) and node.function == "rows"
        return attrs.evolve(node, options=tuple(o for o in node.options if o[0] != "table")) if of_rows else node

    was, now = ({name for name in references(tree) if is_table(name)} for tree in (old, new))
    plain = {name: name.partition("#")[0] for name in was | now}
    one, other = (renamed(fold(tree, without_rows), plain) for tree in (old, new))
    if was == now or one != other:
        return ""
    tables = sorted({plain[name].removeprefix("static:") for name in was ^ now})
    return "; ".join(
        "the rows of a table that the code gives changed" if table == "rows" else f"what is read of {table} changed"
        for table in tables
    )


def code_changed(name: str) -> str:
    """Return the sentence about a Python function whose code differs."""
    return f"the code of {name or 'a Python function'} changed"


def changed_functions(old: Iterable[Expression], new: Iterable[Expression]) -> list[str]:
    """Return the names of the Python functions whose code differs."""
    before, after = (
        {node for tree in trees for node in tree.walk() if isinstance(node, Python)} for trees in (old, new)
    )
    names = {node.name for node in before if node.digest} & {node.name for node in after if node.digest}
    digests = [{name: {n.digest for n in nodes if n.name == name} for name in names} for nodes in (before, after)]
    return sorted(name for name in names if digests[0][name] != digests[1][name])


def _one_part(old: Expression, new: Expression) -> tuple[Expression, Expression] | None:
    """Return the only child that differs, where all else is equal."""
    if type(old) is not type(new) or len(old.children) != len(new.children):
        return None
    differing = [pair for pair in zip(old.children, new.children, strict=True) if pair[0] != pair[1]]
    if len(differing) != 1 or attrs.evolve(old).with_children(new.children) != new:  # type: ignore[misc]
        return None
    return differing[0]


def _fields(old: Call, new: Call) -> str:
    was, now = dict(old.options), dict(new.options)
    gone, more = [n for n in was if n not in now], [n for n in now if n not in was]
    other = [f"{n} was {words(was[n])} and is {words(now[n])}" for n in was if n in now and was[n] != now[n]]
    found = [_counted(names, what) for names, what in ((gone, "less"), (more, "more")) if names] + other
    return f"the schema has {'; '.join(found)}" if found else "the fields of a schema are in another order"


def _counted(names: list[str], what: str) -> str:
    return f"{len(names)} field{'s' * (len(names) > 1)} {what}: {', '.join(names)}"


def _options(old: Call, new: Call) -> str:
    was, now = dict(old.options), dict(new.options)
    changed = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return ", ".join(f"{n} {_option(was.get(n))} -> {_option(now.get(n))}" for n in changed)


def _option(value: Expression | None) -> str:
    return "its default" if value is None else _short(value)


def _short(value: Expression) -> str:
    return _cut(words(value))


def _cut_pair(one: str, other: str) -> tuple[str, str]:
    """Return two texts cut so that what differs is seen: behind a long beginning that both have as well."""
    if _cut(one) != _cut(other) or one == other:
        return _cut(one), _cut(other)
    start = next(n for n, pair in enumerate(zip_longest(one, other)) if pair[0] != pair[1]) - _SHOWN // 2
    return f"...{_cut(one[start:])}", f"...{_cut(other[start:])}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _list(values: list[Expression]) -> str:
    return shortened(map(words, values), most=MOST // 2)


def shortened(texts: Iterable[str], between: str = ", ", most: int = MOST) -> str:
    """Return as many texts as there is room for, long ones cut, and how many there are more."""
    left, kept = [_cut(text) if between == ", " else text for text in texts], list[str]()
    while left and (not kept or len(between.join([*kept, left[0]])) <= most):
        kept.append(left.pop(0))
    return between.join([*kept, *([f"and {len(left)} more"] if left else [])])
