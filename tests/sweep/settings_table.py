"""Writes the committed table of settings that change results, from what the sweeps found.

    python -m tests.sweep.settings_table RESULTS.json STREAMS.json

Each finding is measured once more on its own example (`confirm`); one that is not seen again is printed and left out.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_streamupdate.core.compatibility.rules.settings.settings_table import MEASURED, Measured
from airflow_provider_streamupdate.core.plan.state_stores import PARTITIONS, PROVIDER
from airflow_provider_streamupdate.streaming.spark_internals.jvm import module, sequence
from airflow_provider_streamupdate.streaming.spark_internals.settings import effective_settings
from airflow_provider_streamupdate.streaming.spark_internals.version import CHECKPOINTING

from .settings import RESTARTED, Results, _alone, forget, session_with, start
from .settings_corpus import Statement, corpus
from .settings_frames import frames, write_files
from .settings_registry import settings
from .settings_streams import QUERIES, Streams

TABLE = Path(__file__).parents[2] / "airflow_provider_streamupdate/core/compatibility/rules/settings/settings_table.py"
OTHER_RULES = (PARTITIONS, PROVIDER)  # core/compatibility/rules/stages/store.py
HEAD = '''"""Spark's settings that change results. Written by tests/sweep/settings_table.py: do not change it by hand.

Of {count} of the {all} settings in the registry of Spark {version} (SQLConf, public and internal ones) it was seen;
each has an example that changes. Others may: a change of any but those in setting.HARMLESS is asked about. Tried were
{statements} statements and {streams} streaming queries (tests/sweep/settings.py tells how).
"""
# ruff: noqa: E501

from __future__ import annotations

from .measured import Measured

# fmt: off
MEASURED: dict[str, Measured] = {{m.key: m for m in (
'''


def statement(measured: Measured, folder: Path) -> Statement:
    """The example, as a statement of the corpus."""
    text = measured.example
    if measured.kind == "frame":
        return Statement(text=text, run=dict(frames(folder))[text])
    return Statement(text=text, expression=measured.kind == "expression", ordered=measured.kind == "ordered")


def confirm(spark: SparkSession, measured: Measured, folder: Path) -> str:
    """How the example's result changes: empty when it does not."""
    base = dict([measured.under.split("=", 1)]) if measured.under else {}
    flips = {**base, measured.key: measured.other}
    if measured.kind == "stream":
        streams, name = Streams(spark, folder), measured.example.removesuffix(RESTARTED)
        for said, parts in ((name, ({},)), (name + RESTARTED, ({}, {}))):
            streams.expected[said] = streams.run(name, parts)
        return streams.changed(flips, [name]).get(measured.example, "")
    one = statement(measured, folder)
    before = _alone(session_with(spark, base), one)
    try:
        return before.change(_alone(session_with(spark, flips), one))
    finally:
        forget(spark, flips)


def recorded(spark: SparkSession) -> set[str]:
    """The settings that the offset log holds."""
    metadata = module(spark, f"{CHECKPOINTING}.OffsetSeqMetadata")
    return {str(entry.key()) for entry in sequence(metadata.relevantSQLConfs())}


def _kind(text: str, known: dict[str, Statement]) -> str:
    found = known[text]
    if found.run is not None:
        return "frame"
    return "expression" if found.expression else "ordered" if found.ordered else "query"


def _line(m: Measured) -> str:
    last = (f", under={m.under!r}" if m.under else "") + (", recorded=True" if m.recorded else "")
    first = ", ".join(map(repr, (m.key, m.default, m.other, m.change, m.kind)))
    return f"    Measured({first},\n             {m.example!r}{last}),\n"


def make(results: Results, streams: Results) -> None:
    folder = Path(tempfile.mkdtemp(prefix="streamupdate-table-"))
    spark = start(folder)
    write_files(spark, folder)
    known = {s.text: s for s in corpus(spark, folder)}
    logged = recorded(spark)
    entries = []
    for source, found in (("corpus", results.found), ("stream", streams.found)):
        for key, one in found.items():
            if key in OTHER_RULES or any(e.key == key for e in entries):
                continue
            kind = "stream" if source == "stream" else _kind(one.text, known)
            scratch = spark.newSession()
            default = effective_settings(scratch, [key])[key]
            scratch.conf.set(key, one.value)
            other = effective_settings(scratch, [key])[key]
            under = "".join(f"{k}={v}" for k, v in one.under.items())
            measured = Measured(key, default, other, one.change, kind, one.text, under, key in logged)
            if confirm(spark, measured, folder):
                entries.append(measured)
            else:
                print(f"not seen again: {key}={one.value}: {one.text}", flush=True)
    registry = settings(spark)
    # Those of the table were not tried again, unless asked for.
    entries += [m for m in MEASURED.values() if not any(e.key == m.key for e in entries)]
    head = HEAD.format(
        count=len(entries), all=len(registry), version=spark.version, statements=len(known), streams=len(QUERIES)
    )
    lines = map(_line, sorted(entries, key=lambda e: e.key))
    TABLE.write_text(f"{head}{''.join(lines)})}}\n# fmt: on\n")
    print(f"{len(entries)} entries in {TABLE}")
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("streams", type=Path)
    given = parser.parse_args()
    make(Results.of(given.results), Results.of(given.streams))
