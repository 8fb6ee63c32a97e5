"""The seed expressions: the examples of Spark's own registry, with the table's columns in the place of their literals.

Nothing here says what a function means. An example's call is taken as written, and then with a column of a fitting type
for each of its literals; what Spark does not take is left out when it is analyzed (`judge`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs
from pyspark.sql import SparkSession

from tests.sweep.sql_text import Token, calls, replaced, split, sql, tokens
from tests.sweep.table import OF_TYPE

SEEDS = Path(__file__).with_name("seeds.txt")
_SELECT = re.compile(r"(?s)(?i:SELECT)(.*?)(?:( FROM \(| FROM VALUES)(.*))?$")
_IDENTIFIER = "org.apache.spark.sql.catalyst.FunctionIdentifier"
# Sizes come from their arguments: none that ends the driver.
GREEDY = frozenset((
    "repeat", "space", "sequence", "array_repeat", "lpad", "rpad", "randstr", "stack", "array_insert", "bin", "conv",
    "format_string", "printf", "shiftleft", "overlay", "pow", "power", "factorial", "hll_sketch_agg", "approx_top_k",
    "approx_percentile", "percentile_approx",
))  # fmt: skip
_UNITS = tuple(f"{unit}{s}" for unit in ("DAY", "MONTH", "YEAR", "HOUR", "MINUTE", "SECOND", "WEEK") for s in ("", "S"))
# What cannot be judged, with the reason.
WITHOUT = {
    **dict.fromkeys(("python_worker_logs", "range"), "a table function: a leaf of a plan, no expression"),
    **{
        name: f"needs the module spark-{name.rpartition('_')[2]}, which is not in the environment"
        for name in ("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf")
    },
}


@attrs.frozen
class Function:
    """A built-in function: name, group of Spark's documentation, its examples' texts."""

    name: str
    group: str
    examples: tuple[str, ...]


@attrs.frozen
class Expression:
    """sql: the text; function: whose it is; seed: the expression it is a change of (its own text for a seed); change:
    what was changed."""

    sql: str
    function: str
    seed: str
    change: str = "seed"


def registry(spark: SparkSession) -> list[Function]:
    """Every built-in function Spark knows."""
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = getattr(spark._jvm, _IDENTIFIER)
    found = []
    for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        try:
            info = catalog.lookupFunctionInfo(identifier(name))
            found.append(Function(name, info.getGroup() or "", tuple(_examples(info.getExamples() or ""))))
        except Exception:  # the parser knows it, the registry does not: !=, case, ||
            found.append(Function(name, "", ()))
    return found


def syntax(functions: Iterable[Function]) -> list[Function]:
    """What is no function of the registry but has expressions of our own: ``TRY_CAST``, ``a.b``, ``EXTRACT``."""
    return [Function(name, "", ()) for name in own_seeds().keys() - {f.name for f in functions}]


def _examples(text: str) -> Iterator[str]:
    for found in re.finditer(r"^\s*>\s*(SELECT\b.*?);\s*$", text, re.MULTILINE | re.DOTALL | re.IGNORECASE):
        yield " ".join(found.group(1).split())


# Lists of values and of patterns: short, around the lengths from which Spark plans them otherwise, and long.
_LENGTHS = (11, 100, 10, 2, 1)
_VALUES: dict[str, Callable[[int], str]] = {
    "c_int": str,
    "c_num": lambda i: f"'{i}'",
    "c_double": lambda i: f"{i}.5D",
    "c_long": lambda i: f"{i}L",
    "c_dec": lambda i: f"{i}.50",
    "c_date": lambda i: f"DATE'2016-12-31' - {i}",
    "c_ci": lambda i: f"'a{i or ''}'",
}


def _lists() -> Iterator[tuple[str, str]]:
    for length in _LENGTHS:
        for column, value in _VALUES.items():
            yield "in", f"{column} IN ({', '.join(map(value, range(length)))})"
    names = ", ".join(repr(str(i)) for i in range(12))
    yield "sum", f"sum(CASE WHEN c_num IN ({names}) THEN c_small END)"
    yield "like", f"c_str LIKE ANY ({', '.join(repr(f'{i}%') for i in range(250))}, 'S%')"
    yield "like", f"c_str LIKE ALL ({', '.join(repr(f'%{c}%') for c in 'aS' * 120)})"


def own_seeds() -> dict[str, list[str]]:
    """The seed expressions that are not Spark's, by function."""
    found: dict[str, list[str]] = {}
    for name, text in _lists():
        found.setdefault(name, []).append(text)
    name = ""
    for line in SEEDS.read_text().splitlines():
        if line.startswith("    "):
            found[name].append(line.strip())
        elif line and not line.startswith("#"):
            name = line
            found.setdefault(name, [])
    return found


def seeds(spark: SparkSession, functions: Iterable[Function]) -> Iterator[Expression]:
    """The seed expressions of each function, without those written twice."""
    seen: set[str] = set()
    own = own_seeds()
    for function in functions:
        if function.name in WITHOUT:
            continue
        for text in _seeds(spark, function, own.get(function.name, [])):
            if text not in seen:
                seen.add(text)
                yield Expression(text, function.name, text)


