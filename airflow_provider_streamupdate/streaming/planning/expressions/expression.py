"""Expressions of Spark's as trees (core/plan/expressions.py) in one normal form. Equal trees compute the same from the
same columns: every field of every node is in the tree, except those in noise.py. Pure functions of what spark_internals
read from the plan."""

from __future__ import annotations

import re
from typing import Any

from ....core.plan.expressions import Call, Column, Expression, Lambda, Literal, Python, Unknown
from ...catalyst import types
from ...catalyst.tree import Node, is_tree, parse
from . import noise, parser_schema, raising, references
from .scope import Scope, expression_id
from .windows import window

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
_LARGE = 100  # nodes
_COMMON = -(10**9)  # from here downwards a scope has the common expressions of WITH


def expression(node: Node, scope: Scope) -> Expression:
    """Return the expression of columns as `scope` has them. Made once: a plan's expressions are asked for many times.
    Of a large tree the inner nodes come first, so that a deep one needs no deep stack."""
    if not _is_traced(node, scope):
        nodes = list(node.walk())
        for inner in nodes[::-1] if len(nodes) > _LARGE else [node]:
            if not _is_traced(inner, scope):
                inner.traced = scope, _expression(inner, scope)
                hash(inner.traced[1])  # is kept
    assert node.traced is not None
    made: Expression = node.traced[1]
    return made


def _is_traced(node: Node, scope: Scope) -> bool:
    return node.traced is not None and node.traced[0] is scope


def _expression(node: Node, scope: Scope) -> Expression:
    name = node.name
    if name in ("AttributeReference", "NamedLambdaVariable"):
        return scope.columns.get(expression_id(node)) or Unknown(types.name(str(node.fields["name"])))
    if name in ("Alias", "KnownNullable"):
        return expression(node.children[0], scope)
    if name == "SQLScalarFunction":  # a function in SQL: what it was made of comes last, and when it was made with it
        return expression(node.children[-1], scope)
    if name == "Literal":
        return _literal(node.fields)
    if name == "LambdaFunction":
        return _lambda(node, scope)
    if name == "With":
        return _with(node, scope)
    if name == "CommonExpressionRef":
        return scope.columns.get(_common(node)) or Unknown(name)
    if name in references.FIELDS:
        return references.field(node, scope, expression)
    if name.endswith("Subquery") or name in ("Exists", "InSubquery", "ListQuery"):
        return scope.subquery(node, scope)
    if (found := window(node, lambda inner: expression(inner, scope))) is not None:
        return found
    return _call(node, scope)


def _call(node: Node, scope: Scope) -> Expression:
    name = node.name
    below = _operands(node)
    arguments, scope = _arguments(node, below, scope)
    if name == "AggregateExpression":
        return _aggregate(node, arguments)
    arguments = _in_order(node, below, arguments, scope)
    if len(arguments) == 1 and name in _FLAT:
        return arguments[0]
    if any(part in name for part in _USER_FUNCTIONS):
        return _in_partitions(node, _function(name, node.fields, arguments), scope)
    if name == "CallMethodViaReflection" and not _of_java(node.children[0]):
        return _function("java_method", {}, arguments)  # a class of the user's jars, whose code is not read
    name, fields, arguments = _normal_form(node, arguments)
    if fields.get("byField"):
        parser = parser_schema.PARSERS[name]
        apart = {
            "options": parser_schema.options(fields["options"]),
            "schema": parser_schema.schema(fields["schema"], parser == "from_csv"),
        }
        others = {key: value for key, value in fields.items() if key not in (*apart, "byField", "requiredSchema")}
        return Call(parser, tuple(arguments), (*details(name, others, scope), *apart.items()))
    return _in_partitions(node, Call(name.lower(), tuple(arguments), details(name, fields, scope)), scope)


_NO_COLUMNS = Scope()
_USER_FUNCTIONS = ("UDF", "UDAF", "UDTF", "UserDefined", "Udf")


def _operands(node: Node) -> list[Node]:
    if node.name in _FLAT:
        return _parts(node, node.name)
    return [child for place, child in enumerate(node.children) if place != noise.SEEDS.get(node.name)]


