# ruff: noqa: E501 (texts of files)
"""What the settings are flipped over beside SQL: files read and written in each format, Python functions, frames."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

Frame = Callable[[SparkSession], DataFrame]

FILES = {
    "json/a.json": '{"a": 1, "b": "x", "t": "2020-01-05T10:00:00", "d": "2020-1-5", "n": 1.50, "e": ""}\n{"a": "y", "B": 2}\n{"a": 3, "a": 4}\n{"a": 1\n\n{"a": null, "z": {"q": [1]}}\n{"a": NaN, "t": "05/01/2020"}\n',
    "json/_hidden.json": '{"a": 99}\n',
    "json-good/b.json": '{"a": 1, "t": "2020-01-05 10:00:00", "l": [1, 2.5], "m": {"k": 1}, "u": null, "x": 12345678901234567890, "dt": "2020-01-05"}\n{"a": 2.5, "t": "2020-01-06T10:00:00Z"}\n',
    "json-multi/c.json": '[{"a": 1},\n {"a": 2, "b": "é"}]',
    "csv/a.csv": "a,b,t,d\n1,x,2020-01-05 10:00:00,2020-1-5\n,\"q\"\"r\",2020-01-05T10:00:00.123Z,1582-10-10\nz,,05/01/2020,\n5\n6,7,8,9,10\n\" s \", y ,,\n1e3,NaN,2020-01-05,-1\n",
    "csv-wrong/a.csv": "A,c,b\n1,2,3\n",
    "csv-lines/a.csv": 'a,b\n1,"x\ny"\r\n2,"z"\n',
    "xml/a.xml": '<r><row a="1"><b>x</b><c>2020-01-05</c></row><row><b/><b>2</b><B>3</B></row><row><a>1</row></r>',
    "xml-good/a.xml": "<r><row><a>1</a><b>x</b><t>2020-01-05T10:00:00</t></row><row><a>y</a><b></b></row></r>",
    "text/a.txt": "one\ntwo\r\nthree\n\n",
    "text/b.txt": "",
    "deep/x/a.txt": "deep\n",
    "deep/b.txt": "top\n",
    "parts/p=1/a.txt": "one\n",
    "parts/p=02/a.txt": "two\n",
    "parts/p=__HIVE_DEFAULT_PARTITION__/a.txt": "null\n",
    "dates/d=2020-01-01/a.txt": "x\n",
    "dates/d=2020-1-2/a.txt": "y\n",
    "mixed/p=1/a.txt": "one\n",
    "mixed/p=x/a.txt": "two\n",
    "times/t=2020-01-01 10%3A00%3A00/a.txt": "x\n",
    "parquet-broken/a.parquet": "PAR1 no parquet",
}  # fmt: skip


def write_files(spark: SparkSession, folder: Path) -> None:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    old = "SELECT 1 AS a, 'x' AS b, DATE'1500-01-01' AS d, TIMESTAMP'1500-01-01 10:00:00' AS t, 1.50BD AS n, named_struct('Q', 1) AS s"
    session = spark.newSession()
    for mode in ("LEGACY", "CORRECTED"):
        for key in ("datetimeRebaseModeInWrite", "int96RebaseModeInWrite"):
            session.conf.set(f"spark.sql.parquet.{key}", mode)
        for kind in ("INT96", "TIMESTAMP_MICROS"):
            session.conf.set("spark.sql.parquet.outputTimestampType", kind)
            session.sql(old).write.mode("overwrite").parquet(str(folder / f"parquet-{mode}-{kind}"))
    # as Spark 2 or another writer would have left it: nothing says which calendar it is in
    # fmt: off
    for kind, name, sql in (
        ("orc", "orc", old),
        ("parquet", "merge/p=1", "SELECT 1 AS a, 2 AS c"),
        ("parquet", "merge/p=2", "SELECT 2L AS a, 'q' AS B"),
        ("parquet", "case", "SELECT 1 AS A, 'x' AS `b c`"),
        ("orc", "orc-merge/p=1", "SELECT 1 AS a, 2 AS b"),
        ("orc", "orc-merge/p=2", "SELECT 3 AS b, 4 AS c"),
        ("parquet", "types", "SELECT TIMESTAMP_NTZ'2020-01-01 10:00:00' AS n, X'41' AS x, 1S AS s, INTERVAL '1' DAY AS i, "
         "parse_json('{\"a\": 1}') AS v"),
        ("parquet", "rows", "SELECT id AS i, cast(id AS string) AS s, cast(id AS decimal(9, 2)) AS d, array(id) AS l "
         "FROM range(20)"),
        ("orc", "rows-orc", "SELECT id AS i, cast(id AS string) AS s FROM range(20)"),
        ("parquet", "structs", "SELECT 'a  ' AS c, named_struct('x', 1, 'y', 'z') AS st, cast(NULL AS int) AS nothing"),
    ):
        session.sql(sql).coalesce(1).write.mode("overwrite").format(kind).save(str(folder / name))
    # fmt: on


def frames(folder: Path) -> Iterator[tuple[str, Frame]]:
    yield from _reads(folder)
    yield from _writes(folder)
    yield from _python()
    yield from _api()


def _reads(folder: Path) -> Iterator[tuple[str, Frame]]:
    def read(
        kind: str, name: str, schema: str | None = None, where: str | None = None, **options: Any
    ) -> tuple[str, Frame]:
        def run(session: SparkSession) -> DataFrame:
            reader = session.read.options(**options)
            df = (reader.schema(schema) if schema else reader).format(kind).load(str(folder / name))
            return df.where(where) if where else df

        said = "".join(f".option({k!r}, {v!r})" for k, v in options.items())
        return f"read {kind} {name}{said} as {schema or 'inferred'}{f' where {where}' if where else ''}", run

    # fmt: off
    yield read("json", "json", "a INT, b STRING, t TIMESTAMP, d DATE, n STRING, e STRING, z STRING")
    yield read("json", "json", "a STRING, B INT, z STRUCT<q: ARRAY<INT>>, n DECIMAL(4,1), _corrupt_record STRING")
    yield read("json", "json", "a INT, broken STRING, e INT", columnNameOfCorruptRecord="broken")
    yield read("json", "json", "a INT", mode="DROPMALFORMED")
    yield read("json", "json", "a INT", mode="FAILFAST")
    yield read("json", "json", "t TIMESTAMP_NTZ, d TIMESTAMP, a DOUBLE")
    yield read("json", "json", "a INT, t STRING", "a > 1 AND t IS NULL")
    yield read("json", "json", "A INT, b STRING")
    yield read("json", "json", "t TIMESTAMP", timestampFormat="dd/MM/yyyy")
    yield read("json", "json-good")
    yield read("json", "json-good", prefersDecimal="true", inferTimestamp="true")
    yield read("json", "json-good", "a LONG, t TIMESTAMP, l ARRAY<INT>, m MAP<STRING, INT>, u STRING, x DECIMAL(20,0), dt DATE")
    yield read("json", "json-good", "a INT NOT NULL, u STRING NOT NULL")
    yield read("json", "json-multi", "a INT, b STRING", multiLine="true")
    yield read("json", "json-good", singleVariantColumn="v")
    yield read("csv", "csv", "a INT, b STRING, t TIMESTAMP, d DATE", header="true")
    yield read("csv", "csv", "a STRING, b STRING, t TIMESTAMP_NTZ, d STRING, _corrupt_record STRING", header="true")
    yield read("csv", "csv", "a DOUBLE, b STRING", header="true", mode="DROPMALFORMED")
    yield read("csv", "csv", "a STRING, b STRING, t STRING, d DATE", "a = '1'", header="true")
    yield read("csv", "csv", "b STRING, a STRING", header="true")
    yield read("csv", "csv", header="true", inferSchema="true")
    yield read("csv", "csv", header="true")
    yield read("csv", "csv", "a STRING, b STRING, t TIMESTAMP, d DATE", header="true", timestampFormat="dd/MM/yyyy", dateFormat="yyyy-M-d")
    yield read("csv", "csv-wrong", "a INT, b INT, c INT", header="true")
    yield read("csv", "csv-wrong", "a INT, b INT, c INT", header="true", enforceSchema="false")
    yield read("csv", "csv-lines", "a INT, b STRING", header="true")
    yield read("csv", "csv-lines", "a INT, b STRING", header="true", multiLine="true")
    yield read("xml", "xml", "_a INT, b STRING, c DATE", rowTag="row")
    yield read("xml", "xml", "a INT, b ARRAY<STRING>, _corrupt_record STRING", rowTag="row")
    yield read("xml", "xml-good", rowTag="row")
    yield read("xml", "xml-good", "a INT, b STRING, t TIMESTAMP", rowTag="row")
    yield read("xml", "xml-good", "a STRING, B STRING, t TIMESTAMP_NTZ", rowTag="row")
    yield read("text", "text")
    yield read("text", "text", wholetext="true")
    yield read("text", "text", lineSep="o")
    yield read("text", "deep")
    yield read("text", "deep", recursiveFileLookup="true")
    yield read("text", "parts")
    yield read("text", "parts", None, "p = 2")
    yield read("text", "parts", "value STRING, p STRING")
    yield read("text", "parts", "value STRING, P INT")
    yield read("text", "dates")
    yield read("text", "mixed")
    yield read("text", "times")
    yield read("text", "mixed", "value STRING, p INT")
    yield read("binaryFile", "text")
    for mode in ("LEGACY", "CORRECTED"):
        for kind in ("INT96", "TIMESTAMP_MICROS"):
            yield read("parquet", f"parquet-{mode}-{kind}")
            yield read("parquet", f"parquet-{mode}-{kind}", None, "d = DATE'1500-01-01'")
    yield read("parquet", "parquet-CORRECTED-INT96", "A INT, b BINARY, t TIMESTAMP_NTZ")
    yield read("parquet", "parquet-CORRECTED-TIMESTAMP_MICROS", "t TIMESTAMP_NTZ, s STRUCT<q: INT>, n DECIMAL(5,1)")
    yield read("parquet", "parquet-CORRECTED-TIMESTAMP_MICROS", "a BIGINT, d TIMESTAMP, n DECIMAL(10,4)")
    yield read("parquet", "parquet-CORRECTED-TIMESTAMP_MICROS", "t BIGINT, a STRING")
    yield read("parquet", "merge")
    yield read("parquet", "merge", mergeSchema="true")
    yield read("parquet", "merge/p=2", "b STRING")
    yield read("parquet", "case", "a INT")
    yield read("parquet", "case", None, "a = 1")
    yield read("parquet", "types")
    yield read("parquet", "types", "n TIMESTAMP, x STRING, s INT, i BIGINT")
    yield read("parquet", "rows", None, "i > 3 AND s LIKE '1%' AND d IN (10, 11, 12) AND i NOT IN (11)")
    yield read("parquet", "rows", "i INT, s STRING", "i = 5")
    yield read("parquet", "rows", None, "s > 7")
    yield read("parquet", "structs", "c CHAR(5), st STRUCT<X: INT, w: STRING>, nothing INT, gone STRING")
    yield read("parquet", "parquet-broken")
    yield read("parquet", "parquet-broken", "a INT")
    yield read("parquet", "no-such-folder", "a INT")
    yield read("orc", "orc")
    yield read("orc", "orc", "A INT, t TIMESTAMP_NTZ, d DATE", "A = 1")
    yield read("orc", "orc", "a BIGINT, b STRING, n DECIMAL(10,4)")
    yield read("orc", "orc-merge")
    yield read("orc", "orc-merge", mergeSchema="true")
    yield read("orc", "rows-orc", None, "i > 3 AND s LIKE '1%'")
    yield read("orc", "rows-orc", "s STRING, i BIGINT")
    yield "SQL on a file", lambda s: s.sql(f"SELECT * FROM json.`{folder}/json-good`")
    yield "SQL on a file without its format", lambda s: s.sql(f"SELECT * FROM `{folder}/rows`")
    yield "load without a format", lambda s: s.read.load(str(folder / "rows"))
    yield "a path twice", lambda s: s.read.option("path", str(folder / "text")).text(str(folder / "text"))
    yield "metadata of files", lambda s: s.read.text(str(folder / "text")).selectExpr("_metadata.file_name", "value")
    yield "a table of files", lambda s: _table(s, folder, "a INT, b STRING", "csv", "csv-wrong")
    yield "a table of Parquet", lambda s: _table(s, folder, "i BIGINT, S STRING, d DECIMAL(9, 2)", "parquet", "rows")
    # fmt: on


def _table(session: SparkSession, folder: Path, columns: str, kind: str, name: str) -> DataFrame:
    table = f"t{uuid.uuid4().hex}"
    session.sql(f"CREATE TABLE {table} ({columns}) USING {kind} LOCATION '{folder / name}'")
    try:
        return session.table(table).limit(5)
    finally:
        session.sql(f"DROP TABLE {table}")


SHOWN = (
    "(TIMESTAMP'2020-01-05 10:00:00')", "(DATE'1500-01-05')", "(X'41')", "(1.50BD)", "(array(1, NULL))", "(map('a', 1))",
    "(named_struct('a', 1, 'b', X'42'))", "(INTERVAL '1' DAY)", "('a' COLLATE UTF8_LCASE)",
)  # fmt: skip
_ROW = (
    "SELECT * FROM VALUES (1, 'x', 1.50BD, 1.0D, DATE'1500-01-01', TIMESTAMP'2020-01-05 10:00:00', TIMESTAMP_NTZ'2020-01-05 10:00:00', true, ''), "
    "(NULL, NULL, NULL, double('NaN'), DATE'2020-01-01', TIMESTAMP'1500-01-01 10:00:00', NULL, NULL, ' y\"') AS t(i, s, d, f, dt, ts, n, b, e)"
)


def _writes(folder: Path) -> Iterator[tuple[str, Frame]]:
    """What a sink of files gets: written under the setting, the text (or what a plain session reads) compared."""

    def write(kind: str, sql: str, parts: tuple[str, ...] = (), **options: Any) -> tuple[str, Frame]:
        def run(session: SparkSession) -> DataFrame:
            path = folder / f"out-{uuid.uuid4().hex}"
            try:
                session.sql(sql).coalesce(1).write.partitionBy(*parts).options(**options).format(kind).save(str(path))
                rows = session._plain.read.format("text" if kind in ("csv", "json", "xml", "text") else kind).load(
                    str(path)
                )
                names = sorted(p.parent.name for p in path.rglob("part-*") if p.parent != path)
                found = sorted(repr(r.asDict()) for r in rows.collect()) + names + [rows.schema.json()]
            finally:
                shutil.rmtree(path, ignore_errors=True)
            return session._plain.createDataFrame([(t,) for t in found], "t string")

        return f"write {kind} {parts or ''}{options or ''} of {sql[:60]}", run

    for kind in ("csv", "json", "xml", "parquet", "orc"):
        yield write(kind, _ROW)
        yield write(kind, "SELECT 1 AS a, cast(NULL AS string) AS b, array(1) AS l, named_struct('x', NULL) AS st")
    yield write("csv", "SELECT 1 AS a, '' AS b, ' z ' AS c, NULL AS d", header="true")
    yield write("json", "SELECT 1 AS a, NULL AS b, 'é/' AS c, 1e20D AS d, 1.10BD AS f, INTERVAL '1' DAY AS i")
    yield write("parquet", "SELECT 1 AS `a b`, 2 AS A")
    yield write("parquet", "SELECT 1 AS a, 2 AS A")
    yield write("parquet", "SELECT NULL AS a")
    yield write("parquet", "SELECT INTERVAL '1' DAY AS i, TIME'10:00:00' AS t, parse_json('1') AS v")
    yield write("text", "SELECT 'x' AS value, DATE'2020-01-01' AS p, cast(NULL AS string) AS q", ("p", "q"))
    yield write("text", "SELECT 'x' AS value, TIMESTAMP'2020-01-01 10:00:00' AS p, 1.50BD AS q", ("p", "q"))
    yield write("text", "SELECT 'x' AS value, '' AS p", ("p",))
    yield write("json", "SELECT 1 AS a WHERE false")
    yield "insert into a table", lambda s: _insert(s, "(1.9, 'x')", "a INT, b STRING")
    yield "insert what does not fit", lambda s: _insert(s, "('abc', 'x')", "a INT, b STRING")
    yield "insert what is too large", lambda s: _insert(s, "(3000000000, 'x')", "a INT, b STRING")
    yield "insert too long a text", lambda s: _insert(s, "(1, 'abcdef')", "a INT, b VARCHAR(3)")
    yield "insert into char", lambda s: _insert(s, "(1, 'a')", "a INT, b CHAR(3)")
    yield "insert fewer columns", lambda s: _insert(s, "(1)", "a INT, b STRING DEFAULT 'd'")


def _insert(session: SparkSession, row: str, columns: str) -> DataFrame:
    table = f"t{uuid.uuid4().hex}"
    session.sql(f"CREATE TABLE {table} ({columns}) USING parquet")
    try:
        session.sql(f"INSERT INTO {table} VALUES {row}")
        found = [repr(r) for r in session.table(table).collect()]
    finally:
        session.sql(f"DROP TABLE {table}")
    return session._plain.createDataFrame([(t,) for t in found], "t string")


def _python() -> Iterator[tuple[str, Frame]]:
    def plain(returned: str, body: Callable[..., Any], sql: str, **more: Any) -> Frame:
        return lambda session: session.sql(sql).select(F.udf(body, returned, **more)("x").alias("y"))

    values = "SELECT * FROM VALUES {} AS v(x)"
    cases: list[tuple[str, Callable[..., Any], str]] = [
        ("int", lambda x: str(x), "(1), (NULL)"),
        ("string", lambda x: x, "(1), (2)"),
        ("string", lambda x: {"a": x}, "(1)"),
        ("string", lambda x: [x, None], "(1)"),
        ("string", lambda x: True, "(1)"),
        *(("string", lambda x: type(x).__name__ + repr(x), rows) for rows in SHOWN),
        ("double", lambda x: x, "(1), (2)"),
        ("int", lambda x: x / 2, "(1), (2)"),
        ("int", lambda x: x + 0.5, "(1), (2)"),
        ("float", lambda x: 1e300, "(1)"),
        ("tinyint", lambda x: 300, "(1)"),
        ("boolean", lambda x: x, "(1)"),
        ("date", lambda x: x, "(TIMESTAMP'2020-01-05 10:00:00')"),
        ("timestamp", lambda x: x, "(TIMESTAMP'2020-03-08 03:30:00')"),
        ("decimal(5,2)", lambda x: x, "(1)"),
        ("binary", lambda x: x, "('a')"),
        ("array<int>", lambda x: (x, 1), "(1)"),
        ("array<string>", lambda x: [x], "(1)"),
        ("map<string,int>", lambda x: {"a": x}, "(1)"),
        ("a int, b string", lambda x: (x, x), "(1)"),
        ("a int, b string", lambda x: {"b": "q", "a": x}, "(1)"),
        ("a int, b string", lambda x: Row(b="q", a=x), "(1)"),
        ("int", lambda x: 1 // 0 if x else 1, "(1)"),
    ]
    for number, (returned, body, rows) in enumerate(cases):
        yield f"Python function {number} to {returned} of {rows}", plain(returned, body, values.format(rows))
        if number % 3 == 0:
            arrow = plain(returned, body, values.format(rows), useArrow=True)
            yield f"Arrow Python function {number} to {returned} of {rows}", arrow

    def annotated(body: Callable[..., Any], given: type = pd.Series) -> Callable[..., Any]:
        body.__annotations__ = {"x": given, "return": pd.Series}
        return body

    def pandas(returned: str, body: Callable[..., Any], rows: str) -> Frame:
        sql = values.format(rows)
        return lambda session: session.sql(sql).select(F.pandas_udf(annotated(body), returned)("x").alias("y"))

    def size() -> Any:
        return F.pandas_udf(annotated(lambda x: pd.Series([len(x)] * len(x))), "int")

    def shown() -> Any:
        return F.pandas_udf(annotated(lambda x: x.apply(lambda row: repr(dict(row)), axis=1), pd.DataFrame), "string")

    # fmt: off
    yield "pandas dtype of ints", pandas("string", lambda x: x.map(lambda v: f"{x.dtype}:{v}"), "(1), (NULL)")
    yield "pandas dtype of times", pandas("string", lambda x: x.map(lambda v: f"{x.dtype}:{v!r}"), "(TIMESTAMP'2020-01-05 10:00:00')")
    yield "pandas of a struct", lambda s: s.sql("SELECT named_struct('a', 1, 'b', 'q') AS x").select(shown()("x").alias("y"))
    yield "pandas ints to text", pandas("string", lambda x: x, "(1), (2)")
    yield "pandas floats to ints", pandas("int", lambda x: x + 0.5, "(1), (2)")
    yield "pandas sizes of batches", lambda s: s.range(20, numPartitions=1).select(size()("id").alias("y"))
    yield "mapInPandas", lambda s: s.range(20, numPartitions=1).mapInPandas(lambda frames: (pd.DataFrame({"y": [len(f)]}) for f in frames), "y int")
    yield "mapInPandas of names in another order", lambda s: s.range(2).mapInPandas(lambda frames: (pd.DataFrame({"b": ["x"] * len(f), "a": [1] * len(f)}) for f in frames), "a int, b string")
    yield "mapInArrow", lambda s: s.range(20, numPartitions=1).mapInArrow(lambda batches: (pa.RecordBatch.from_pydict({"y": pa.array([b.num_rows], pa.int32())}) for b in batches), "y int")
    yield "applyInPandas", lambda s: s.range(4).groupBy("id").applyInPandas(lambda f: pd.DataFrame({"b": f["id"] * 10, "a": f["id"]}), "a bigint, b bigint")
    yield "applyInPandas of positions", lambda s: s.range(4).groupBy("id").applyInPandas(lambda f: pd.DataFrame([[1, 2]]), "a bigint, b bigint")
    yield "toPandas and back", lambda s: s.createDataFrame(pd.DataFrame({"a": [1, None], "t": pd.to_datetime(["2020-01-05", None])}))
    yield "rows of Python", lambda s: s.createDataFrame([{"a": 1, "b": None}, {"b": "x", "a": None}])
    yield "dicts of Python", lambda s: s.createDataFrame([({"a": 1, "b": "x"}, [1, None]), ({}, [])])
    yield "nested dicts", lambda s: s.createDataFrame([{"a": {"x": 1}, "b": [{"y": 1}, {"z": "q"}]}])
    yield "mixed numbers", lambda s: s.createDataFrame([(1, ), (2.5, )], ["a"])
    yield "a table function", lambda s: s.sql("SELECT 1 AS x").select(F.udf(lambda x: x, LongType())("x"))
    yield "names of Row", lambda s: s.createDataFrame([Row(b=1, a="x")], StructType().add("b", IntegerType()).add("a", StringType()))
    # fmt: on


def _api() -> Iterator[tuple[str, Frame]]:
    def people(s: SparkSession) -> DataFrame:
        return s.createDataFrame([(1, "a"), (2, None), (1, "a")], "i int, s string")

    # fmt: off
    yield "groupBy keeps its keys", lambda s: people(s).groupBy("s").agg(F.sum("i").alias("n"))
    yield "a self join by name", lambda s: (lambda d: d.join(d, d.i == d.i))(people(s))
    yield "a self join of what was filtered", lambda s: (lambda d: d.join(d.where("i = 1"), d.i == d.i))(people(s))
    yield "a column of another frame", lambda s: (lambda d: d.select("i").select(d.s))(people(s))
    yield "unionByName", lambda s: people(s).unionByName(s.createDataFrame([("z", 5)], "S string, I int"))
    yield "unionByName with gaps", lambda s: people(s).unionByName(s.createDataFrame([(5,)], "i int"), allowMissingColumns=True)
    yield "dropDuplicates", lambda s: people(s).dropDuplicates(["i"]).select("i")
    yield "fillna and replace", lambda s: people(s).fillna("?").replace("a", "b")
    yield "withColumn of another case", lambda s: people(s).withColumn("I", F.lit(5))
    yield "drop of another case", lambda s: people(s).drop("S")
    yield "a pivot", lambda s: people(s).groupBy("i").pivot("s").count()
    yield "na.drop and a sort", lambda s: people(s).na.drop().sort(F.desc("i"))
    yield "rollup", lambda s: people(s).rollup("i", "s").count()
    yield "cube with grouping", lambda s: people(s).cube("i").agg(F.grouping("i"), F.count("*"))
    yield "describe", lambda s: people(s).describe()
    yield "a sample", lambda s: s.range(50).sample(0.3, seed=7)
    yield "a random split", lambda s: s.range(50).randomSplit([0.5, 0.5], seed=7)[0]
    yield "rand of a seed", lambda s: s.range(5).select(F.rand(7), F.randn(7))
    yield "repartition and first", lambda s: s.range(50).repartition(5).groupBy().agg(F.first("id"))
    yield "collect_list in the order of rows", lambda s: s.range(50).repartition(5, "id").groupBy().agg(F.collect_list("id"))
    yield "sum of doubles", lambda s: s.range(99).selectExpr("id * 0.1D AS x").repartition(7).groupBy().agg(F.sum("x"))
    yield "rows of a range", lambda s: s.range(20).where("id % 3 = 0").limit(4)
    yield "a view", _view
    yield "a view of a table that changes", _stored_view
    yield "a cached frame", lambda s: people(s).cache().groupBy("i").count()
    yield "a checkpoint of rows", lambda s: people(s).localCheckpoint().groupBy("i").count()
    yield "a SQL function", _sql_function
    yield "a session variable", _variable
    yield "observed rows", lambda s: people(s).observe("o", F.count("*").alias("n")).select("i")
    yield "sortWithinPartitions", lambda s: people(s).coalesce(1).sortWithinPartitions("s", "i")
    yield "approxQuantile by SQL", lambda s: s.range(100).selectExpr("percentile_approx(id, 0.3, 10)")
    yield "a window of many rows", lambda s: s.range(60).selectExpr("sum(id) OVER (ORDER BY id % 7, id) AS x", "id")
    yield "a join of two large sides", lambda s: s.range(60).join(s.range(0, 60, 3).hint("merge"), "id").groupBy().count()
    yield "a long expression", lambda s: s.range(3).selectExpr("+".join(f"(id + {i})" for i in range(150)))
    yield "many columns", lambda s: s.range(2).selectExpr(*(f"id + {i} AS c{i}" for i in range(150)))
    yield "a deep case", lambda s: s.range(20).selectExpr("CASE " + " ".join(f"WHEN id = {i} THEN {i * i}" for i in range(15)) + " END AS x")
    yield "a wide struct", lambda s: s.range(2).selectExpr("to_json(struct(" + ", ".join(f"id AS f{i}" for i in range(60)) + "))")
    # fmt: on


def _view(session: SparkSession) -> DataFrame:
    session.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT 1 / 2 AS x, cast('2020-01-05' AS timestamp) AS t")
    session.sql("CREATE OR REPLACE TEMP VIEW w AS SELECT x + 1 AS y FROM v")
    return session.sql("WITH v AS (SELECT 5 AS x) SELECT v.x, y FROM v, w")


def _stored_view(session: SparkSession) -> DataFrame:
    name = f"v{uuid.uuid4().hex}"
    session.sql(f"CREATE VIEW {name} (a, b) AS SELECT cast('1' AS int), 'x'")
    try:
        return session.createDataFrame([(repr(r),) for r in session.table(name).collect()], "t string")
    finally:
        session.sql(f"DROP VIEW {name}")


def _sql_function(session: SparkSession) -> DataFrame:
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2 + cast('1' AS int)")
    return session.sql("SELECT twice(21), twice(2147483647 / 4)")


def _variable(session: SparkSession) -> DataFrame:
    session.sql("DECLARE OR REPLACE VARIABLE q INT DEFAULT 5")
    return session.sql("SELECT q, 1 AS q, q + 1")
