"""The table all expressions are computed on: edge cases of every type, and random values of a seed that is printed."""

from __future__ import annotations

import random
from typing import Any

from pyspark.sql import DataFrame, SparkSession

ROWS = 96


def _strings(*values: str) -> list[str]:
    return ["'" + v.replace("\\", "\\\\").replace("'", "\\'") + "'" for v in values]


_WHOLE = ["0", "1", "-1", "2", "7", "10", "11", "100", "NULL"]
_DOUBLES = ["0.0D", "-0.0D", "double('NaN')", "double('Infinity')", "double('-Infinity')", "1.0D", "-1.5D", "2.5D",
            "0.1D", "1e308D", "4.9e-324D", "123456.789D", "NULL"]  # fmt: skip
_DATES = ["0001-01-01", "1582-10-04", "1582-10-15", "1900-02-28", "1969-12-31", "1970-01-01", "2000-02-29", "2016-12-31",
          "2024-03-10", "2024-11-03", "2024-12-30", "9999-12-31"]  # fmt: skip
_TIMES = ["00:00:00", "01:30:00", "02:30:00", "03:00:00.123456", "12:34:56.789", "23:59:59.999999"]
_WORDS = _strings("", "a", "b", "A", "abc", "Spark SQL", "SPARK", "spark", " x ", "ä", "ÄB", "ß", "i̇", "日本", "😀", "a,b;c",
                  "100%_\\", "%", "_", "a\nb", "true", "null", "Hello World", "aabb", "facebook", "UTC", "\u0130") + ["NULL"]  # fmt: skip
_NUMBERS = _strings("0", "1", "-1", "1.5", "1e3", " 12 ", "2147483648", "9223372036854775808", "NaN", "Infinity", "-0", "0x1F",
                    "12abc", "$1,234.56", "٣", "true", "") + ["NULL"]  # fmt: skip
_DATE_LIKE = _strings("2009-07-30", "2016-12-31 00:12:00", "2016-04-08", "2024-03-10 02:30:00", "1970-01-01", "1582-10-10",
                      "31/08/2015", "2020", "2020-1-2", "2016-12-31T23:59:59Z", "2016-12-31 23:59:59+05:30", "12:34:56", "epoch", "10000-01-01") + ["NULL"]  # fmt: skip
_JSON = _strings('{"a":1,"b":0.8}', '{"a":"x","b":[1,2,3]}', '{"a":null}', '{"time":"26/08/2015"}', '[{"a":1},{"a":2}]', '[1,2,3]',
                 '{"A":1,"a":2}', '{"a":{"b":{"c":5}}}', '{"a":1', "", "null", '"x"', '{"a":1e400,"b":"NaN"}',
                 '{"a":01}', "{'a':1}", '{"a":"2016-12-31 00:12:00","b":2147483648}', '{"f1":"value1","f2":"value2"}') + ["NULL"]  # fmt: skip
_CSV = _strings(
    "1,0.8", "1,abc", "26/08/2015", "a,b,c", '"a,b",c', "1;2", "", ",", "2016-12-31,x", "  1 , 2 ", "#1,2", "NaN,-", "1"
) + ["NULL"]
_XML = _strings("<p><a>1</a><b>0.8</b></p>", "<p><a>1</a><a>2</a></p>", "<p><time>26/08/2015</time></p>", '<p a="7"><b>x</b></p>',
                "<p/>", "<p><a>x</a>", "", "<a><b>b1</b><b>b2</b><c>c1</c></a>", "<p><a> 1 </a><b/></p>", "<p><a>null</a></p>") + ["NULL"]  # fmt: skip
_URLS = _strings("http://spark.apache.org/path?query=1", "https://user:pw@host:8080/a/b?x=1&y=2#ref", "inva lid://user", "", "mailto:a@b.c",
                 "http://host/%20?q=%41", "https%3A%2F%2Fspark.apache.org") + ["NULL"]  # fmt: skip
_INTS = ["2147483647", "-2147483648", *_WHOLE]
_LONGS = ["9223372036854775807L", "-9223372036854775807L", "4294967296L", "1230219000L", "1230219000123L", *_WHOLE]

