"""What of an expression does not count (planning/expressions/noise.py): each entry, and that there are no others.

Spark's own plans give the fields: of every expression below, two columns that differ in nothing but what does not count
have one text, and the values that are left out are seen to differ.
"""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from airflow_provider_streamupdate.streaming import spark_internals
from airflow_provider_streamupdate.streaming.catalyst.tree import parse
from airflow_provider_streamupdate.streaming.planning.expressions import noise
from airflow_provider_streamupdate.streaming.planning.expressions.expression import expression
from airflow_provider_streamupdate.streaming.planning.lineage.lineage import Lineage
from airflow_provider_streamupdate.streaming.spark_internals.plans import plans
from tests.sweep.judge import meanings


def planned(frame):
    """The plan as the author wrote it, and its lineage."""
    plan = parse(spark_internals.analyzed_plan(frame))
    return plan, Lineage(plan, ["in"], [])


def column(frame) -> str:
    plan, lineage = planned(frame)
    return lineage.columns(plan)[-1][1].text


@pytest.fixture
def rows(spark, tmp_path):
    return lambda: spark.readStream.schema("a int, b int, s string").json(str(tmp_path))


def fields(frame, name: str) -> list:
    """A field's values in the expressions of a plan."""
    plan = parse(spark_internals.analyzed_plan(frame))
    return [e.fields[name] for node in plan.walk() for e in node.all_expressions() if name in e.fields]


def test_expression_ids_and_qualifiers(rows):
    one, other = rows().alias("x").select(F.col("x.a") + 1), rows().alias("y").select(F.col("y.a") + 1)
    for field in ("exprId", "qualifier"):
        assert fields(one, field) != fields(other, field)
    assert column(one) == column(other)


def test_ids_of_results(rows):
    def twice():
        return rows().select(F.udf(lambda x: x * 2, "int")("a"))

    one, other = twice(), twice()
    assert fields(one, "resultId") != fields(other, "resultId")
    assert column(one) == column(other)


def test_notes_on_columns(rows):
    plain, noted = rows().select(F.col("a").alias("x")), rows().select(F.col("a").alias("x", metadata={"note": "n"}))
    assert fields(noted, "explicitMetadata") and not fields(plain, "explicitMetadata")
    assert column(plain) == column(noted)
    assert {"metadata", "nonInheritableMetadataKeys"} <= set(noise.FIELDS)


def test_whether_a_column_may_be_null(spark, rows):
    plan, lineage = planned(rows().select("a"))
    [reference] = plan.expressions("projectList")
    env = lineage.inputs(plan)
    before = expression(reference, env)
    reference.fields["nullable"] = not reference.fields["nullable"]
    assert expression(reference, env) == before


def test_places_in_buffers(rows):
    frame = rows().groupBy("s").agg(F.percentile_approx("a", 0.5), F.sum("b"))
    for field in ("inputAggBufferOffset", "mutableAggBufferOffset"):
        assert set(fields(frame, field)) == {0}, "it is no longer the same in every logical plan"
    modes = {str(value) for value in fields(frame, "mode")}
    assert len(modes) == 1 and "Complete" in modes.pop()


def test_the_pairs_of_a_case(rows):
    one = column(rows().select(F.expr("case when a = 1 then b when a = 2 then a end")))
    other = column(rows().select(F.expr("case when a = 1 then b when a = 2 then a else b end")))
    assert one != other and "branches" not in one + other and "elseValue" not in one + other


def test_a_mode_that_counts(rows):
    """`mode` is left out in one class; the same name elsewhere counts."""
    assert noise.counts("AesEncrypt", "mode", "GCM") and not noise.counts("AggregateExpression", "mode", "Complete")


SEEDED = {
    "rand": "rand({})", "random": "random({})", "randn": "randn({})", "uuid": "uuid({})",
    "shuffle": "shuffle(array(a, b), {})", "randstr": "randstr(3, {})", "uniform": "uniform(1, 9, {})",
}  # fmt: skip


