"""Writes the committed table of settings that change results, from what the sweeps found.

    python -m tests.sweep.settings_table RESULTS.json STREAMS.json

Each finding is measured once more on its own example (`confirm`); one that is not seen again is printed and left out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_provider_streamupdate.state.rules.measured import Measured
from airflow_provider_streamupdate.state.stores import PARTITIONS, PROVIDER
from airflow_provider_streamupdate.streaming.spark_internals.jvm import STREAMING, module, sequence
from airflow_provider_streamupdate.streaming.spark_internals.settings import effective_settings

from .settings import _alone, forget, session_with, start
from .settings_corpus import Statement, corpus
from .settings_frames import frames, write_files
from .settings_streams import QUERIES, Streams

TABLE = Path(__file__).parents[2] / "airflow_provider_streamupdate/state/rules/settings_table.py"
ELSEWHERE = (PARTITIONS, PROVIDER)  # state/rules/store.py
HEAD = '''"""Spark's settings that change results. Written by tests/sweep/settings_table.py: do not change it by hand.

{count} of the {all} settings in the registry of Spark {version} (SQLConf, public and internal ones). The {tried} that
are a boolean, an enumeration, a number or one of a few texts were set to other values, over {statements} statements and
{streams} streaming queries (`make sweep`; tests/sweep/settings.py tells how). Each has an example that changes.
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
        streams, name = Streams(spark, folder), measured.example.removesuffix(", restarted")
        for said, parts in ((name, ({},)), (f"{name}, restarted", ({}, {}))):
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
    metadata = module(spark, f"{STREAMING}.checkpointing.OffsetSeqMetadata")
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


def make(results: dict[str, Any], streams: dict[str, Any]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="streamupdate-table-"))
    spark = start(folder)
    write_files(spark, folder)
    known = {s.text: s for s in corpus(spark, folder)}
    logged = recorded(spark)
    entries = []
    for source, found in (("corpus", results["found"]), ("stream", streams["found"])):
        for key, one in found.items():
            if key in ELSEWHERE or any(e.key == key for e in entries):
                continue
            kind = "stream" if source == "stream" else _kind(one["text"], known)
            scratch = spark.newSession()
            default = effective_settings(scratch, [key])[key]
            scratch.conf.set(key, one["value"])
            other = effective_settings(scratch, [key])[key]
            under = "".join(f"{k}={v}" for k, v in one.get("under", {}).items())
            measured = Measured(key, default, other, one["change"], kind, one["text"], under, key in logged)
            if confirm(spark, measured, folder):
                entries.append(measured)
            else:
                print(f"not seen again: {key}={one['value']}: {one['text']}", flush=True)
    settings = results["settings"]
    head = HEAD.format(
        count=len(entries),
        all=len(settings),
        version=spark.version,
        tried=sum(bool(s["values"]) for s in settings),
        statements=results["statements"],
        streams=len(QUERIES),
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
    make(*(json.loads(p.read_text()) if p.exists() else {"found": {}} for p in (given.results, given.streams)))
