"""The names of what an app reads and writes, in OpenLineage."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_streamupdate.core.plan.plan import AppPlan, QueryPlan, SinkPlan, SourcePlan
from airflow_provider_streamupdate.openlineage.datasets import Flow, Named, at, flow_of

SERVERS = {"kafka.bootstrap.servers": "b1:9092,b2:9093"}


def plan(source: SourcePlan | None = None, sink: SinkPlan | None = None, **query: Any) -> AppPlan:
    made = QueryPlan(
        name="q",
        output_mode="append",
        sink=sink or SinkPlan(format="noop"),
        sources=(source,) if source else (),
        stages=(),
        **query,
    )
    return AppPlan(app="alarm", spark_version="4.3.0", queries=(made,))


def read(format: str, location: str | None = None, options: dict[str, str] | None = None, **query: Any) -> Flow:
    source = SourcePlan(name="s", named=True, format=format, location=location, options=options or {})
    return flow_of(plan(source, **query))


def written(format: str, location: str | None = None, **options: str) -> Flow:
    return flow_of(plan(sink=SinkPlan(format=format, location=location, options=options)))


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("/data/in", "file", "/data/in"),
        ("file:///data//in/", "file", "/data/in"),
        ("file:/", "file", "/"),
        ("file://host/data", "file://host", "/data"),
        ("/data/a?c/*.json", "file", "/data/a?c/*.json"),
        ("s3a://bucket/a/b", "s3://bucket", "a/b"),
        ("abfss://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net", "a"),
        ("wasb://c@acc.blob.core.windows.net/a", "wasbs://c@acc.blob.core.windows.net", "a"),
        ("dbfs:/a/b", "dbfs", "/a/b"),
        ("abfss://c:secret@acc/a", "abfss://acc", "/a"),
    ],
)
def test_a_place_has_its_name(uri: str, namespace: str, name: str) -> None:
    assert at(uri) == Named(namespace, name)


@pytest.mark.parametrize("uri", [None, "", "in", "(redacted)", "s3://", "db.table", "s3:a", "s3a://K:no address/a"])
def test_what_is_no_place_has_no_name(uri: str | None) -> None:
    assert at(uri) is None


@pytest.mark.parametrize(
    "uri",
    [
        "s3a://KEY:hunter2@bucket/a",
        "abfss://c:hunter2@acc.dfs.core.windows.net/a",
        "https://acc.blob.core.windows.net/a?sig=hunter2&x=1",
        "s3a://bucket/a?X-Amz-Signature=hunter2",
        "s3a://KEY:hun@ter/hunter2@bucket/a",
        "s3://bucket/a#sig=hunter2",
        "abfss://c@acc.dfs.core.windows.net/a;sig=hunter2",
        "s3a://bucket/a%3Fsig=hunter2",
    ],
)
def test_a_name_holds_no_secret(uri: str) -> None:
    found = at(uri)
    assert found is not None and "hunter2" not in f"{found.namespace}{found.name}" and found.name.endswith(("a", "in"))


def test_topics_are_of_the_first_server() -> None:
    first = "kafka://b1:9092"
    assert read("kafka", "a, b", {**SERVERS, "subscribe": "a, b"}).inputs == (Named(first, "a"), Named(first, "b"))
    assert read("kafka", None, {**SERVERS, "assign": '{"b": [0], "a": [1]}'}).inputs == (
        Named(first, "a"),
        Named(first, "b"),
    )
    spelled = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
    assert read(spelled, "a", {"kafka.bootstrap.servers": "SSL://b3:1", "subscribe": "a"}).inputs == (
        Named("kafka://b3:1", "a"),
    )
    assert written("kafka", topic="out", **SERVERS).outputs == (Named(first, "out"),)


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "a"},
        {**SERVERS, "subscribepattern": "a.*"},
        {**SERVERS, "assign": "{"},
        {**SERVERS, "subscribe": " , "},
        {"kafka.bootstrap.servers": "user:pw@b1", "subscribe": "a"},
        {"kafka.bootstrap.servers": "(redacted)", "subscribe": "a"},
    ],
)
def test_topics_that_are_not_known_are_told(options: dict[str, str]) -> None:
    found = read("kafka", None, options)
    assert (found.inputs, found.unnamed) == ((), ("q/s (kafka)", "q (noop)"))


def test_files_and_tables() -> None:
    assert read("json", "file:/in").inputs == (Named("file", "/in"),)
    assert read("org.apache.spark.sql.execution.datasources.v2.parquet.ParquetFileFormat", "/in").inputs
    assert read("delta", "s3a://b/t").inputs == (Named("s3://b", "t"),)
    assert written("delta", "file:/out", path="out").outputs == (Named("file", "/out"),)
    assert written("parquet", None, path="/out").outputs == (Named("file", "/out"),)  # a plan from before locations
    assert read("iceberg", "/warehouse/db/t").inputs == (Named("file", "/warehouse/db/t"),)
    hadoop = {"spark.sql.catalog.lake.type": "hadoop", "spark.sql.catalog.lake.warehouse": "s3a://b/wh/"}
    assert read("iceberg", "lake.db.t", given=hadoop).inputs == (Named("s3://b", "wh/db/t"),)


@pytest.mark.parametrize(
    "given", [{}, {"spark.sql.catalog.lake.type": "rest", "spark.sql.catalog.lake.warehouse": "/w"}]
)
def test_a_table_that_only_its_catalog_knows_is_told(given: dict[str, str]) -> None:
    found = read("iceberg", "lake.db.t", given=given)
    assert (found.inputs, found.unnamed) == ((), ("q/s (iceberg)", "q (noop)"))


@pytest.mark.parametrize("format", ["rate", "socket", "foreachBatch", "console", "memory", "x.y.Custom", ""])
def test_what_has_no_name_is_told(format: str) -> None:
    assert read(format, "h:1").unnamed == (f"q/s ({format})", "q (noop)")
    assert written(format).unnamed == (f"q ({format})",)


def test_a_source_of_two_queries_is_one_dataset_with_its_columns() -> None:
    source = SourcePlan(
        name="s",
        named=True,
        format="json",
        location="/in",
        columns={"n": "long", "k": "string", "at": {"type": "array", "elementType": "integer", "containsNull": True}},
        order=("k", "n", "at"),
    )
    one = plan(source).queries[0]
    found = flow_of(AppPlan(app="alarm", spark_version="4.3.0", queries=(one, one)))
    assert found.inputs == (Named("file", "/in"),)
    assert found.inputs[0].fields == (("k", "string"), ("n", "bigint"), ("at", "array<int>"))


def test_the_names_are_those_of_openlineages_own_library() -> None:
    naming = pytest.importorskip("openlineage.client.naming.dataset", reason="openlineage-python is not installed")
    for mine, its in (
        (at("/a/b"), naming.LocalFileSystem("/a/b")),
        (at("file://h/a"), naming.RemoteFileSystem("h", "/a")),
        (at("s3a://b/k/l"), naming.S3("b", "k/l")),
        (at("gs://b/k"), naming.GCS("b", "k")),
        (at("hdfs://nn:8020/a"), naming.HDFS("nn", "8020", "/a")),
        (at("abfss://c@acc.dfs.core.windows.net/a"), naming.ABFSS("c", "acc", "a")),
        (written("kafka", topic="t", **SERVERS).outputs[0], naming.Kafka("b1", "9092", "t")),
    ):
        assert mine is not None and (mine.namespace, mine.name) == (its.get_namespace(), its.get_name())