# name: (type, values as SQL, random value)
COLUMNS: dict[str, tuple[str, list[str]]] = {
    "c_bool": ("BOOLEAN", ["true", "false", "true", "NULL"]),
    "c_bool2": ("BOOLEAN", ["false", "true", "NULL"]),
    "c_byte": ("TINYINT", ["127", "-128", *_WHOLE]),
    "c_short": ("SMALLINT", ["32767", "-32768", *_WHOLE]),
    "c_small": ("INT", ["0", "1", "2", "3", "4", "5", "-1", "-2", "12", "NULL"]),
    "c_small2": ("INT", ["1", "3", "0", "2", "NULL", "5", "4"]),
    "c_int": ("INT", _INTS),
    "c_int2": ("INT", _INTS[::-1]),
    "c_long": ("BIGINT", _LONGS),
    "c_long2": ("BIGINT", _LONGS[::-1]),
    "c_float": ("FLOAT", [v.replace("double", "float").replace("1e308D", "3e38F").replace("4.9e-324D", "1.4e-45F") for v in _DOUBLES]),
    "c_double": ("DOUBLE", _DOUBLES),
    "c_double2": ("DOUBLE", _DOUBLES[::-1]),
    "c_unit": ("DOUBLE", ["0.0D", "0.25D", "0.5D", "0.99D", "1.0D", "-0.5D", "NULL"]),
    "c_dec": ("DECIMAL(10,2)", ["0", "1.5", "-1.55", "12345678.91", "99999999.99", "NULL", "2.5", "-0.01"]),
    "c_dec2": ("DECIMAL(38,18)", ["0", "1.000000000000000001", "-12345678901234567890.5", "99999999999999999999.9", "NULL", "0.5"]),
    "c_dec3": ("DECIMAL(5,0)", ["0", "7", "-7", "99999", "NULL"]),
    "c_str": ("STRING", _WORDS),
    "c_str2": ("STRING", _WORDS[::-1]),
    "c_letter": ("STRING", ["'a'", "'b'", "'c'", "'A'", "' '", "''", "NULL"]),
    "c_ci": ("STRING COLLATE UTF8_LCASE", _WORDS),
    "c_de": ("STRING COLLATE UNICODE_CI", _WORDS[3:] + _WORDS[:3]),
    "c_num": ("STRING", _NUMBERS),
    "c_when": ("STRING", _DATE_LIKE),
    "c_json": ("STRING", _JSON),
    "c_csv": ("STRING", _CSV),
    "c_xml": ("STRING", _XML),
    "c_url": ("STRING", _URLS),
    "c_bin": ("BINARY", ["X''", "X'00'", "X'FF'", "X'537061726B'", "X'80'", "X'C3A4'", "X'10'", "X'20'", "NULL"]),
    "c_bin2": ("BINARY", ["X'537061726B2053514C'", "X'01'", "X''", "NULL", "X'FFFF'"]),
    "c_date": ("DATE", [f"DATE'{d}'" for d in _DATES] + ["NULL"]),
    "c_date2": ("DATE", [f"DATE'{d}'" for d in _DATES[::-1]] + ["NULL"]),
    "c_ts": ("TIMESTAMP", [f"TIMESTAMP'{d} {t}'" for d in _DATES for t in _TIMES[:3:2]] + ["NULL"]),
    "c_ts2": ("TIMESTAMP", [f"TIMESTAMP'{d} {t}'" for d in _DATES[::-1] for t in _TIMES[1::2]] + ["NULL"]),
    "c_ntz": ("TIMESTAMP_NTZ", [f"TIMESTAMP_NTZ'{d} {t}'" for d in _DATES for t in _TIMES[1::2]] + ["NULL"]),
    "c_time": ("TIME(6)", [f"TIME'{t}'" for t in _TIMES] + ["NULL"]),
    "c_ym": ("INTERVAL YEAR TO MONTH", [f"INTERVAL '{v}' YEAR TO MONTH" for v in ("0-0", "1-2", "-3-11", "100-1")] + ["NULL"]),
    "c_ds": ("INTERVAL DAY TO SECOND", [f"INTERVAL '{v}' DAY TO SECOND" for v in ("0 00:00:00", "1 02:03:04.567", "-5 00:00:01", "100 23:59:59")] + ["NULL"]),
    "c_ints": ("ARRAY<INT>", ["array()", "array(1)", "array(1, 2, 3)", "array(3, 1, NULL, 2, 2)", "sequence(1, 11)", "sequence(1, 100)", "NULL", "array(2147483647, -1)"]),
    "c_ints2": ("ARRAY<INT>", ["array(2, 3, 4)", "array(NULL)", "array(1)", "NULL", "array(0, 0)"]),
    "c_doubles": ("ARRAY<DOUBLE>", ["array(0.0D, -0.0D)", "array(double('NaN'), 1D)", "array(1.5D, 2.5D, NULL)", "NULL", "array()"]),
    "c_floats": ("ARRAY<FLOAT>", ["array(1F, 2F, 3F)", "array(0F, -0F, 0F)", "array(float('NaN'), 1F, 2F)", "NULL", "array(4F, 5F, 6F)"]),
    "c_floats2": ("ARRAY<FLOAT>", ["array(4F, 5F, 6F)", "array(1F, 0F, 2F)", "NULL"]),
    "c_strs": ("ARRAY<STRING>", ["array('a', 'b', 'c')", "array('b', NULL, 'a')", "array()", "array('')", "NULL", "array('Spark', 'SQL', 'spark')"]),
    "c_lists": ("ARRAY<ARRAY<INT>>", ["array(array(1, 2), array(3))", "array(NULL, array())", "array()", "NULL", "array(array(3, 4), array(NULL, 1))"]),
    "c_people": ("ARRAY<STRUCT<id: INT, name: STRING>>", ["array(named_struct('id', 1, 'name', 'a'), named_struct('id', 2, 'name', 'b'))", "array(named_struct('id', NULL, 'name', 'x'))", "array()", "NULL"]),
    "c_map": ("MAP<STRING, INT>", ["map('a', 1, 'b', 2)", "map('b', 3)", "map()", "NULL", "map('a', NULL, 'A', 5)"]),
    "c_map2": ("MAP<STRING, INT>", ["map('c', 1)", "map('a', 2, 'z', 9)", "NULL", "map()"]),
    "c_names": ("MAP<INT, STRING>", ["map(1, 'a', 2, 'b')", "map(3, 'c')", "map()", "NULL", "map(1, NULL)"]),
    "c_user": ("STRUCT<id: INT, country: STRING, age: INT, region: STRING>", ["named_struct('id', 1, 'country', 'de', 'age', 7, 'region', 'eu')", "named_struct('id', 2, 'country', 'us', 'age', 1, 'region', 'na')", "named_struct('id', NULL, 'country', '', 'age', 0, 'region', NULL)", "NULL"]),
    "c_nested": ("STRUCT<a: STRUCT<x: INT, y: INT>, b: STRUCT<x: INT, y: INT>>", ["named_struct('a', named_struct('x', 1, 'y', 2), 'b', named_struct('x', 3, 'y', 4))", "NULL"]),
    "c_var": ("VARIANT", ["parse_json('{\"a\":1,\"b\":[1,2]}')", "parse_json('[1,\"x\",null]')", "parse_json('\"text\"')", "parse_json('1.5')", "parse_json('null')", "NULL"]),
}  # fmt: skip
OF_TYPE: dict[str, list[str]] = {}
for _name, (_type, _) in COLUMNS.items():
    OF_TYPE.setdefault(_type, []).append(_name)


