"""What stands around a step in a listing (bytecode.py): what is called with what, what is written into texts."""

from __future__ import annotations

from typing import Any

from .bytecode import Listing, Step

_PERCENT = (6, 19)  # BINARY_OP's number of % and %= (opcode._nb_ops)


def writes_a_text(listing: Listing, index: int) -> bool:
    """f"{x}" and "%s" % x, also where % may be the rest of a division; not by a number that stands there."""
    step, before = listing.steps[index], listing.steps[index - 1] if index else None
    if step.op in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"):
        return True
    is_percent = step.op in ("BINARY_MODULO", "INPLACE_MODULO") or (step.op == "BINARY_OP" and step.value in _PERCENT)
    is_number = before is not None and before.kind == "constant" and isinstance(before.value, (int, float))
    return is_percent and not is_number


def expects_no_module(listing: Listing) -> bool:
    """Whether the code handles that an import fails: that a module is absent is then what it computes with."""
    names = {"ImportError", "ModuleNotFoundError", "find_spec", "platform", "version_info"}
    return not names.isdisjoint(listing.code.co_names)


def next_value(listing: Listing, index: int) -> Any:
    return listing.steps[index + 1].value if index + 1 < len(listing.steps) else None


def first_constant(listing: Listing, index: int) -> Any:
    """The constant that a function is called with; 0 when there is nothing."""
    after = listing.steps[index + 1] if index + 1 < len(listing.steps) else None
    return after.value if after is not None and after.kind == "constant" else 0 if is_call(after) else None


def is_call(step: Step | None) -> bool:
    return step is not None and step.op.startswith("CALL")


def constant_text(steps: tuple[Step, ...]) -> str | None:
    """The text that a function is called with, alone."""
    if len(steps) < 2 or steps[0].kind != "constant" or not isinstance(steps[0].value, str):
        return None
    return steps[0].value if is_call(steps[1]) else None


def constant_argument(steps: tuple[Step, ...]) -> str | None:
    """The text that a function is called with, alone or with the package it is relative to."""
    if len(steps) < 3 or steps[0].kind != "constant" or not isinstance(steps[0].value, str):
        return None
    rest = steps[2:] if steps[1].value in ("__package__", "__name__") else steps[1:]
    return steps[0].value if rest[0].op.startswith("CALL") else None
