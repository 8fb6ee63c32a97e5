"""Sources before and after: what is the same place, which options are harmless, and columns by position."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem
from airflow_provider_streamupdate.core.plan.plan import UNKNOWN, SourcePlan

from .builders import app_plan, query_plan


def read(format: str = "json", location: str | None = None, order: tuple[str, ...] = (), **options: str) -> SourcePlan:
    names = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
    return SourcePlan(name="s", named=True, format=format, location=location, options=names, order=order)


def item(old: SourcePlan, new: SourcePlan, stateful: bool = True) -> ReportItem:
    changes: dict[str, Any] = {} if stateful else {"stages": ()}
    plans = [app_plan(attrs.evolve(query_plan(sources=(s,), source_order=("s",)), **changes)) for s in (old, new)]
    [found] = [i for i in compare(*plans, "s1").items if i.thing == "source"]
    return found


def folder(written: str, whole: str | None = None) -> SourcePlan:
    return read("json", whole or written, path=written)


KAFKA = {"subscribe": "a,b", "kafka__bootstrap__servers": "x:1,y:1"}
SERVERS = {**KAFKA, "kafka__bootstrap__servers": "y:1,x:1"}
LOGGED_IN = {**KAFKA, "kafka__sasl__mechanism": "PLAIN", "groupidprefix": "x"}
PORTS = [read("socket", f"h:{n}", host="h", port=n) for n in "12"]

CARRIED = {
    "the same folder with a slash": (folder("/in", "file:/in"), folder("/in/", "file:/in")),
    "the same folder with its scheme": (folder("/in", "file:/in"), folder("file:///in", "file:/in")),
    "relative, from the same folder": (folder("in", "file:/here/in"), folder("/here/in", "file:/here/in")),
    "how many files a batch": (read(maxfilespertrigger="1"), read(maxfilespertrigger="9")),
    "how it would be written": (read("csv"), read("csv", quoteall="true", compression="gzip")),
    "what a schema would be inferred by": (read(samplingratio="0.1"), read(primitivesasstring="true")),
    "a default that is given": (read("csv"), read("csv", header="false", sep=",", mode="PERMISSIVE")),
    "what malformed lines are, in capitals": tuple(
        attrs.evolve(read("csv", mode=mode), read=(("a",),)) for mode in ("FAILFAST", "failfast")
    ),
    "another name of one option": (read("csv", delimiter=";", charset="x"), read("csv", sep=";", encoding="x")),
    "an option that its other name does not win over": (
        read("csv", sep=";", charset="x"),
        read("csv", sep=";", delimiter=",", charset="x"),
    ),
    "true and TRUE": (read("csv", header="true"), read("csv", header="TRUE")),
    "Spark's class of a format": (read("json"), read("org.apache.spark.sql.execution.datasources.json.JsonFileFormat")),
    "a class of a source": (read("rate"), read("org.apache.spark.sql.execution.streaming.sources.RateStreamProvider")),
    "topics in another order": (read("kafka", **KAFKA), read("kafka", **{**KAFKA, "subscribe": "b, a"})),
    "servers in another order": (read("kafka", **KAFKA), read("kafka", **SERVERS)),
    "how Kafka is reached": (read("kafka", **KAFKA), read("kafka", **LOGGED_IN)),
    "how many rows a batch of the rate source": (read("rate-micro-batch"), read("rate-micro-batch", rowsperbatch="7")),
    "an Iceberg table in smaller batches": (
        read("iceberg", "c.db.t"),
        read("iceberg", "c.db.t", streaming_max_files_per_micro_batch="1"),
    ),
    "columns by name in another order": (read(order=("a", "b")), read(order=("b", "a"))),
    "a column more of what is not known": (read("ours", order=("a",)), read("ours", order=("a", "b"))),
    "a column more at the end": (read("csv", order=("a", "b")), read("csv", order=("a", "b", "c"))),
}  # fmt: skip

REFUSED = {
    "another folder": (folder("/in", "file:/in"), folder("/other", "file:/other"), "source.place"),
    "another file system": (folder("/in", "file:/in"), folder("/in", "hdfs://n:1/in"), "source.place"),
    "a glob": (folder("/in", "file:/in"), folder("/in/*", "file:/in/*"), "source.place"),
    "relative, from another folder": (folder("in", "file:/a/in"), folder("in", "file:/b/in"), "source.place"),
    "other topics": (read("kafka", **KAFKA), read("kafka", **{**KAFKA, "subscribe": "a"}), "source.place"),
    "a pattern for topics": (read("kafka", subscribe="a"), read("kafka", subscribepattern="a"), "source.place"),
    "an assignment": (read("kafka", assign='{"a":[0]}'), read("kafka", assign='{"a":[1]}'), "source.place"),
    "another port": (*PORTS, "source.place"),
    "another table of Iceberg": (read("iceberg", "c.db.t"), read("iceberg", "c.db.u"), "source.place"),
    "another Delta folder": (read("delta", "/t", path="/t"), read("delta", "/u", path="/u"), "source.place"),
    "another table of what is not known": (read("ours", table="t"), read("ours", table="u"), "source.place"),
    "swapped names of a csv schema": (read("csv", order=("a", "b")), read("csv", order=("b", "a")), "source.columns"),
    "a name in a csv schema": (read("csv", order=("a", "b")), read("csv", order=("c", "b")), "source.columns"),
    "a column more in front": (read("csv", order=("a", "b")), read("csv", order=("z", "a", "b")), "source.columns"),
    "the one column of text": (read("text", order=("value",)), read("text", order=("line",)), "source.columns"),
    "avro by position": (
        read("avro", order=("a", "b"), positionalfieldmatching="true"),
        read("avro", order=("b", "a"), positionalfieldmatching="true"),
        "source.columns",
    ),
}  # fmt: skip

AGREED = {
    "a separator": (read("csv"), read("csv", sep=";")),
    "an age in hours": (read(maxfileage="168h"), read(maxfileage="7d")),
    "a header": (read("csv"), read("csv", header="true")),
    "what counts as null": (read("csv"), read("csv", nullvalue="-")),
    "a space that counts as null": (read("csv"), read("csv", nullvalue=" ")),
    "a separator of two letters": (read("csv"), read("csv", sep=", ")),
    "a date's format": (read(), read(dateformat="dd.MM.yyyy")),
    "a time zone of the reader": (read(), read(timezone="Asia/Tokyo")),
    "which files": (read(), read(pathglobfilter="*.json")),
    "in which order": (read(), read(latestfirst="true")),
    "which files are too old": (read(), read(maxfileage="1d")),
    "which files are too old, of the latest ones": (
        read(latestfirst="true", maxfilespertrigger="1"),
        read(latestfirst="true"),
    ),
    "a name of an option that wins over the other one": (
        read("csv", delimiter=";"),
        read("csv", sep=",", delimiter=";"),
    ),
    "files removed": (read(), read(cleansource="delete")),
    "files that cannot be read": (read("parquet"), read("parquet", ignorecorruptfiles="true")),
    "an option nobody knows": (read(), read(somethingnew="1")),
    "uncommitted records": (read("kafka", **KAFKA), read("kafka", **KAFKA, kafka__isolation__level="read_committed")),
    "losses are no error": (read("kafka", **KAFKA), read("kafka", **KAFKA, failondataloss="false")),
    "the rate": (read("rate"), read("rate", rowspersecond="5")),
    "the clock of batches": (read("rate-micro-batch"), read("rate-micro-batch", advancemillisperbatch="5")),
    "changes of a Delta table": (read("delta", "/t"), read("delta", "/t", ignorechanges="true")),
    "skipped snapshots": (read("iceberg", "t"), read("iceberg", "t", streaming_skip_delete_snapshots="true")),
    "any option of what is not known": (read("ours"), read("ours", fetchsize="9")),
    "how many rows a batch of what is not known": (read("ours"), read("ours", maxfilespertrigger="9")),
    "another code": (attrs.evolve(read("ours"), code="1"), attrs.evolve(read("ours"), code="2")),
    "code that cannot be compared": (attrs.evolve(read("ours"), code=UNKNOWN),) * 2,
}


@pytest.mark.parametrize("name", CARRIED)
def test_what_changes_no_row(name: str) -> None:
    found = item(*CARRIED[name])
    assert found.verdict == "carried", found.reason
    assert item(*reversed(CARRIED[name])).verdict == "carried" or "did not make" in name or "more" in name


@pytest.mark.parametrize("name", REFUSED)
def test_another_place_or_other_columns(name: str) -> None:
    old, new, rule = REFUSED[name]
    found = item(old, new)
    assert (found.verdict, found.rules) == ("refused", (rule,))


@pytest.mark.parametrize("name", AGREED)
def test_what_may_change_rows_is_asked_for(name: str) -> None:
    found = item(*AGREED[name])
    assert (found.verdict, found.needs_agreement) == ("carried with loss", True), found


def test_a_query_without_state_may_name_its_columns_otherwise() -> None:
    """Only that: its options are asked about, too."""
    assert item(read("csv", order=("a", "b")), read("csv", order=("b", "a")), stateful=False).verdict == "carried"
    for changed in (read("csv", sep=";"), read("csv", cleansource="delete")):
        assert item(read("csv"), changed, stateful=False).needs_agreement


def test_which_columns_are_read_counts_where_records_may_not_fit() -> None:
    strict = {"mode": "DROPMALFORMED"}
    old, new = (attrs.evolve(read("json", **strict), read=r) for r in ((("a",),), (("a", "b"),)))
    found = item(old, new)
    assert found.rules == ("source.read",) and "read a of it and now reads a, b" in found.reason
    assert item(old, new, stateful=False).verdict == "carried"
    kept = [
        attrs.evolve(read("json"), columns=dict.fromkeys(("a", "b", "_corrupt_record"), "string"), read=(r,))
        for r in (("a",), ("a", "b"))
    ]
    assert item(*kept).verdict == "carried"  # nobody reads the column that tells
    told = [attrs.evolve(s, read=((*(s.read or ())[0], "_corrupt_record"),)) for s in kept]
    assert item(*told).rules == ("source.read",)


def test_what_the_session_says_counts() -> None:
    plain, said = read("csv"), attrs.evolve(read("csv", timezone="UTC"), session={"timezone": "UTC"})
    assert item(plain, said).verdict == item(said, plain).verdict == "carried"
    assert item(attrs.evolve(said, session={}), said).verdict == "carried"
    assert item(plain, attrs.evolve(said, session={"timezone": "Asia/Tokyo"})).needs_agreement
    kept = attrs.evolve(read("csv", ignorecorruptfiles="false"), session={"ignorecorruptfiles": "true"})
    assert item(plain, kept).needs_agreement
    # the session may name the corrupt column and read orc by position
    named = {"session": {"columnnameofcorruptrecord": "bad"}}
    old, new = (
        attrs.evolve(read("json"), columns={"b": kind, "bad": "string"}, read=(("b", "bad"),), **named)
        for kind in ("integer", "string")
    )
    assert item(old, new).rules == ("source.malformed",)
    orc = [read("orc", order=names) for names in (("a", "b"), ("b", "a"))]
    assert item(*orc).verdict == "carried"
    by_position = [attrs.evolve(s, session={"orc.force.positional.evolution": "true"}) for s in orc]
    assert item(*by_position).rules == ("source.columns",)
    named_again = attrs.evolve(by_position[1], options={"orc.force.positional.evolution": "false"})
    assert item(orc[0], named_again).verdict == "carried with loss"  # an option that was not given; by name in both


def test_an_option_is_shown_as_it_is_written() -> None:
    assert "from its default to '\\n'" in item(read("csv"), read("csv", linesep="\n")).reason
    assert "from '-' to its default" in item(read("csv", nullvalue="-"), read("csv", nullvalue="")).reason


def test_unnamed_sources_without_a_place_are_known_by_their_options() -> None:
    rates = [attrs.evolve(read("rate", rowspersecond=n), name=f"source-{i}", named=False) for i, n in enumerate("12")]

    def verdicts(*sources: SourcePlan) -> list[str]:
        new = tuple(attrs.evolve(s, name=f"source-{i}") for i, s in enumerate(sources))
        plans = [app_plan(query_plan(sources=s)) for s in (tuple(rates), new)]
        return [i.verdict for i in compare(*plans, "s1").items if i.thing == "source"]

    assert verdicts(*rates) == ["carried", "carried"]
    assert verdicts(*reversed(rates)) == ["carried", "carried"]