# The same columns in another version of the source: each type that changes, and the values in the new one.
RETYPED = {
    "INT": ("BIGINT", "CAST({} AS BIGINT)"),
    "TINYINT": ("SMALLINT", "CAST({} AS SMALLINT)"),
    "FLOAT": ("DOUBLE", "CAST({} AS DOUBLE)"),
    "DECIMAL(10,2)": ("DECIMAL(12,3)", "CAST({} AS DECIMAL(12,3))"),
    "STRING": ("STRING COLLATE UTF8_LCASE", "CAST({} AS STRING COLLATE UTF8_LCASE)"),
    "TIMESTAMP": ("TIMESTAMP_NTZ", "CAST({} AS TIMESTAMP_NTZ)"),
    "ARRAY<INT>": ("ARRAY<BIGINT>", "CAST({} AS ARRAY<BIGINT>)"),
    "MAP<STRING, INT>": ("MAP<STRING, BIGINT>", "CAST({} AS MAP<STRING, BIGINT>)"),
    # fields in another order
    COLUMNS["c_user"][0]: (
        "STRUCT<age: INT, region: STRING, id: INT, country: STRING>",
        "IF({0} IS NULL, NULL, named_struct('age', {0}.age, 'region', {0}.region, 'id', {0}.id, 'country', {0}.country))",
    ),
    COLUMNS["c_people"][0]: (
        "ARRAY<STRUCT<name: STRING, id: INT>>",
        "transform({}, p -> named_struct('name', p.name, 'id', p.id))",
    ),
    COLUMNS["c_nested"][0]: (
        "STRUCT<b: STRUCT<x: INT, y: INT>, a: STRUCT<x: INT, y: INT>>",
        "IF({0} IS NULL, NULL, named_struct('b', {0}.b, 'a', {0}.a))",
    ),
}


