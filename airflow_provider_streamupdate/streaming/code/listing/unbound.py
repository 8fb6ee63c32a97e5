"""Variables that may have no value when they are read: the error that this raises names them.

A flow analysis over the steps of one function (bytecode.py): a variable has a value at a step when all ways to it give
it one. What is not understood counts as "may have none", which is safe.
"""

from __future__ import annotations

from .bytecode import Listing, Step, Variable

_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
_JUMPS_ALWAYS = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD_NO_INTERRUPT"})
_CLEARS = "LOAD_FAST_AND_CLEAR"  # of comprehensions, from Python 3.12 on: raises nothing
Bound = frozenset[Variable]


def unbound(listing: Listing, around: Bound | None = None) -> list[str]:
    """Their names, those of the functions inside included. around: the variables around it that have values; None
    where the function exists, and so do they"""
    bound: Bound = frozenset(listing.arguments) | frozenset(listing.free if around is None else around)
    before = _before(listing, bound)
    found: list[str] = []
    for step, known in zip(listing.steps, before, strict=True):
        if known is None:  # it is never reached
            continue
        reads = step.kind == "variable" and step.op.startswith(("LOAD_", "DELETE_")) and step.op != _CLEARS
        if reads and step.value not in known:
            found.append(step.value.name)
        elif step.kind == "code":
            found += unbound(step.value, known & frozenset(step.value.free))
    return found


def _before(listing: Listing, bound: Bound) -> list[Bound | None]:
    """For each step, the variables that have values before it."""
    steps = listing.steps
    before: list[Bound | None] = [None] * len(steps)
    shift = sum(
        step.kind == "hint" and not step.op for step in steps
    )  # dropped hints are in front; jumps leave them out
    todo: list[tuple[int, Bound]] = [(0, bound)]
    while todo:
        index, known = todo.pop()
        if index >= len(steps):
            continue
        held = before[index]
        new = known if held is None else held & known
        if held == new:
            continue
        before[index] = new
        todo += _after(steps[index], index, new, shift)
        for start, end, target, *_ in listing.handlers:  # what is raised in between leads there
            if start + shift <= index < end + shift:
                todo.append((target + shift, new))
    return before


def _after(step: Step, index: int, known: Bound, shift: int) -> list[tuple[int, Bound]]:
    if step.kind == "variable" and step.op.startswith("STORE_"):
        known = known | {step.value}
    elif step.kind == "variable" and (step.op.startswith("DELETE_") or step.op == _CLEARS):
        known = known - {step.value}
    if step.op in _ENDS:
        return []
    there = [(step.value + shift, known)] if step.kind == "jump" else []
    return there if step.op in _JUMPS_ALWAYS else [(index + 1, known), *there]
