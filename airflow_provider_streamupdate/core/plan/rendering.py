"""Expressions as people write them: SQL as far as it is known how, without what no author wrote (digests, types of
numbers, usual settings). `Expression.text` has all that counts, to tell apart what reads the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .expressions import (
    Call,
    Column,
    Expression,
    Literal,
    Python,
    SessionWindow,
    Window,
    arguments_text,
    fold,
    plain_text,
    size_text,
    special_text,
)

_ONLY = "source-1"  # the first source that has no name; most often there is no other
_BINARY = {
    "equalto": "=", "equalnullsafe": "<=>", "lessthan": "<", "lessthanorequal": "<=", "greaterthan": ">",
    "greaterthanorequal": ">=", "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "remainder": "%",
    "like": "LIKE", "rlike": "RLIKE", "bitwiseand": "&", "bitwiseor": "|", "bitwisexor": "^",
    "timestampaddinterval": "+",
}  # fmt: skip
_CHAINS = {"and": "AND", "or": "OR"}
_TESTS = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
# Calls that have operators of their own, so that they are in brackets within another one.
_OPEN = {*_BINARY, *_CHAINS, *_TESTS, "not", "in", "inset", "casewhen", "if"}
_SETTINGS = ("evalType", "udfDeterministic", "uses", "timeZoneId", "evalMode", "ansiEnabled", "failOnError")
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "boolean")
_UNITS = ((86_400_000_000, "days"), (3_600_000_000, "hours"), (60_000_000, "minutes"), (1_000_000, "s"))


def words(value: Expression | Iterable[Expression]) -> str:
    """Return an expression, or a list of them, in words."""
    return fold(value, _in_words) if isinstance(value, Expression) else ", ".join(map(words, value))


def describe_part(value: Any, write: Callable[[Expression], str] = words) -> str:
    """Return a part of a stage's definition as text, its expressions as `write` writes them."""
    if isinstance(value, tuple):
        return ", ".join(describe_part(each, write) for each in value)
    return write(value) if isinstance(value, Expression) else str(value)


def _in_words(node: Expression, parts: list[str]) -> str:
    match node:
        case Literal():
            return _literal(node)
        case Column() if node.source == _ONLY and node.path:
            return node.path
        case Python() if node.digest:
            return f"{node.name or 'a Python function'}({arguments_text(node, parts, (*_SETTINGS, 'dataType'))})"
        case Python():
            return f"Python function {node.name}({arguments_text(node, parts, _SETTINGS)})"
        case Window():
            return f"window({parts[0]}, {size_text(node)})"
        case SessionWindow():
            return f"session_window({parts[0]}, gap {parts[1]})"
        case Call():
            return (
                _sql(node, parts)
                or special_text(node, parts)
                or f"{node.function}({arguments_text(node, parts, _settings(node))})"
            )
        case _:
            return plain_text(node, parts)


def _settings(node: Call) -> tuple[str, ...]:
    """Return the options that are no part of what the author wrote; a parser's schema is long, and is told by what is
    read of it."""
    if node.function not in ("from_json", "from_csv"):
        return _SETTINGS
    without = [name for name, value in node.options if name == "options" and value == Call("options")]
    return (*_SETTINGS, "schema", "variantAllowDuplicateKeys", *without)


def _sql(node: Call, parts: list[str]) -> str | None:
    name, arguments = node.function, parts[: len(node.arguments)]
    operands = [_operand(*each) for each in zip(node.arguments, arguments, strict=True)]
    match name, len(operands):
        case _, 2 if name in _BINARY:
            return f"{operands[0]} {_BINARY[name]} {operands[1]}"
        case _, count if name in _CHAINS and count > 1:
            return f" {_CHAINS[name]} ".join(operands)
        case _, 1 if name in _TESTS:
            return f"{operands[0]} {_TESTS[name]}"
        case "not", 1:
            return f"NOT {operands[0]}"
        case (("casewhen" | "if"), count) if count > 1:
            return _case(arguments)
        case "in", count if count > 1:
            return f"{operands[0]} IN ({', '.join(arguments[1:])})"
        case "inset", 1:
            held = parts[1] if len(parts) > 1 else ""
            return f"{operands[0]} IN ({held[1:-1]})" if held.startswith("{") else None
        case "cast", 1:
            kind = next((part for (key, _), part in zip(node.options, parts[1:], strict=True) if key == "dataType"), "")
            return f"CAST({arguments[0]} AS {kind.strip(chr(39))})"
        case "average", 1:
            return f"avg({arguments[0]})"
        case (("unscaledvalue" | "scaled"), 1):  # the optimizer's (DecimalAggregates)
            return arguments[0]
        case "lookup", 1:
            return f"lookup by {arguments[0]}"
        case "rows", count if count:
            return arguments[0]
    return None


def _operand(node: Expression, shown: str) -> str:
    """Put it in brackets where it has operators of its own."""
    return f"({shown})" if isinstance(node, Call) and node.function in _OPEN and " " in shown else shown


def _case(parts: list[str]) -> str:
    pairs = [f"WHEN {when} THEN {then}" for when, then in zip(parts[::2], parts[1::2], strict=False)]
    return " ".join(["CASE", *pairs, *([f"ELSE {parts[-1]}"] if len(parts) % 2 else []), "END"])


def _literal(node: Literal) -> str:
    kind = node.type.strip("'")
    if kind == "interval" and node.value.isdigit():
        number = int(node.value)
        size, unit = next(((size, unit) for size, unit in _UNITS if number % size == 0), (1, "us"))
        return f"{number // size} {unit}"
    return node.value if kind in (*_NUMBERS, "interval") or kind.startswith("decimal") else node.text
