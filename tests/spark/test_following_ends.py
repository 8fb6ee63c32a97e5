"""Sources and sinks of every kind that is followed: nothing is read or written twice, and nothing is left out."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from bench import HDFS, Bench, once, row, stage
from followed_pair import Pair, running_pair, updated, wait_for
from pyspark.sql import functions as F

from tests.cases import one_is_fast

FIRST, MEANWHILE = [[row("a", 1)], [row("b", 2)]], [[row("c", 3), row("a", 4)], [row("d", 5)]]
AFTER = [[row("d", 6), row("e", 7)], [row("a", 8), row("f", 9)]]
ONCE = Counter([("a", 1), ("b", 2), ("c", 3), ("d", 5), ("e", 7), ("f", 9)])


def update(bench: Bench) -> Pair:
    with running_pair(bench, once, mode="append") as pair:
        return updated(pair, FIRST, MEANWHILE, AFTER)


@pytest.mark.parametrize("format", ["parquet", "json"])
@pytest.mark.parametrize("interval", one_is_fast(["2", "10"]))
def test_a_file_sink_has_every_batch_once_in_its_log(spark, tmp_path, format: str, interval: str) -> None:
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", interval)
    out = tmp_path / "out"
    bench = Bench(spark, tmp_path, HDFS)
    bench.sink = lambda writer: writer.format(format).option("path", str(out))
    pair = update(bench)
    found = spark.read.schema("k string, a long").format(format).load(str(out)).collect()
    assert Counter((r["k"], r["a"]) for r in found) == ONCE
    # by the files themselves: the reader looks at the log, too, and would not see what is in none
    written = {p.name for p in out.iterdir() if p.suffix in (f".{format}",) or f".{format}" in p.name} - {
        "_spark_metadata"
    }
    logged = Counter(Path(entry["path"]).name for entry in sink_log(out))
    assert {n for n in written if not n.startswith(".")} == set(logged) and set(logged.values()) == {1}
    batches = {int(p.name.split(".")[0]) for p in (out / "_spark_metadata").iterdir() if not p.name.startswith(".")}
    assert max(batches) == pair.own.committed_batch()
    assert pair.last_old in batches or interval == "2"


def sink_log(out: Path) -> list[dict]:
    """The newest compaction and what came after it (CompactibleFileStreamLog.allFiles)."""
    named = {int(p.name.split(".")[0]): p for p in (out / "_spark_metadata").iterdir() if not p.name.startswith(".")}
    start = max((n for n, p in named.items() if p.suffix == ".compact"), default=0)
    return [
        json.loads(line) for n in sorted(named) if n >= start for line in named[n].read_text().split("\n")[1:] if line
    ]


class Lines:
    """A foreach writer: a file for each partition of a batch, under the batch's id."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, partition: int, batch: int) -> bool:
        self.path = Path(self.folder, f"{batch}-{partition}")
        self.path.touch(exist_ok=False)  # it must not be there yet
        self.lines = []
        return True

    def process(self, r) -> None:
        self.lines.append(f"{r['k']} {r['a']}\n")

    def close(self, error) -> None:
        self.path.write_text("".join(self.lines))


