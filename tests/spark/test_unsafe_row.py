"""The codec against rows that Spark itself wrote (UnsafeProjection's, and those in a state store), Arrow arrays as
such rows, and state schema files of version 3, byte by byte as SchemaHelper.SchemaV3Writer writes them."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from bench import Bench, by, row
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.checkpoint.unsafe_row import CalendarInterval, decode, encode
from airflow_provider_streamupdate.core.plan.plan import StateSchema
from airflow_provider_streamupdate.streaming.planning.schema_file import evolved, read_schemas, write_schema
from airflow_provider_streamupdate.streaming.restore.arrow_rows import row_bytes as bytes_of_arrow
from airflow_provider_streamupdate.streaming.spark_internals.jvm import java_class, module

DAY = 86_400_000_000
# SQL, and the value as the codec has it; each is tried alone, in a struct, in an array beside a null, and in a map
VALUES: list[tuple[str, Any]] = [
    ("true", True),
    ("cast(-3 as tinyint)", -3),
    ("cast(-300 as smallint)", -300),
    ("-70000", -70000),
    ("-5000000000", -5_000_000_000),
    ("cast(1.5 as float)", 1.5),
    ("cast(-0.1 as double)", -0.1),
    ("cast('NaN' as double)", float("nan")),
    ("'naïve ☃'", "naïve ☃"),
    ("''", ""),
    ("'Ab' collate UNICODE_CI", "Ab"),
    ("x'00ff10'", b"\x00\xff\x10"),
    ("date'1969-12-31'", -1),
    ("timestamp'1970-01-02 00:00:00.000001'", DAY + 1),
    ("timestamp_ntz'1970-01-02 00:00:00.000001'", DAY + 1),
    ("time'01:02:03.000004'", (3723 * 1_000_000 + 4) * 1000),
    ("cast('-123.45' as decimal(7,2))", Decimal("-123.45")),
    ("cast('12345678901234567890.5' as decimal(38,10))", Decimal("12345678901234567890.5000000000")),
    ("cast('-1' as decimal(19,0))", Decimal(-1)),
    ("cast('128' as decimal(19,0))", Decimal(128)),
    ("make_interval(1, 2, 0, 3, 4, 5, 6.5)", CalendarInterval(14, 3, (4 * 3600 + 5 * 60) * 1_000_000 + 6_500_000)),
    ("interval '1 02:00:00' day to second", DAY + 2 * 3_600_000_000),
    ("interval '2-3' year to month", 27),
    ("named_struct('a', 1, 'b', cast(null as string), 'c', 'x')", (1, None, "x")),
    ("array(cast(1 as smallint), null, 3)", [1, None, 3]),
    ("array('a', null, 'long enough for two words')", ["a", None, "long enough for two words"]),
    ("array(cast(1 as decimal(20,0)), null)", [Decimal(1), None]),
    ("cast(array() as array<int>)", []),
    ("map('k', 1, 'l', null)", [("k", 1), ("l", None)]),
    ("map(1, array(named_struct('d', date'1970-01-02')))", [(1, [(1,)])]),
]


def row_bytes(column: Column) -> Column:
    """The bytes of a struct's UnsafeRow."""
    spark = SparkSession.active()
    expressions = module(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    nothing = module(spark, "scala.collection.immutable.Nil")
    unsafe_row = java_class(spark._jvm, "org.apache.spark.sql.catalyst.expressions.UnsafeRow")
    an_object = module(spark, "org.apache.spark.sql.types.ObjectType").apply(unsafe_row)
    binary = module(spark, "org.apache.spark.sql.types.BinaryType")
    invoke = spark._jvm.org.apache.spark.sql.catalyst.expressions.objects.Invoke
    copied = invoke(expressions.expression(column._jc), "copy", an_object, nothing, nothing, True, True, True)
    return Column(expressions.column(invoke(copied, "getBytes", binary, nothing, nothing, True, True, True)))


def written(df: DataFrame) -> tuple[Any, list[bytes]]:
    """The schema of a DataFrame and its rows as UnsafeProjection wrote them."""
    spark = df.sparkSession
    one = df.select(F.struct("*").alias("row"))
    # a border the optimizer does not cross: the struct that is read above it is an UnsafeRow
    rows = spark._jsparkSession.internalCreateDataFrame(one._jdf.queryExecution().toRdd(), one._jdf.schema(), False)
    bytes_of = DataFrame(rows, spark)
    made = bytes_of.select(row_bytes(bytes_of["row"]).alias("b")).collect()
    return json.loads(df.schema.json()), [bytes(r["b"]) for r in made]


def same(a: Any, b: Any) -> bool:
    """Equality under which not-a-number equals itself."""
    return repr(a) == repr(b)


def test_every_type_as_spark_writes_it(spark) -> None:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    columns, values = [], []
    for sql, value in VALUES:
        inside = f"named_struct('before', 1, 'it', {sql}, 'none', if(rand() < 2, null, {sql}))"
        columns += [
            sql,
            f"if(rand() < 2, null, {sql})",
            inside,
            f"array({sql}, null, {sql})",
            f"map(1, {sql}, 2, null)",
        ]
        values += [value, None, (1, value, None), [value, None, value], [(1, value), (2, None)]]
    schema, [data] = written(spark.sql("select " + ", ".join(f"{c} as c{i}" for i, c in enumerate(columns))))
    decoded = decode(schema, data)
    wrong = [(columns[i], a, b) for i, (a, b) in enumerate(zip(decoded, values, strict=True)) if not same(a, b)]
    assert wrong == []
    assert encode(schema, values) == data


def test_a_variant_and_a_void(spark) -> None:
    schema, [data] = written(spark.sql("""select parse_json('{"a": [1, "x"]}') v, null n, 1 i"""))
    variant, nothing, number = decode(schema, data)
    assert (nothing, number) == (None, 1)
    assert b"a" in variant.metadata and b"x" in variant.value
    assert encode(schema, (variant, None, 1)) == data


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128])
def test_rows_of_any_width(spark, count: int) -> None:
    df = spark.range(1).select(*(F.when(F.lit(i % 3 > 0), F.col("id") + i).alias(f"c{i}") for i in range(count)))
    schema, [data] = written(df)
    values = tuple(i if i % 3 else None for i in range(count))
    assert decode(schema, data) == values
    assert encode(schema, values) == data