def _arguments(node: Node, below: list[Node], scope: Scope) -> tuple[list[Expression], Scope]:
    """Return the operands as they are read, and the scope they are read in."""
    if node.name == "UnscaledValue":
        # DecimalAggregates sums short decimals as plain numbers: then the scale is part of what the sum means.
        scope = scope.including(
            {key: Call("scaled", (read,), (("type", _type(kind)),)) for key, read, kind in _columns_read(node, scope)}
        )
    if (over := references.elements(node, scope, expression)) is not None:
        listed, scope = over
        return [listed, *(expression(child, scope) for child in below[1:])], scope
    if node.name in references.SHAPES:
        return [references.shape(below[0], scope, expression)], scope
    arguments = [expression(child, scope) for child in below]
    if (place := _UNITS.get(node.name)) is not None and _is_word(node.children[place]):
        arguments[place] = Literal(str(arguments[place]).upper())
    return arguments, scope


def _aggregate(node: Node, arguments: list[Expression]) -> Expression:
    made = arguments[0]
    if node.fields.get("isDistinct") is True:
        made = Call("distinct", (made,))
    return Call("filter", (made, arguments[1])) if len(arguments) > 1 else made


def _in_order(node: Node, below: list[Node], arguments: list[Expression], scope: Scope) -> list[Expression]:
    """Return the operands in their normal order, where another order computes the same."""
    name = node.name
    if name in _CHAIN and not any(map(raising.may_raise, below)):
        # Else the first operand may spare the second one's error.
        return sorted(_looked_for(below, arguments, scope) if name == "Or" else arguments, key=str)
    if name in _SWAP or name == "In":
        first = 1 if name == "In" else 0
        pairs = sorted(zip(arguments[first:], node.children[first:], strict=True), key=_constants_last)
        return arguments[:first] + [argument for argument, _ in pairs]
    if name == "Coalesce" and not drawn(node):
        # What comes again has no part in it. Spark takes it out only where it sees that the first is never null, which
        # depends on what else is selected (RewriteWithExpression; found by the sweep).
        return list(dict.fromkeys(arguments))
    return arguments


def _constants_last(pair: tuple[Expression, Node]) -> tuple[bool, str]:
    return pair[1].name == "Literal", pair[0].text


def _normal_form(node: Node, arguments: list[Expression]) -> tuple[str, dict[str, Any], list[Expression]]:
    """Return the name, fields and operands of the same expression, as one of those that compute the same is written."""
    name, fields = node.name, node.fields
    if name in _MIRROR and _turned(node):
        name, arguments = _MIRROR[name], arguments[::-1]
    if name == "CaseWhen" and len(arguments) == 3:
        name, fields = "If", {}  # all there is of one that has but one condition
    if name == "If" and _null(node.children[2]):
        name, arguments = "CaseWhen", arguments[:2]  # as the optimizer leaves one without ELSE
    if name in ("UnixTimestamp", "ToUnixTimestamp") and _timestamp(node.children[0]):
        fields = {**fields, "timeZoneId": "UTC"}  # a zone is for texts and dates
    if name == "TimestampAddInterval" and not _of_days(node.children[1]):
        fields = {**fields, "timeZoneId": "UTC"}  # no zone has a part in it
        # nor the unit it was given in
        arguments = [arguments[0], Literal(str(node.children[1].fields["value"]), "interval")]
    return name, fields, arguments


def looks_at_partitions(node: Node) -> bool:
    """Return whether its value depends on the partitions that rows are on, or on their order there."""
    of_python = node.fields.get("evalType") in _OF_PARTITIONS or "UDTF" in node.name
    return node.name in _PLACES or of_python


def _in_partitions(node: Node, made: Expression, scope: Scope) -> Expression:
    return Call("in partitions", (made, *scope.partitions)) if scope.partitions and looks_at_partitions(node) else made


# Expressions that are null when one of their operands is (Expression.nullIntolerant): of a filter's column in one of
# these Spark asks that it is not null (InferFiltersFromConstraints). Another one that is so is missed, which is safe.
_NULL_INTOLERANT = frozenset(
    {"EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "Not", "Cast", "Add", "Subtract",
     "Multiply", "Divide", "Remainder", "Pmod", "IntegralDivide", "UnaryMinus", "Abs", "Like", "RLike",
     "StartsWith", "EndsWith", "Contains", "Upper", "Lower", "Length", "Substring", "BitwiseAnd",
     "BitwiseOr", "BitwiseXor", "BitwiseNot", "GetStructField", "Hour", "Minute", "Second", "Year", "Month",
     "DayOfMonth", "PreciseTimestampConversion"}
)  # fmt: skip


