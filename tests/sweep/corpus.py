"""The seed expressions: the examples of Spark's own registry, with the table's columns in the place of their literals.

Nothing here says what a function means. An example's call is taken as written, and then with a column of a fitting type
for each of its literals; what Spark does not take is left out when it is analyzed (`judge`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import attrs
from pyspark.sql import SparkSession

from tests.sweep.sql_text import Token, calls, replaced, split, sql, tokens
from tests.sweep.table import COLUMNS, OF_TYPE

_IDENTIFIER = "org.apache.spark.sql.catalyst.FunctionIdentifier"
# Sizes come from their arguments: none that ends the driver.
GREEDY = frozenset(
    [
        "repeat",
        "space",
        "sequence",
        "array_repeat",
        "lpad",
        "rpad",
        "randstr",
        "stack",
        "array_insert",
        "bin",
        "conv",
        "format_string",
        "printf",
        "shiftleft",
        "overlay",
        "pow",
        "power",
        "factorial",
        "hll_sketch_agg",
        "approx_percentile",
        "percentile_approx",
        "approx_top_k",
    ]
)
# What cannot be judged, with the reason.
WITHOUT = {
    "python_worker_logs": "a table function: a leaf of a plan, no expression",
    "range": "a table function: a leaf of a plan, no expression",
    "from_avro": "needs the module spark-avro, which is not in the environment",
    "to_avro": "needs the module spark-avro, which is not in the environment",
    "schema_of_avro": "needs the module spark-avro, which is not in the environment",
    "from_protobuf": "needs the module spark-protobuf, which is not in the environment",
    "to_protobuf": "needs the module spark-protobuf, which is not in the environment",
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


def _examples(text: str) -> Iterator[str]:
    for found in re.finditer(r"^\s*>\s*(SELECT\b.*?);\s*$", text, re.MULTILINE | re.DOTALL | re.IGNORECASE):
        yield " ".join(found.group(1).split())


# What has no example, or whose examples leave out what matters.
_OWN: dict[str, tuple[str, ...]] = {
    "!=": ("c_int != 1",), "<>": ("c_int <> 1",), "||": ("c_str || 'x'", "c_ints || array(1)", "c_bin || c_bin2"),
    "case": ("CASE WHEN c_int > 0 THEN c_int2 WHEN c_int < 0 THEN 5 ELSE 7 END", "CASE c_letter WHEN 'a' THEN 1 WHEN 'b' THEN 2 END",
             "CASE WHEN c_bool THEN c_str WHEN c_bool2 THEN c_str2 ELSE 'none' END"),
    **{kind: (f"{kind}(c_num)", f"{kind}(c_int)", f"{kind}(c_double)") for kind in
       ("bigint", "boolean", "decimal", "double", "float", "int", "smallint", "string", "tinyint")},
    "binary": ("binary(c_str)",), "date": ("date(c_when)", "date(c_ts)"), "time": ("time(c_when)", "time(c_ntz)"),
    "timestamp": ("timestamp(c_when)", "timestamp(c_date)"),
    "cast": tuple(f"CAST({c} AS {t})" for c, t in (("c_num", "INT"), ("c_double", "INT"), ("c_when", "TIMESTAMP"), ("c_ts", "STRING"),
             ("c_dec2", "DECIMAL(10,2)"), ("c_int", "TINYINT"), ("c_ts", "DATE"), ("c_ints", "ARRAY<STRING>"), ("c_user", "STRUCT<a: BIGINT, b: STRING, c: INT, d: STRING>"),
             ("c_str", "VARCHAR(3)"), ("c_str", "CHAR(5)"), ("c_map", "MAP<STRING, BIGINT>"), ("c_ds", "INTERVAL HOUR TO SECOND"))),
    "try_cast": ("TRY_CAST(c_num AS INT)", "TRY_CAST(c_when AS DATE)", "TRY_CAST(c_double AS TINYINT)"),
    "in": tuple(f"{c} IN ({', '.join(v(i) for i in range(n))})" for n in (1, 2, 10, 11, 100)
                for c, v in (("c_int", str), ("c_num", lambda i: f"'{i}'"), ("c_double", lambda i: f"{i}.5D"), ("c_long", lambda i: f"{i}L"),
                             ("c_dec", lambda i: f"{i}.50"))),
    "like": ("c_str LIKE 'a%'", "c_str LIKE '%/%%' ESCAPE '/'", "c_str LIKE '100#%%' ESCAPE '#'", "c_str LIKE '_b%'", "c_str NOT LIKE '%a%'", "c_str LIKE c_str2",
             "c_str LIKE ANY ('a%', '%b')", "c_str LIKE ALL ('%a%', '%b%')", "c_str NOT LIKE ANY ('a%', '%b')", "c_str NOT LIKE ALL ('a%', '%b')",
             f"c_str LIKE ANY ({', '.join(repr(f'{i}%') for i in range(250))}, 'S%')",
             f"c_str LIKE ALL ({', '.join(repr('%' + c + '%') for c in 'abS' * 80)})", "c_str LIKE SOME ('%S%', 'x')"),
    "ilike": ("c_str ILIKE 'A%'", "c_str ILIKE '%/_%' ESCAPE '/'", "c_str ILIKE ANY ('A%', '%b')"),
    "rlike": ("c_str RLIKE '^[a-z]+$'", "c_str RLIKE '(?i)spark'", "regexp(c_str, 'a.c')"),
    "from_json": ("from_json(c_json, 'a INT, b DOUBLE')", "from_json(c_json, 'a STRING, b ARRAY<INT>')", "from_json(c_json, 'b DOUBLE, a INT', map('mode', 'PERMISSIVE'))",
                  "from_json(c_json, 'a INT', map('mode', 'FAILFAST'))", "from_json(c_json, 'a INT, _corrupt STRING', map('columnNameOfCorruptRecord', '_corrupt'))",
                  "from_json(c_json, 'a INT', map('allowSingleQuotes', 'false'))", "from_json(c_json, 'a INT', map('allowNumericLeadingZeros', 'true'))",
                  "from_json(c_json, 'time DATE', map('dateFormat', 'dd/MM/yyyy'))", "from_json(c_json, 'a TIMESTAMP', map('timeZone', 'UTC'))",
                  "from_json(c_json, 'a STRING', map('primitivesAsString', 'true'))", "from_json(c_json, 'MAP<STRING, STRING>')", "from_json(c_json, 'ARRAY<INT>')", "from_json(c_json, 'VARIANT')"),
    "to_json": ("to_json(named_struct('t', c_ts), map('timestampFormat', 'dd/MM/yyyy'))", "to_json(c_user, map('ignoreNullFields', 'false'))", "to_json(c_map, map('pretty', 'true'))",
                "to_json(named_struct('t', c_ts), map('timeZone', 'UTC'))", "to_json(c_people)"),
    "from_csv": ("from_csv(c_csv, 'a INT, b DOUBLE')", "from_csv(c_csv, 'a STRING, b STRING', map('sep', ';'))", "from_csv(c_csv, 'a STRING, b STRING', map('nullValue', '1'))",
                 "from_csv(c_csv, 'a STRING', map('ignoreLeadingWhiteSpace', 'true'))", "from_csv(c_csv, 'a DOUBLE', map('nanValue', '1'))", "from_csv(c_csv, 'a INT', map('mode', 'FAILFAST'))"),
    "to_csv": ("to_csv(named_struct('t', c_ts), map('timestampFormat', 'dd/MM/yyyy'))", "to_csv(c_user, map('sep', ';'))", "to_csv(c_user, map('nullValue', 'none'))", "to_csv(named_struct('a', c_str), map('quoteAll', 'true'))"),
    "from_xml": ("from_xml(c_xml, 'a INT, b DOUBLE')", "from_xml(c_xml, 'a STRING, b STRING', map('mode', 'PERMISSIVE'))", "from_xml(c_xml, '_a STRING, b STRING', map('attributePrefix', '_'))",
                 "from_xml(c_xml, 'a STRING', map('nullValue', 'x'))", "from_xml(c_xml, 'a STRING', map('ignoreSurroundingSpaces', 'false'))"),
    "to_xml": ("to_xml(c_user, map('rowTag', 'person'))", "to_xml(named_struct('t', c_date), map('dateFormat', 'dd/MM/yyyy'))"),
    "transform": ("transform(c_ints, x -> x + 1)", "transform(c_ints, (x, i) -> x * i)", "transform(c_lists, l -> transform(l, x -> x + size(l)))", "transform(c_people, p -> p.id)",
                  "transform(c_ints, x -> x + c_small)", "transform(c_lists, l -> filter(l, x -> x > 1))"),
    "filter": ("filter(c_ints, x -> x > 1)", "filter(c_ints, (x, i) -> x > i)", "filter(c_people, p -> p.name = 'a')"),
    "aggregate": ("aggregate(c_ints, 0, (acc, x) -> acc + x)", "aggregate(c_ints, 0L, (acc, x) -> acc + x, acc -> acc * 10)", "aggregate(c_ints, 0, (acc, x) -> greatest(acc, x))"),
    "exists": ("exists(c_ints, x -> x = 2)", "exists(c_people, p -> p.name = 'b')"), "forall": ("forall(c_ints, x -> x > 0)",),
    "zip_with": ("zip_with(c_ints, c_ints2, (x, y) -> x - y)", "zip_with(c_ints, c_ints2, (x, y) -> (y, x))"),
    "map_filter": ("map_filter(c_map, (k, v) -> v > 1)",), "transform_keys": ("transform_keys(c_names, (k, v) -> k + 1)",), "transform_values": ("transform_values(c_map, (k, v) -> v + 1)",),
    "map_zip_with": ("map_zip_with(c_map, c_map2, (k, a, b) -> coalesce(a, b))",),
    "array_sort": ("array_sort(c_ints, (x, y) -> CASE WHEN x < y THEN 1 WHEN x > y THEN -1 ELSE 0 END)", "array_sort(c_ints)"),
    "sort_array": ("sort_array(c_ints, true)", "sort_array(c_strs, false)"),
    "struct": ("c_user.id", "c_user.country", "c_nested.a.x", "c_nested.b", "struct(c_int, c_str)", "c_people.name", "c_people[0].id", "c_map['a']", "c_ints[0]", "c_ints[c_small]",
               "c_user.id + c_user.age", "c_user.country || c_user.region", "upper(c_user.country)"),
    "named_struct": ("named_struct('a', c_int, 'b', c_int2)", "named_struct('a', named_struct('x', c_int, 'y', c_str), 'b', c_date)"),
    "collate": ("c_str COLLATE UTF8_LCASE = 'spark'", "upper(c_ci)", "c_ci = c_de COLLATE UTF8_LCASE", "c_str COLLATE UNICODE_CI < 'B'", "replace(c_str COLLATE UTF8_LCASE, 'A', 'x')",
                "collation(c_str COLLATE UNICODE)", "instr(c_str COLLATE UTF8_LCASE, 'B')", "c_str COLLATE UNICODE_CI IN ('A', 'B', 'spark')"),
    "extract": ("EXTRACT(DOW FROM c_ts)", "EXTRACT(YEAR FROM c_date)", "EXTRACT(SECOND FROM c_ds)", "EXTRACT(DOY FROM c_ntz)"), "date_part": ("date_part('WEEK', c_ts)", "date_part('MONTH', c_ym)"),
    "trim": ("TRIM(BOTH 'a' FROM c_str)", "TRIM(LEADING ' ' FROM c_str)", "trim(c_str)"),
    "+": ("c_int + c_int2", "c_ts + INTERVAL 1 DAY", "c_ts + INTERVAL 1 MONTH", "c_date + 1", "c_ts + INTERVAL '1 2' DAY TO HOUR", "c_long + 1", "c_dec + c_dec2", "c_ts + make_interval(0, c_small)", "c_date + INTERVAL 3 DAYS"),
    "-": ("c_int - c_int2", "c_ts - c_ts2", "c_date - c_date2", "-c_int", "c_double - c_double2"), "*": ("c_int * c_int2", "c_dec * c_dec2", "c_ym * 2", "c_double * 0.0D"),
    "/": ("c_int / c_int2", "c_dec / 3", "c_double / c_double2"), "div": ("c_long DIV 3",), "mod": ("c_int % 7",),
    "try_add": ("try_add(c_int, c_int2)", "try_add(c_ts, INTERVAL 1 DAY)"), "try_subtract": ("try_subtract(c_int, c_int2)",), "try_multiply": ("try_multiply(c_int, c_int2)",), "try_divide": ("try_divide(c_int, c_int2)",), "try_mod": ("try_mod(c_int, c_small)",),
    "try_element_at": ("try_element_at(c_ints, 2)", "try_element_at(c_map, 'a')"), "element_at": ("element_at(c_ints, 2)", "element_at(c_map, 'a')"), "get": ("get(c_ints, c_small)",),
    "hash": ("hash(c_int)", "hash(c_int, c_str)", "hash(c_long)", "hash(c_user)", "hash(c_double)", "hash(c_ci)"), "xxhash64": ("xxhash64(c_int, c_str)", "xxhash64(c_user.id)", "xxhash64(c_ints)"),
    "between": ("c_int BETWEEN 1 AND 10", "c_str BETWEEN 'A' AND 'b'", "c_int NOT BETWEEN SYMMETRIC 5 AND 1"),
    "window": ("window(c_ts, '10 minutes')", "window(c_ts, '10 minutes', '5 minutes')", "window(c_ts, '10 minutes', '5 minutes', '1 minute')", "window(c_ntz, '1 day')"),
    "session_window": ("session_window(c_ts, '5 minutes')", "session_window(c_ts, CASE WHEN c_bool THEN '5 minutes' ELSE '1 minute' END)"),
    "window_time": ("window_time(window(c_ts, '10 minutes'))",),
    "date_format": ("date_format(c_ts, 'yyyy-MM-dd')", "date_format(c_ts, 'E HH:mm')"), "to_date": ("to_date(c_when, 'yyyy-MM-dd')",), "to_timestamp": ("to_timestamp(c_when, 'yyyy-MM-dd HH:mm:ss')",),
    "from_utc_timestamp": ("from_utc_timestamp(c_ts, 'Asia/Seoul')",), "convert_timezone": ("convert_timezone('Europe/Brussels', 'America/Los_Angeles', c_ntz)",),
    "count": ("count(*)", "count(c_int)", "count(c_int, c_str)", "count(1)", "count(DISTINCT c_str)", "count_if(c_int > 1)", "count(*) FILTER (WHERE c_int > 1)"),
    "sum": ("sum(c_int)", "sum(c_dec)", "sum(c_double)", "sum(c_int) FILTER (WHERE c_bool)", "sum(c_ym)", "sum(CASE WHEN c_letter IN ('a', 'b') THEN c_small END)",
            f"sum(CASE WHEN c_num IN ({', '.join(repr(str(i)) for i in range(12))}) THEN c_small END)", "sum(c_user.id)", "sum(DISTINCT c_small)", "sum(c_long + 1)"),
    "avg": ("avg(c_int)", "avg(c_dec)", "avg(c_ds)", "avg(c_double)"), "min": ("min(c_user)", "min(c_ci)", "min(c_double)"), "max": ("max(c_user)", "max(struct(c_int, c_str))", "max(c_ci)", "max(c_de)", "max(c_user.age)"),
    "first": ("first(c_int) ", "first(c_int, true)", "first(c_str) IGNORE NULLS", "first_value(c_str)"), "last": ("last(c_int)", "last(c_str, true)"), "any_value": ("any_value(c_int)", "any_value(c_int, true)"),
    "collect_list": ("collect_list(c_int)", "collect_list(c_user)", "collect_list(c_str) FILTER (WHERE c_str LIKE 'a%')"), "collect_set": ("collect_set(c_str)", "collect_set(c_ci)"),
    "listagg": ("listagg(c_letter, ',')", "listagg(c_letter, ',') WITHIN GROUP (ORDER BY c_letter DESC)", "string_agg(c_letter, c_str)", "listagg(DISTINCT c_letter, '-')"),
    "percentile": ("percentile(c_int, 0.5)", "percentile(c_double, array(0.1, 0.9))", "percentile(c_int, 0.5, 2)"), "percentile_cont": ("percentile_cont(0.5) WITHIN GROUP (ORDER BY c_int)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY c_int DESC)"),
    "percentile_disc": ("percentile_disc(0.3) WITHIN GROUP (ORDER BY c_int)", "percentile_disc(0.3) WITHIN GROUP (ORDER BY c_int DESC)"), "percentile_approx": ("percentile_approx(c_int, 0.5, 2)", "percentile_approx(c_int, array(0.5, 0.9), 100)"),
    "mode": ("mode(c_letter)", "mode(c_letter, true)", "mode() WITHIN GROUP (ORDER BY c_letter DESC)"), "max_by": ("max_by(c_str, c_int)", "max_by(c_str, c_int, 2)"), "min_by": ("min_by(c_str, c_int)",),
    "approx_count_distinct": ("approx_count_distinct(c_int)", "approx_count_distinct(c_int, 0.2)"), "count_min_sketch": ("count_min_sketch(c_int, 0.5D, 0.5D, 1)",), "histogram_numeric": ("histogram_numeric(c_int, 3)",),
    "bit_and": ("bit_and(c_int)",), "bool_or": ("bool_or(c_bool)",), "every": ("every(c_bool)",), "corr": ("corr(c_small, c_small2)",), "covar_pop": ("covar_pop(c_small, c_small2)",), "stddev": ("stddev(c_int)",), "skewness": ("skewness(c_int)",),
    "grouping": ("@SELECT c_letter, grouping(c_letter) AS x, count(*) AS n FROM {t} GROUP BY CUBE(c_letter)", "@SELECT c_letter, c_bool, grouping(c_letter) AS x, count(*) AS n FROM {t} GROUP BY ROLLUP(c_letter, c_bool)"),
    "grouping_id": ("@SELECT c_letter, c_bool, grouping_id() AS x, sum(c_small) AS n FROM {t} GROUP BY GROUPING SETS ((c_letter, c_bool), (c_letter), ())",
                    "@SELECT c_letter, c_bool, grouping_id(c_letter, c_bool) AS x, count(*) AS n FROM {t} GROUP BY CUBE(c_letter, c_bool)",
                    "@SELECT c_letter, c_bool, sum(c_small) AS n FROM {t} GROUP BY GROUPING SETS ((c_letter), (c_bool))"),
    "explode": ("explode(c_ints)", "explode(c_map)", "explode(filter(c_ints, x -> x > 1))"), "explode_outer": ("explode_outer(c_ints)",), "posexplode": ("posexplode(c_ints)",), "inline": ("inline(c_people)",), "stack": ("stack(2, c_int, c_int2, 3, 4)",),
    "json_tuple": ("json_tuple(c_json, 'a', 'b')",), "variant_explode": ("@SELECT id, e.* FROM {t}, LATERAL variant_explode(c_var) AS e", "@SELECT id, e.value FROM {t}, LATERAL variant_explode_outer(c_var) AS e"),
    "rand": ("rand(5)", "rand()"), "randn": ("randn(5)",), "shuffle": ("shuffle(c_ints, 5)",), "uniform": ("uniform(1, 100, 5)",), "randstr": ("randstr(5, 1)",), "uuid": ("uuid()", "uuid(7)"),
    "variant_get": ("variant_get(c_var, '$.a', 'int')", "variant_get(c_var, '$.b[0]')"), "try_variant_get": ("try_variant_get(c_var, '$.a', 'int')",), "to_variant_object": ("to_variant_object(c_user)",),
    "typeof": ("typeof(c_int)", "typeof(c_user)"), "nullif": ("nullif(c_int, 1)",), "if": ("IF(c_bool, c_int, c_int2)",), "coalesce": ("coalesce(c_int, c_int2, 0)",),
    "vector_cosine_similarity": ("vector_cosine_similarity(c_floats, c_floats2)",), "vector_inner_product": ("vector_inner_product(c_floats, c_floats2)",), "vector_l2_distance": ("vector_l2_distance(c_floats, c_floats2)",),
    "vector_norm": ("vector_norm(c_floats, 2.0F)", "vector_norm(c_floats)"), "vector_normalize": ("vector_normalize(c_floats, 1.0F)",), "vector_avg": ("vector_avg(c_floats)",), "vector_sum": ("vector_sum(c_floats)",),
}  # fmt: skip


def seeds(spark: SparkSession, functions: Iterable[Function]) -> Iterator[Expression]:
    """The seed expressions of each function, without those written twice."""
    seen: set[str] = set()
    for function in functions:
        if function.name in WITHOUT:
            continue
        for text in _seeds(spark, function):
            if text not in seen:
                seen.add(text)
                yield Expression(text, function.name, text)


def _seeds(spark: SparkSession, function: Function) -> Iterator[str]:
    yield from (text.strip() for text in _OWN.get(function.name, ()))
    for example in function.examples:
        for written in _calls_of(spark, example):
            yield from _with_columns(written)


def _calls_of(spark: SparkSession, example: str) -> Iterator[str]:
    """What an example selects, in terms of the table's columns."""
    try:
        begin, _, rest = (
            example[len("SELECT") :].partition(" FROM (")
            if " FROM (" in example
            else example[len("SELECT") :].partition(" FROM VALUES")
        )
        where = (" FROM (" if " FROM (" in example else " FROM VALUES") + rest if rest else ""
        if where:
            where = (
                re.split(r"\b(?:GROUP BY|ORDER BY|HAVING|WHERE|LATERAL)\b", where)[0]
                if " FROM VALUES" in where[:12]
                else where
            )
            columns = _columns_of(spark, where)
        else:
            columns = {}
        for item in split(begin):
            parts = [t for t in tokens(item)]
            if len(parts) > 2 and parts[-2].is_name("AS"):
                parts = parts[:-2]
            named = tuple(
                Token("name", columns[t.text.lower()])
                if t.kind == "name" and t.text.lower() in columns and not _called(parts, i)
                else t
                for i, t in enumerate(parts)
            )
            text = sql(tuple(x for t in named for x in (tokens(t.text) if " " in t.text else (t,))))
            if len(parts) > 1:
                yield text
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


_UNITS = (
    "DAY",
    "DAYS",
    "MONTH",
    "MONTHS",
    "YEAR",
    "YEARS",
    "HOUR",
    "HOURS",
    "MINUTE",
    "MINUTES",
    "SECOND",
    "SECONDS",
    "WEEK",
    "WEEKS",
)
assert COLUMNS
