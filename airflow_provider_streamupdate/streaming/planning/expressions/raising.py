"""Which expressions never raise an error, for any row. Only for these does the order in AND and OR not matter: others
may not be evaluated because of an operand before them (Or.eval, And.eval). An unknown expression may raise."""

from __future__ import annotations

from typing import Any

from ...catalyst.tree import Node

# Looks at values, or takes them apart, and is null where it cannot.
_NEVER = frozenset(
    {"AttributeReference", "Literal", "Alias", "KnownNullable", "KnownNotNull", "IsNull", "IsNotNull", "IsNaN", "NaNvl",
     "Not", "And", "Or", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan",
     "GreaterThanOrEqual", "In", "InSet", "If", "CaseWhen", "Coalesce", "Greatest", "Least", "AtLeastNNonNulls",
     "GetStructField", "CreateNamedStruct", "StartsWith", "EndsWith", "Contains", "Upper", "Lower", "Length",
     "StringTrim", "StringTrimLeft", "StringTrimRight", "Substring", "Concat", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
     "BitwiseNot", "Year", "Month", "DayOfMonth", "DayOfWeek", "Hour", "Minute", "Second", "ArrayContains", "Size"}
)  # fmt: skip
_NUMBERS = ("byte", "short", "integer", "long", "float", "double")  # each into a later one without an overflow
# By a number that is there and neither 0 nor -1 there is always a quotient.
_DIVISIONS = frozenset({"Remainder", "Pmod", "IntegralDivide", "Divide"})


def may_raise(expression: Node) -> bool:
    """Whether an expression, or one in it, may end in an error."""
    return any(not _never(node) for node in expression.walk())


def _never(node: Node) -> bool:
    if node.name in _NEVER:
        return True
    if node.name == "Cast":
        return _never_fails(node)
    if node.name in _DIVISIONS:
        return _divisor(node.children[1])
    return False


def _never_fails(cast: Node) -> bool:
    """Any value can be written as text; a number of a narrower type fits into a wider one."""
    target, value = cast.fields.get("dataType"), cast.children[0].fields.get("dataType")
    if str(target).startswith("string"):
        return True
    return target in _NUMBERS and value in _NUMBERS and _NUMBERS.index(value) <= _NUMBERS.index(target)


def _divisor(operand: Node) -> bool:
    while operand.name == "Cast" and _never_fails(operand):
        operand = operand.children[0]
    return operand.name == "Literal" and _number(operand.fields.get("value")) not in (None, 0.0, -1.0)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