def _seeds(spark: SparkSession, function: Function, own: list[str]) -> Iterator[str]:
    yield from own
    for example in function.examples:
        for written in _calls_of(spark, example):
            yield from _with_columns(written)


def _calls_of(spark: SparkSession, example: str) -> Iterator[str]:
    """What an example selects, in terms of the table's columns."""
    try:
        begin, where, rest = _SELECT.match(example).groups()  # type: ignore[union-attr]
        if where == " FROM VALUES":
            rest = re.split(r"\b(?:GROUP BY|ORDER BY|HAVING|WHERE|LATERAL)\b", rest)[0]
        columns = _columns_of(spark, where + rest) if rest else {}
        for item in split(begin):
            parts = list(tokens(item))
            if len(parts) > 2 and parts[-2].is_name("AS"):
                parts = parts[:-2]
            named = [
                columns[t.text.lower()]
                if t.kind == "name" and t.text.lower() in columns and not _called(parts, i)
                else t.text
                for i, t in enumerate(parts)
            ]
            if len(parts) > 1:
                yield sql(tuple(x for text in named for x in tokens(text)))
    except Exception:
        return


def _called(parts: list[Token], position: int) -> bool:
    return (position + 1 < len(parts) and parts[position + 1].text == "(") or (
        position > 0 and parts[position - 1].text == "."
    )


def _columns_of(spark: SparkSession, where: str) -> dict[str, str]:
    """For each column of an example's rows one of ours; sketches and other bytes become a CASE of the example's own."""
    rows = spark.sql(f"SELECT * {where}")
    found: dict[str, str] = {}
    for field in rows.schema.fields:
        kind = field.dataType.simpleString().upper()
        if kind == "BINARY":
            values = [r[0] for r in rows.selectExpr(f"hex({field.name})").collect()][:4]
            cases = " ".join(f"WHEN {i} THEN X'{v}'" for i, v in enumerate(values) if v is not None)
            found[field.name.lower()] = f"(CASE id % {len(values) + 1} {cases} END)" if cases else "c_bin"
            continue
        ours = [c for c in OF_TYPE.get(kind.replace("TIMESTAMP_LTZ", "TIMESTAMP"), []) if c not in found.values()]
        if kind == "STRING":
            first = rows.selectExpr(field.name).first()
            ours = [column_like(str(first[0]) if first else "")]
        if kind.startswith("DECIMAL"):
            ours = ["c_dec"]
        if kind.startswith("STRUCT"):
            ours = ["c_user"]
        if kind.startswith("ARRAY"):
            ours = ours or ["c_ints"]
        if kind == "INT" and ours:
            ours = [c for c in ("c_small", "c_small2", "c_int") if c in ours] or ours
        found[field.name.lower()] = ours[0] if ours else "c_str"
    return found


def column_like(text: str) -> str:
    """The string column whose values are of a literal's kind."""
    if re.match(r"\s*[\[{]", text):
        return "c_json"
    if text.lstrip().startswith("<"):
        return "c_xml"
    if "://" in text or "%3A" in text:
        return "c_url"
    if re.match(r"\d{1,4}[-/]\d{1,2}[-/]|\d\d?:\d\d", text):
        return "c_when"
    if re.fullmatch(r"\s*[-+$]?[\d.,]+(e\d+)?\s*", text):
        return "c_csv" if "," in text else "c_num"
    if len(text) == 1:
        return "c_letter"
    return "c_str"


def column_for(token: Token, greedy: bool) -> str:
    """A column of a literal's type."""
    if token.kind == "typed":
        kind = token.text.split("'")[0].strip().upper()
        return {"DATE": "c_date", "TIMESTAMP_NTZ": "c_ntz", "TIME": "c_time"}.get(kind, "c_ts")
    if token.kind == "binary":
        return "c_bin"
    if token.kind == "string":
        return column_like(token.text.strip("'\"rR"))
    text = token.text.upper()
    if text[-1] in "DF" or "E" in text:
        return "c_double" if text[-1] != "F" else "c_float"
    if "." in text:
        return "c_dec"
    if text.endswith("L"):
        return "c_small" if greedy else "c_long"
    return "c_small" if greedy or abs(int(re.sub(r"\D", "", text) or 0)) < 10 else "c_int"


def _with_columns(text: str) -> Iterator[str]:
    """The call as written; with a column for its first literal, for each other one, and for all; and with a choice
    between literal and column, which keeps the example's own values."""
    parts = tokens(text)
    greedy = any(parts[p].text.lower() in GREEDY for p, _ in calls(parts))
    literals = [i for i, t in enumerate(parts) if t.literal and not (i and parts[i - 1].is_name("INTERVAL", "COLLATE"))]
    literals = [i for i in literals if not (i + 1 < len(parts) and parts[i + 1].is_name(*_UNITS))]
    yield text
    for i in literals[:4]:
        column = column_for(parts[i], greedy)
        yield sql(replaced(parts, i, column))
    for i in literals[:2]:
        column = column_for(parts[i], greedy)
        yield sql(replaced(parts, i, f"IF(c_bool, {parts[i].text}, {column})"))
    if len(literals) > 1:
        every = parts
        for i in reversed(literals):
            every = replaced(every, i, column_for(parts[i], greedy))
        yield sql(every)