def test_foreach_is_called_for_each_row_once(spark, tmp_path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    bench = Bench(spark, tmp_path, HDFS)
    bench.sink = lambda writer: writer.foreach(Lines(str(out)))
    update(bench)
    lines = [line.split() for file in out.iterdir() for line in file.read_text().splitlines()]
    assert Counter((k, int(a)) for k, a in lines) == ONCE


@pytest.mark.parametrize(("format", "table"), [("noop", "NoopTable"), ("console", "ConsoleTable")])
def test_sinks_that_keep_nothing(spark, tmp_path, format: str, table: str) -> None:
    bench = Bench(spark, tmp_path, HDFS)
    bench.sink = lambda writer: writer.format(format)
    pair = update(bench)
    assert pair.own.committed_batch() > pair.last_old
    progress = pair.follower.query.recentProgress
    wrote = {p["batchId"]: p["sink"]["description"] for p in progress if "addBatch" in p["durationMs"]}
    assert all("NoopTable" in text for batch, text in wrote.items() if batch <= pair.last_old)
    assert [text for batch, text in wrote.items() if batch > pair.last_old and table in text]


@pytest.mark.parametrize("format", one_is_fast(["csv", "text", "parquet", "orc", "xml"]))
def test_files_of_other_formats(spark, tmp_path, format: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def lines(bench: Bench):
        schema = "value string" if format == "text" else "k string, a long"
        reader = bench.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).option("rowTag", "row")
        rows = reader.format(format).load(str(folder))
        if format == "text":
            parts = F.split("value", " ")
            rows = rows.select(parts[0].alias("k"), parts[1].cast("long").alias("a"))
        return stage("once", rows.dropDuplicates(["k"])).select("k", "a")

    bench = Bench(spark, tmp_path, HDFS)
    with running_pair(bench, lines, mode="append") as pair:
        pair.write = lambda rows, to="in": put(spark, folder, format, rows, bench)
        pair.files = lambda plan: [p for p in folder.iterdir() if not p.name.startswith(".")]
        updated(pair, FIRST, MEANWHILE, AFTER)
        assert Counter((r["k"], r["a"]) for r in pair.all()) == ONCE


def put(spark, folder: Path, format: str, rows: list[dict], bench: Bench) -> None:
    import pyarrow
    import pyarrow.orc
    import pyarrow.parquet

    hidden = folder / f".{bench.files}"
    if format in ("parquet", "orc"):
        write = pyarrow.parquet.write_table if format == "parquet" else pyarrow.orc.write_table
        write(pyarrow.Table.from_pylist([{"k": r["k"], "a": r["a"]} for r in rows]), hidden)
    elif format == "xml":
        lines = "".join(f"<row><k>{r['k']}</k><a>{r['a']}</a></row>" for r in rows)
        hidden.write_text(f"<rows>{lines}</rows>")
    else:
        hidden.write_text("".join(f"{r['k']}{',' if format == 'csv' else ' '}{r['a']}\n" for r in rows))
    os.utime(hidden, (1_700_000_000 + bench.files,) * 2)
    hidden.rename(folder / f"{bench.files:04d}.{format}")
    bench.files += 1


@pytest.mark.parametrize(
    ("format", "options"),
    one_is_fast([("rate-micro-batch", {"rowsPerBatch": "4", "numPartitions": "2"}), ("rate", {"rowsPerSecond": "5"})]),
)
def test_sources_that_make_their_rows(spark, tmp_path, format: str, options: dict) -> None:
    """With a file source beside them. Their values are 0, 1, 2 ... without a gap."""

    def values(bench: Bench):
        made = bench.spark.readStream.format(format).options(**options).load().select(F.col("value").alias("v"))
        rows = made.union(bench.source().select(F.col("a").alias("v")))
        return stage("once", rows.withColumn("k", F.col("v") % 7).dropDuplicates(["v"])).select("v")

    bench = Bench(spark, tmp_path, HDFS)
    with running_pair(bench, values, mode="append", trigger="1 second") as pair:
        pair.write([row("f", -1)])
        pair.start_old()
        wait_for(lambda: len(pair.before) >= 2, "two batches")
        pair.follow()
        pair.write([row("f", -2)])
        wait_for(lambda: pair.follower.step() or len(pair.before) >= 5, "three more")
        wait_for(lambda: any(r["v"] == -2 for rows in pair.before.values() for r in rows), "the second file")
        pair.catch_up()
        pair.end_old()
        pair.same_states()
        pair.take_over()
        pair.write([row("f", -3)])
        wait_for(lambda: any(r["v"] == -3 for rows in dict(bench.emitted).values() for r in rows), "the third file")
        wait_for(lambda: len(bench.emitted) >= 3, "three batches of its own")
        pair.follower.query.stop()
        found = Counter(r["v"] for r in pair.all())
        assert set(found.values()) == {1}
        assert sorted(found) == list(range(-3, len(found) - 3))