def not_null(condition: Node, scope: Scope) -> set[Expression]:
    """Return the columns and fields that are not null where the condition is true (or an operand is not null)."""
    found: set[Expression] = set()
    if condition.name in ("AttributeReference", "GetStructField"):
        found.add(references.shape(condition, scope, expression))
    if condition.name in _NULL_INTOLERANT:
        found = found.union(*(not_null(child, scope) for child in condition.children))
    return found


def details(name: str, fields: dict[str, Any], scope: Scope = _NO_COLUMNS) -> tuple[tuple[str, Expression], ...]:
    """Return all fields of a node that count. Some hold expressions: what BETWEEN and its like were written with, and
    the column around a subquery."""
    found = []
    for field, value in sorted(fields.items()):
        if noise.counts(name, field, value):
            shown = Literal(zone(value)) if field == "timeZoneId" and isinstance(value, str) else option(value, scope)
            if noise.USUAL.get(field) != shown.text.strip("'"):
                found.append((field, shown))
    return tuple(found)


def option(value: Any, scope: Scope = _NO_COLUMNS) -> Expression:
    """Return a field's value."""
    if is_tree(value):
        return expression(parse(value), scope)
    if isinstance(value, dict):
        if "rendered" in value:
            return Literal(str(value["rendered"]))
        if "unreadable" in value:
            return Unknown(str(value["unreadable"]))
        if "object" in value:
            return Literal(str(value["object"]).rsplit(".", 1)[-1].strip("$").rsplit("$", 1)[-1])
        if "type" in value:
            return _type(value)
        return Call("map", (), tuple((key, option(inner, scope)) for key, inner in sorted(value.items())))
    if isinstance(value, list):
        made = tuple(option(each, scope) for each in value)
        plain = all(isinstance(each, Literal) for each in made)
        return Literal(f"[{', '.join(map(str, made))}]") if plain else Call("list", made)
    return Literal(repr(value) if isinstance(value, str) and not value.isidentifier() else str(value))


def _type(kind: Any) -> Expression:
    text = types.type_text(kind) if isinstance(kind, dict) else option(kind).text
    return Literal(text) if types.is_comparable(kind) else Unknown(text)


def _null(node: Node) -> bool:
    return node.name == "Literal" and node.fields.get("value") is None


def _is_word(node: Node) -> bool:
    """Return whether it is a text of ASCII letters, of which Python and Java have the same capitals."""
    value = node.fields.get("value")
    known = node.name == "Literal" and node.fields.get("dataType") == "string"
    return known and isinstance(value, str) and value.isascii() and value.isalpha()


def _literal(fields: dict[str, Any]) -> Expression:
    value, kind = fields.get("value"), fields.get("dataType")
    if isinstance(value, dict) and "unreadable" in value:
        return Unknown(f"literal: {value['unreadable']}")
    if not types.is_comparable(kind):
        return Unknown(f"literal: {types.type_text(kind)}")
    as_text = "" if kind in ("integer", "boolean", "string") else _type(kind).text
    if value is None:
        return Literal("null", _type(kind).text)
    if str(kind).startswith("string") and not isinstance(value, dict):
        return Literal(repr(value), as_text)
    return Literal(
        option(value).text if isinstance(value, dict) else str(value), as_text or ("string" if kind == "string" else "")
    )


def _with(node: Node, scope: Scope) -> Expression:
    """Return an expression with those that it uses several times in their places: what tells them apart is a number
    that counts in the JVM. (BETWEEN is one; in a stream's own plan the optimizer puts them there,
    RewriteWithExpression.)"""
    body, *definitions = node.children
    inner = {}
    for each in definitions:
        made = expression(each.children[0], scope)
        inner[_common(each)] = Call("once", (made,)) if drawn(each) else made
    return expression(body, scope.including(inner))


def _common(node: Node) -> int:
    """Return the number of a common expression, as one of no column."""
    found = re.search(r"\d+", str(node.fields["id"]))
    return _COMMON - int(found[0]) if found else _COMMON


def _lambda(node: Node, scope: Scope) -> Expression:
    """Return a lambda function. Variables are known by their place: their names hold a number that counts in the
    session."""
    body, *variables = node.children
    names = [f"λ{scope.lambdas + place + 1}" for place in range(len(variables))]
    own = {expression_id(v): Column("", name) for v, name in zip(variables, names, strict=True)}
    own = {
        key: made for key, made in own.items() if key not in scope.columns
    }  # an element of a column is known as such
    return Lambda(tuple(names), expression(body, scope.including(own, lambdas=len(variables))))


