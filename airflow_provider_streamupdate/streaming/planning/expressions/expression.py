"""The text of an expression. Two expressions with equal texts compute the same from the same columns: every field of
every node is in the text, except those in noise.py. Pure functions of what spark_internals read from the plan."""

from __future__ import annotations

import re
from typing import Any

from ....core.plan.plan import PYTHON, UNKNOWN
from ...catalyst import marks
from ...catalyst.tree import Node, is_tree, parse
from . import noise, raising, references
from .references import Columns, expression_id
from .windows import window_text

# Two operands may change places: IEEE 754 addition and multiplication, too, are commutative (not associative).
_SWAP = ("Add", "Multiply", "EqualTo", "EqualNullSafe", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
_CHAIN = ("And", "Or")  # three-valued logic is associative, and commutative where no operand raises
_FLAT = (*_CHAIN, "Coalesce")  # the first value that is there is the first one of an inner list, too
_MIRROR = {
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}
# The operand that is a unit of time. Spark reads it in capitals (DateTimeUtils: parseTruncLevel,
# getDayOfWeekFromString).
_UNITS = {"TruncTimestamp": 0, "TruncDate": 1, "NextDay": 1}
# Expressions that look at the partition a row is on, at its place there, or at the file it comes from, which nobody
# knows above a shuffle.
_PLACES = ("MonotonicallyIncreasingID", "SparkPartitionID", "InputFileName", "InputFileBlockStart",
           "InputFileBlockLength")  # fmt: skip
# Python functions that are given whole partitions, or see one row after the other (PythonEvalType: the iterators).
_OF_PARTITIONS = (204, 205, 207, 251)
PARTITIONS = -2  # where `Columns` has what decides the partitions and the order of the rows
_LAMBDAS = -1  # where `Columns` counts the variables of the lambda functions around
_COMMON = -(10**9)  # from here downwards `Columns` has the common expressions of WITH


def text(expression: Node, columns: Columns) -> str:
    """A canonical, readable text; columns as `columns` has them, marked (marks.py). Made once: a plan's expressions are
    asked for many times (`columns` is not changed)."""
    if expression.told is None or expression.told[0] is not columns:
        expression.told = columns, _text(expression, columns)
    return expression.told[1]


def _text(expression: Node, columns: Columns) -> str:
    name, fields = expression.name, expression.fields
    if name in ("AttributeReference", "NamedLambdaVariable"):
        return columns.get(expression_id(expression), f"{UNKNOWN}{marks.name(str(fields['name']))}")
    if name in ("Alias", "KnownNullable"):
        return text(expression.children[0], columns)
    if name == "SQLScalarFunction":  # a function in SQL: what it was made of comes last, and when it was made with it
        return text(expression.children[-1], columns)
    if name == "Literal":
        return _literal(fields)
    if name == "LambdaFunction":
        return _lambda(expression, columns)
    if name == "With":
        return _with(expression, columns)
    if name == "CommonExpressionRef":
        return columns.get(_common(expression), f"{UNKNOWN}{name}")
    if name in references.FIELDS:
        return references.field(expression, columns, text)
    if name.endswith("Subquery") or name in ("Exists", "InSubquery", "ListQuery"):
        from ..lineage.lineage import subquery  # of its plan, in whose expressions there may be others

        return subquery(expression, columns)
    if name == "CreateNamedStruct" and (window := window_text(expression, lambda e: text(e, columns))) is not None:
        return window
    if name == "UnscaledValue":
        # DecimalAggregates sums short decimals as plain numbers: then the scale is part of what the sum means.
        columns = {**columns, **{i: f"{t}: {k}" for i, t, k in _read(expression, columns)}}
    if name in _FLAT:
        below = _parts(expression, name)
    else:
        below = [child for place, child in enumerate(expression.children) if place != noise.SEEDS.get(name)]
    if (over := references.elements(expression, columns, text, int(columns.get(_LAMBDAS, "0")))) is not None:
        listed, columns = over
        children = [listed, *(text(child, columns) for child in below[1:])]
    elif name in references.SHAPES and (shape := references.shape(below[0], columns, text)) is not None:
        children = [shape]
    else:
        children = [text(child, columns) for child in below]
    if (place := _UNITS.get(name)) is not None and _word(expression.children[place]):
        children[place] = children[place].upper()
    if name == "AggregateExpression":
        distinct = "distinct " if fields.get("isDistinct") is True else ""
        filtered = f" filter ({children[1]})" if len(children) > 1 else ""
        return f"{distinct}{children[0]}{filtered}"
    if name in _CHAIN and not any(raising.may_raise(child) for child in below):
        # Else the first operand may spare the second one's error.
        children = sorted(_looked_for(below, children, columns) if name == "Or" else children)
        if len(children) == 1:
            return children[0]
    elif name in _SWAP or name == "In":
        children = _ordered(expression, children, first=1 if name == "In" else 0)
    elif name in _MIRROR and _turned(expression):
        name, children = _MIRROR[name], children[::-1]
    if name == "Coalesce" and not drawn(expression):
        # What comes again has no part in it. Spark takes it out only where it sees that the first is never null, which
        # depends on what else is selected (RewriteWithExpression; found by the sweep).
        children = list(dict.fromkeys(children))
        if len(children) == 1:
            return children[0]
    if "UDF" in name or "UDAF" in name or "UDTF" in name or "UserDefined" in name or "Udf" in name:
        return _function(name, fields, children) + (_partitions(columns) if looks_at_partitions(expression) else "")
    if name == "CallMethodViaReflection" and not _of_java(expression.children[0]):
        return _function("java_method", {}, children)  # a class of the user's jars, whose code is not read
    if name == "CaseWhen" and len(children) == 3:
        name, fields = "If", {}  # all there is of one that has but one condition
    if name == "If" and _null(expression.children[2]):
        name, children = "CaseWhen", children[:2]  # as the optimizer leaves one without ELSE
    if name in ("UnixTimestamp", "ToUnixTimestamp") and _timestamp(expression.children[0]):
        fields = {**fields, "timeZoneId": "UTC"}  # a zone is for texts and dates
    if name == "TimestampAddInterval" and not _of_days(expression.children[1]):
        fields = {**fields, "timeZoneId": "UTC"}  # no zone has a part in it
        children[1] = f"{expression.children[1].fields['value']}:interval"  # nor the unit it was given in
    told = f"{name.lower()}({', '.join(children + details(name, fields))})"
    return told + (_partitions(columns) if looks_at_partitions(expression) else "")


def looks_at_partitions(expression: Node) -> bool:
    """Whether its value depends on the partitions that rows are on, or on their order there."""
    of_python = expression.fields.get("evalType") in _OF_PARTITIONS or "UDTF" in expression.name
    return expression.name in _PLACES or of_python


def _partitions(columns: Columns) -> str:
    return f" in {columns[PARTITIONS]}" if PARTITIONS in columns else ""


# Expressions that are null when one of their operands is (Expression.nullIntolerant): of a filter's column in one of
# these Spark asks that it is not null (InferFiltersFromConstraints). Another one that is so is missed, which is safe.
_NULL_INTOLERANT = frozenset(
    {"EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "Not", "Cast", "Add", "Subtract",
     "Multiply", "Divide", "Remainder", "Pmod", "IntegralDivide", "UnaryMinus", "Abs", "Like", "RLike",
     "StartsWith", "EndsWith", "Contains", "Upper", "Lower", "Length", "Substring", "BitwiseAnd",
     "BitwiseOr", "BitwiseXor", "BitwiseNot", "GetStructField", "Hour", "Minute", "Second", "Year", "Month",
     "DayOfMonth", "PreciseTimestampConversion"}
)  # fmt: skip


def not_null(condition: Node, columns: Columns) -> set[str]:
    """The texts of the columns and fields that are not null where the condition is true (or an operand is not null)."""
    found = set()
    if condition.name in ("AttributeReference", "GetStructField"):
        found.add(references.shape(condition, columns, text) or text(condition, columns))
    if condition.name in _NULL_INTOLERANT:
        found = found.union(*(not_null(child, columns) for child in condition.children))
    return found


def details(name: str, fields: dict[str, Any]) -> list[str]:
    """All fields of a node that count, as texts."""
    found = []
    for field, value in sorted(fields.items()):
        if noise.counts(name, field, value):
            shown = zone(value) if field == "timeZoneId" and isinstance(value, str) else shown_value(value)
            if isinstance(value, dict) and "unreadable" in value:
                found.append(f"{UNKNOWN}{name}.{field}: {value['unreadable']}")
            elif noise.USUAL.get(field) != shown.strip("'"):
                found.append(f"{field}={shown}")
    return found


def shown_value(value: Any) -> str:
    """A field's value."""
    if is_tree(value):
        return text(parse(value), {})
    if isinstance(value, dict):
        if "rendered" in value:
            return marks.escape(str(value["rendered"]))
        if "unreadable" in value:
            return f"{UNKNOWN}({value['unreadable']})"
        if "object" in value:
            return str(value["object"]).rsplit(".", 1)[-1].strip("$").rsplit("$", 1)[-1]
        if "type" in value:
            return marks.escape(marks.type_text(value))
        return "{" + ", ".join(f"{k}: {shown_value(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(shown_value(v) for v in value) + "]"
    return marks.escape(repr(value) if isinstance(value, str) and not value.isidentifier() else str(value))


def _null(expression: Node) -> bool:
    return expression.name == "Literal" and expression.fields.get("value") is None


def _word(expression: Node) -> bool:
    """Whether it is a text of letters that Python and Java have the same capitals of."""
    value = expression.fields.get("value")
    known = expression.name == "Literal" and expression.fields.get("dataType") == "string"
    return known and isinstance(value, str) and value.isascii() and value.isalpha()


def _literal(fields: dict[str, Any]) -> str:
    value, kind = fields.get("value"), fields.get("dataType")
    if str(kind).startswith("string") and value is not None and not isinstance(value, dict):
        quoted = marks.escape(repr(value))
        return quoted if kind == "string" else f"{quoted}:{shown_value(kind)}"
    if isinstance(value, dict) and "unreadable" in value:
        return f"{UNKNOWN}literal: {value['unreadable']}"
    if value is None:
        return f"null:{shown_value(kind)}"
    shown = shown_value(value) if isinstance(value, dict) else marks.escape(str(value))
    return shown if kind in ("integer", "boolean") else f"{shown}:{shown_value(kind)}"


def _with(expression: Node, columns: Columns) -> str:
    """An expression that is used several times in another one, in its places: what tells them apart is a number that
    counts in the JVM. (BETWEEN is one; in a stream's own plan the optimizer puts them there, RewriteWithExpression.)"""
    body, *definitions = expression.children
    inner = dict(columns)
    for each in definitions:
        made = text(each.children[0], columns)
        inner[_common(each)] = f"once({made})" if drawn(each) else made
    return text(body, inner)


def _common(expression: Node) -> int:
    """The number of a common expression, as one of no column."""
    found = re.search(r"\d+", str(expression.fields["id"]))
    return _COMMON - int(found[0]) if found else _COMMON


def _lambda(expression: Node, columns: Columns) -> str:
    """Variables are known by their place: their names hold a number that counts in the session."""
    count = int(columns.get(_LAMBDAS, "0"))
    body, *variables = expression.children
    inner = {**columns, _LAMBDAS: str(count + len(variables))}
    names = [f"λ{count + i + 1}" for i in range(len(variables))]
    for variable, called in zip(variables, names, strict=True):
        inner.setdefault(expression_id(variable), called)  # an element of a column is known as such
    return f"({', '.join(names)} -> {text(body, inner)})"


def _read(expression: Node, columns: Columns) -> list[tuple[int, str, Any]]:
    """The columns an expression reads: id, text, type."""
    read = [n for n in expression.walk() if n.name == "AttributeReference"]
    return [(expression_id(n), text(n, columns), n.fields["dataType"]) for n in read]


def _function(name: str, fields: dict[str, Any], children: list[str]) -> str:
    """Comparable by the digest of its code (spark_internals adds it), its result's type and how it is called; a name
    says nothing about what it computes."""
    if not fields.get("code"):
        why = [repr(fields["uncomparable"])] if fields.get("uncomparable") else []
        return f"{PYTHON}{fields.get('name') or name}({', '.join(children + why)})"
    told = {k: v for k, v in fields.items() if k not in ("code", "name", "func", "uncomparable")}
    return f"python#{fields['code']}({', '.join(children + details(name, told))})"


def _of_java(class_name: Node) -> bool:
    """Whether the class that java_method or reflect calls comes with Java, or with Spark: their versions are compared
    elsewhere."""
    return str(class_name.fields.get("value")).startswith(("java.", "org.apache.spark."))


def _timestamp(expression: Node) -> bool:
    return expression.name == "AttributeReference" and expression.fields["dataType"] == "timestamp"


def _parts(expression: Node, name: str) -> list[Node]:
    if expression.name != name:
        return [expression]
    return [part for child in expression.children for part in _parts(child, name)]


# Types whose values IN finds as = does. Of others NaN, -0.0 and collations are not looked at here.
_FOUND_ALIKE = ("string", "byte", "short", "integer", "long", "date")


def _looked_for(operands: list[Node], texts: list[str], columns: Columns) -> list[str]:
    """The texts of OR's operands; of those that look for constants in one thing one: ``k = 'a' or k in ('b', 'c')`` is
    ``k in ('a', 'b', 'c')``, also where k is null, which makes both null."""
    found: dict[str, set[str]] = {}
    rest = []
    for operand, told in zip(operands, texts, strict=True):
        thing, *constants = _thing_first(operand)
        if constants and all(map(_found_alike, constants)) and not drawn(thing):
            found.setdefault(text(thing, columns), set()).update(text(c, columns) for c in constants)
        else:
            rest.append(told)
    for thing_text, values in found.items():
        name = "in" if len(values) > 1 else "equalto"
        rest.append(f"{name}({', '.join([thing_text, *sorted(values)])})")
    return rest


def _thing_first(operand: Node) -> list[Node]:
    """Of = and IN: what is looked at, and what for; of others but one."""
    if operand.name not in ("EqualTo", "In"):
        return [operand]
    turned = operand.name == "EqualTo" and operand.children[0].name == "Literal"
    return operand.children[::-1] if turned else operand.children


def _found_alike(constant: Node) -> bool:
    fields = constant.fields
    return constant.name == "Literal" and fields.get("dataType") in _FOUND_ALIKE and fields.get("value") is not None


def drawn(expression: Node) -> bool:
    """Whether an expression, or one in it, has another value each time it is evaluated."""
    return any(map(drawn_here, expression.walk()))


def drawn_here(node: Node) -> bool:
    """Whether an expression is so by itself."""
    return node.name in noise.SEEDS or node.name in noise.ONLY_IN["randomSeed"] or _unsteady(node.fields)


def _unsteady(fields: dict[str, Any]) -> bool:
    return fields.get("udfDeterministic") is False or fields.get("isDeterministic") is False


def _turned(comparison: Node) -> bool:
    """One way to write a comparison: with the constant last; of two columns, as less than."""
    left, right = (child.name == "Literal" for child in comparison.children)
    return left if left != right else comparison.name.startswith("Greater")


def _ordered(expression: Node, texts: list[str], first: int) -> list[str]:
    """Operands in the order of their texts, constants last."""
    pairs = zip(texts[first:], expression.children[first:], strict=True)
    return texts[:first] + [t for t, _ in sorted(pairs, key=lambda p: (p[1].name == "Literal", p[0]))]


_DAY = 86_400_000_000  # microseconds
_OF_A_CALENDAR = re.compile("day|week|month|year")


def _of_days(interval: Node) -> bool:
    """Whether an interval may have days or larger units: these are added as such, so their length depends on the time
    zone (DateTimeUtils: timestampAddInterval, timestampAddDayTime); smaller units have a fixed length."""
    kind, value = str(interval.fields.get("dataType")), str(interval.fields.get("value"))
    if interval.name != "Literal" or _OF_A_CALENDAR.search(f"{kind} {value}"):
        return True
    return kind != "interval" and not (value.lstrip("-").isdigit() and abs(int(value)) < _DAY)


def zone(name: str) -> str:
    """A time zone's name; the same one for all names of UTC, which differ between machines."""
    return "UTC" if name in ("Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Z", "GMT", "Etc/GMT", "+00:00") else name