def test_seeds(spark, rows):
    """Of every function of Spark's registry that has a seed."""
    session = spark._jsparkSession.sessionState()
    registry, jvm = session.functionRegistry(), spark._jvm
    seeded = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.expressions.ExpressionWithRandomSeed")
    found, names = set(), registry.listFunction()
    for index in range(names.size()):
        name = names.apply(index)
        made = str(registry.lookupFunction(name).get().getClassName())
        if seeded.isAssignableFrom(jvm.java.lang.Class.forName(made)):
            found.add(str(name.funcName()))
    assert found - {"random"} == SEEDED.keys() - {"random"}
    for name, call in SEEDED.items():
        unseeded = call.replace(", {}", "").replace("{}", "")
        texts = {column(rows().selectExpr(written)) for written in (call.format(3), call.format(4), unseeded)}
        assert len(texts) == 1, name


def test_a_batch_has_a_seed_of_its_own(spark, tmp_path):
    made = []
    for number in range(2):
        (tmp_path / f"{number}.json").write_text('{"a": 1}\n')
    stream = (
        spark.readStream.schema("a int").option("maxFilesPerTrigger", 1).json(str(tmp_path)).selectExpr("rand(3) r")
    )
    query = stream.writeStream.foreachBatch(lambda df, _: made.extend(r.r for r in df.collect()))
    query.trigger(availableNow=True).start().awaitTermination(60)
    assert len(made) == 2 and made[0] != made[1]


def test_what_is_usual_is_left_out_and_else_written(spark, rows):
    assert "ANSI" not in column(rows().select(F.expr("a + b"))) + column(rows().select(F.expr("cast(s as int)")))
    assert "TRY" in column(rows().select(F.expr("try_add(a, b)")))
    assert "TRY" in column(rows().select(F.expr("try_cast(s as int)")))
    spark.conf.set("spark.sql.ansi.enabled", "false")
    assert "LEGACY" in column(rows().select(F.expr("a + b")))


def test_every_entry_has_a_reason_and_a_test():
    tested = {"exprId", "qualifier", "resultId", "explicitMetadata", "metadata", "nonInheritableMetadataKeys"}
    tested |= {"branches", "elseValue", "nullable", "inputAggBufferOffset", "mutableAggBufferOffset", "mode"}
    tested |= {"randomSeed", "hideSeed", "imports"}
    assert set(noise.FIELDS) - {"resultIds"} == tested
    assert all(noise.FIELDS.values())


def test_what_coalesce_has_twice_counts_once(rows):
    """In whatever company: beside an expression that has to be taken apart, Spark does not see that a count is never
    null. What is drawn anew each time may be null the first time, and not the second."""

    def texts(*columns: str) -> str:
        return meanings(rows().groupBy("s").agg(*map(F.expr, columns)))[-1]

    count, apart = "coalesce(count(1), count(1))", "collect_list(nullif(a, a))"
    assert texts(count) == texts(apart, count) == texts("count(1)")
    assert texts("coalesce(sum(a), 0, sum(a))") == texts("coalesce(sum(a), 0)") != texts("sum(a)")
    draw = F.udf(lambda x: x, "int").asNondeterministic()
    assert column(rows().select(F.coalesce(draw("a"), draw("a")))).startswith("coalesce(")


def noted(spark, folder, note: dict, inside: bool = False):
    """A column of a source whose schema notes something of it, or of a field in a list in it."""
    field = StructField("a", IntegerType(), True, note)
    whole = StructField("r", ArrayType(StructType([field]))) if inside else field
    rows = spark.readStream.schema(StructType([whole])).json(str(folder))
    return column(rows.select(F.expr("r[0].a") if inside else F.col("a")))


@pytest.mark.parametrize("inside", [False, True])
def test_notes_of_a_source_s_schema(spark, tmp_path, inside):
    """What is known to be without a part in what is read, and no other, is left out."""
    plain = noted(spark, tmp_path, {}, inside)
    for key in (*plans.UNREAD, "parquet.field.id"):
        assert noted(spark, tmp_path, {key: "x"}, inside) == plain, key
    seen = {plain}
    for key in ("CURRENT_DEFAULT", "__CHAR_VARCHAR_TYPE_STRING", "spark.watermarkDelayMs", "of.a.source.nobody.knows"):
        for value in ("1", "2"):
            seen.add(noted(spark, tmp_path, {key: value}, inside))
    assert len(seen) == 9