def _columns_read(node: Node, scope: Scope) -> list[tuple[int, Expression, Any]]:
    """Return the columns an expression reads: id, column, type."""
    read = [n for n in node.walk() if n.name == "AttributeReference"]
    return [(expression_id(n), expression(n, scope), n.fields["dataType"]) for n in read]


def _function(name: str, fields: dict[str, Any], arguments: list[Expression]) -> Python:
    """Return a function of the app's: comparable by the digest of its code (spark_internals adds it), its result's type
    and how it is called; a name says nothing about what it computes."""
    if not fields.get("code"):
        why = f" ({fields['uncomparable']})" if fields.get("uncomparable") else ""
        return Python("", f"{fields.get('name') or name}{why}", tuple(arguments))
    told = {k: v for k, v in fields.items() if k not in ("code", "name", "func", "uncomparable")}
    return Python(str(fields["code"]), str(fields.get("name") or ""), tuple(arguments), details(name, told))


def _of_java(class_name: Node) -> bool:
    """Return whether the class that java_method or reflect calls comes with Java, or with Spark: their versions are
    compared elsewhere."""
    return str(class_name.fields.get("value")).startswith(("java.", "org.apache.spark."))


def _timestamp(expression: Node) -> bool:
    return expression.name == "AttributeReference" and expression.fields["dataType"] == "timestamp"


def _parts(node: Node, name: str) -> list[Node]:
    if node.name != name:
        return [node]
    return [part for child in node.children for part in _parts(child, name)]


# Types whose values IN finds as = does. Of others NaN, -0.0 and collations are not looked at here.
_FOUND_ALIKE = ("string", "byte", "short", "integer", "long", "date")


def _looked_for(operands: list[Node], made: list[Expression], scope: Scope) -> list[Expression]:
    """Return OR's operands; of those that look for constants in one thing one: ``k = 'a' or k in ('b', 'c')`` is
    ``k in ('a', 'b', 'c')``, also where k is null, which makes both null."""
    found: dict[Expression, set[Expression]] = {}
    rest = []
    for operand, told in zip(operands, made, strict=True):
        thing, *constants = _thing_first(operand)
        if constants and all(map(_found_alike, constants)) and not drawn(thing):
            found.setdefault(expression(thing, scope), set()).update(expression(c, scope) for c in constants)
        else:
            rest.append(told)
    for each, values in found.items():
        rest.append(Call("in" if len(values) > 1 else "equalto", (each, *sorted(values, key=str))))
    return rest


def _thing_first(operand: Node) -> list[Node]:
    """Return (operand, constants) of ``=`` and IN; otherwise the node."""
    if operand.name not in ("EqualTo", "In"):
        return [operand]
    turned = operand.name == "EqualTo" and operand.children[0].name == "Literal"
    return operand.children[::-1] if turned else operand.children


def _found_alike(constant: Node) -> bool:
    fields = constant.fields
    return constant.name == "Literal" and fields.get("dataType") in _FOUND_ALIKE and fields.get("value") is not None


def drawn(expression: Node) -> bool:
    """Return whether an expression, or one in it, has another value each time it is evaluated."""
    return any(map(drawn_here, expression.walk()))


def drawn_here(node: Node) -> bool:
    """Return whether an expression is so by itself."""
    return node.name in noise.SEEDS or node.name in noise.ONLY_IN["randomSeed"] or _unsteady(node.fields)


def _unsteady(fields: dict[str, Any]) -> bool:
    return fields.get("udfDeterministic") is False or fields.get("isDeterministic") is False


def _turned(comparison: Node) -> bool:
    """Return whether a comparison is to be turned: the constant comes last; two columns are compared by less than."""
    left, right = (child.name == "Literal" for child in comparison.children)
    return left if left != right else comparison.name.startswith("Greater")


_DAY = 86_400_000_000  # microseconds
_OF_A_CALENDAR = re.compile("day|week|month|year")


def _of_days(interval: Node) -> bool:
    """Return whether an interval may have days or larger units: these are added as such, so their length depends on the
    time zone (DateTimeUtils: timestampAddInterval, timestampAddDayTime); smaller units have a fixed length."""
    kind, value = str(interval.fields.get("dataType")), str(interval.fields.get("value"))
    if interval.name != "Literal" or _OF_A_CALENDAR.search(f"{kind} {value}"):
        return True
    return kind != "interval" and not (value.lstrip("-").isdigit() and abs(int(value)) < _DAY)


def zone(name: str) -> str:
    """Return a time zone's name; the same one for all names of UTC, which differ between machines."""
    return "UTC" if name in ("Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Z", "GMT", "Etc/GMT", "+00:00") else name