def test_the_rows_of_a_state_store(spark, bench: Bench) -> None:
    if spark.version < "4.2":
        pytest.skip("Spark before 4.2 gives no row of a state store as bytes (INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES)")
    bench.write([row("a", 1), row("bb", 2), row("a", 3)])
    bench.run(by("k", "count(*)", "sum(cast(a as decimal(10,2)))", "max(ts)"))
    [schema] = bench.registry.plan("d1").query("q").stage("totals").schemas
    option = module(spark, "org.apache.spark.sql.execution.datasources.v2.state.StateSourceOptions")
    state = spark.read.format("statestore").option(option.INTERNAL_ONLY_READ_ALL_COLUMN_FAMILIES(), "true")
    rows = state.load(bench.registry.checkpoint("d1", "q").uri).select("key_bytes", "value_bytes").collect()
    found = {decode(schema.key, bytes(r[0])): decode(schema.value, bytes(r[1])) for r in rows}
    minute = 1_767_225_600_000_000  # 2026-01-01
    assert found == {("a",): (2, Decimal("4.00"), False, minute), ("bb",): (1, Decimal("2.00"), False, minute)}
    for key, value in rows:
        assert encode(schema.key, decode(schema.key, bytes(key))) == bytes(key)
        assert encode(schema.value, decode(schema.value, bytes(value))) == bytes(value)


def struct(*types: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": f"f{i}", "type": t, "nullable": True} for i, t in enumerate(types)]}


def test_every_type_with_nulls_in_a_slice_of_a_batch() -> None:
    inner = struct("integer", "string")
    schema = struct(
        *("long", "double", "boolean", "binary", "date", "timestamp", "decimal(20,2)"),
        inner,
        *({"type": "array", "elementType": inner}, {"type": "map", "keyType": "string", "valueType": struct("long")}),
    )
    kind, names = pa.struct([("a", pa.int32()), ("b", pa.string())]), [f"f{i}" for i in range(10)]
    types = [
        *(pa.int64(), pa.float64(), pa.bool_(), pa.binary(), pa.date32(), pa.timestamp("us", "UTC")),
        *(pa.decimal128(20, 2), kind, pa.list_(kind), pa.map_(pa.string(), pa.struct([("n", pa.int64())]))),
    ]
    full = [
        *(7, 0.5, True, b"x", date(1970, 1, 3), datetime(1970, 1, 1, 0, 0, 1), Decimal("12.34")),
        *({"a": 1, "b": "z"}, [{"a": 2, "b": None}, None, {"a": 3, "b": "y"}], [("k", {"n": 5}), ("l", None)]),
    ]
    rows = [dict(zip(names, values, strict=True)) for values in (full, full, [None] * 10)]
    array = pa.array([*rows, None], pa.struct(list(zip(names, types, strict=True)))).slice(1)
    made = bytes_of_arrow(schema, array)
    assert made[2] is None
    first = (7, 0.5, True, b"x", 2, 1_000_000, Decimal("12.34"), (1, "z"), [(2, None), None, (3, "y")])
    assert [decode(schema, data) for data in made[:2]] == [(*first, [("k", (5,)), ("l", None)]), (None,) * 10]


ROW = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}


def utf(text: str) -> bytes:
    return pack(">H", len(text)) + text.encode()


def chunks(text: str) -> bytes:
    return pack(">i", 1) + utf(text)


def schema_file(*families: tuple[str, int]) -> bytes:
    """Column families with the ids of their value schemas."""
    made = utf("v3") + pack(">i", len(families))
    for name, number in families:
        made += utf(name) + pack(">h", 0) + chunks(json.dumps(ROW))
        made += pack(">h", number) + chunks(json.dumps(ROW)) + chunks("{}") + chunks("{    }")
    return made


@pytest.mark.parametrize(("families", "changed"), [((("a", 0), ("b", 0)), False), ((("a", 0), ("b", 1)), True)])
def test_a_value_schema_that_changed_has_a_higher_id(families: tuple, changed: bool) -> None:
    data = schema_file(*families)
    assert [s.name for s in read_schemas(data, "here")] == ["a", "b"]
    assert evolved(data, "here") is changed


@pytest.mark.parametrize("name", ["n", "größe", "\U0001f600\0", "x" * 30_000])
def test_a_written_schema_is_read_back(name: str) -> None:
    """Names of characters that writeUTF writes in its own way, and a text longer than it takes at once."""
    row = {"type": "struct", "fields": [{**ROW["fields"][0], "name": name}]}
    [read] = read_schemas(write_schema(StateSchema(name="left", key=ROW, value=row)), "here")
    assert (read.key, read.value) == (ROW, row)