def schema(retyped: bool = False) -> str:
    kinds = {name: RETYPED.get(kind, (kind,))[0] if retyped else kind for name, (kind, _) in COLUMNS.items()}
    return "id BIGINT, g BIGINT, " + ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def _random(kind: str, values: list[str], of: random.Random) -> str:
    whole = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 62}
    if kind in whole and max(len(v) for v in values) > 4:
        return str(of.randint(-(2 ** whole[kind]), 2 ** whole[kind] - 1))
    if kind in ("FLOAT", "DOUBLE") and len(values) > 8:
        return f"{of.uniform(-1000, 1000):.6f}{kind[0]}"
    if kind == "DATE":
        return f"DATE'{of.randint(1900, 2100)}-{of.randint(1, 12):02d}-{of.randint(1, 28):02d}'"
    if kind in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        day = f"{of.randint(1900, 2100)}-{of.randint(1, 12):02d}-{of.randint(1, 28):02d}"
        return f"{kind}'{day} {of.randint(0, 23):02d}:{of.randint(0, 59):02d}:{of.randint(0, 59):02d}.{of.randint(0, 999999):06d}'"
    if kind == "ARRAY<INT>":
        return f"array({', '.join(str(of.randint(-5, 20)) for _ in range(of.randint(1, 12)))})"
    return of.choice(values)


def rows(seed: int) -> str:
    """The table as SQL. The first half turns the edge cases of all columns round at different speeds, so that each
    meets others; the rest is random."""
    of = random.Random(seed)
    lines = []
    for row in range(ROWS):
        cells = [f"{row}L", f"{row % 5}L"]
        for position, (kind, values) in enumerate(COLUMNS.values()):
            edge = values[(row + (row // len(values)) * (position % 7)) % len(values)]
            cells.append(f"CAST({edge if row < ROWS // 2 else _random(kind, values, of)} AS {kind})")
        lines.append(f"({', '.join(cells)})")
    return f"SELECT * FROM VALUES {', '.join(lines)} AS t({', '.join(['id', 'g', *COLUMNS])})"


def table(spark: SparkSession, seed: int) -> Any:
    """The rows as a plan: one local relation, which any session can read."""
    return spark.sql(rows(seed))._jdf.queryExecution().optimizedPlan()


def retyped_table(spark: SparkSession, rows: Any) -> Any:
    """The rows as the source's other version has them."""
    columns = [
        f"{RETYPED[kind][1].format(name)} AS {name}" if kind in RETYPED else name for name, (kind, _) in COLUMNS.items()
    ]
    jvm: Any = spark._jvm
    frame = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, rows), spark)
    return frame.selectExpr("id", "g", *columns)._jdf.queryExecution().optimizedPlan()


def stream(spark: SparkSession, folder: str, retyped: bool = False) -> DataFrame:
    """The same columns as a stream of files, which is planned and never started."""
    return spark.readStream.schema(schema(retyped)).parquet(folder)
