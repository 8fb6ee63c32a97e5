"""The sweep over Spark's settings: its parts, and that the committed table is what it finds.

A slice of the table is measured anew with the other tests; all of it, and the sweep itself, by `make sweep`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_provider_streamupdate.core.compatibility.rules.settings.setting import HARMLESS, harmless
from airflow_provider_streamupdate.core.compatibility.rules.settings.settings_table import MEASURED
from airflow_provider_streamupdate.core.plan.plan import TIME_ZONE
from airflow_provider_streamupdate.streaming.spark_internals.settings import effective_settings, other_settings
from tests.sweep.settings import WHICH, Results, Sweep, start, sweep
from tests.sweep.settings_corpus import Statement
from tests.sweep.settings_frames import write_files
from tests.sweep.settings_registry import Setting, settings
from tests.sweep.settings_streams import sweep as sweep_streams
from tests.sweep.settings_table import confirm, recorded

PARSER, MAPS = "spark.sql.legacy.timeParserPolicy", "spark.sql.mapKeyDedupPolicy"
SLICE = 10  # every so manieth of the table's entries
# Those of the issue, and one of each kind of example.
NAMED = (PARSER, MAPS, TIME_ZONE, "spark.sql.ansi.enabled", "spark.sql.caseSensitive", "spark.sql.timestampType")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("settings")


@pytest.fixture(scope="module")
def spark(place: Path) -> SparkSession:
    session = start(place)
    write_files(session, place)
    return session


@pytest.fixture(scope="module")
def registry(spark: SparkSession) -> dict[str, Setting]:
    return {s.key: s for s in settings(spark)}


def test_the_registry_tells_kinds_and_values(registry: dict[str, Setting]) -> None:
    assert len(registry) > 700
    assert registry[PARSER].kind == "enumeration" and registry[PARSER].values == ("EXCEPTION", "LEGACY")
    assert registry["spark.sql.ansi.enabled"].kind == "boolean"
    assert registry["spark.sql.ansi.enabled"].values == ("false",)
    assert registry["spark.sql.shuffle.partitions"].kind == "number"
    assert "0" not in registry["spark.sql.shuffle.partitions"].values  # Spark refuses it
    assert registry["spark.sql.warehouse.dir"].reason.startswith("static")
    kinds = [s.kind for s in registry.values()]
    print({kind: kinds.count(kind) for kind in sorted(set(kinds))})
    assert all(s.values or s.reason for s in registry.values())


def test_the_table_has_keys_and_defaults_of_this_spark(spark: SparkSession, registry: dict[str, Setting]) -> None:
    known = [key for key in MEASURED if key in registry]
    assert len(known) == len(MEASURED) or not spark.version.startswith("4.3")
    if spark.version.startswith("4.3"):
        given = effective_settings(spark, known)
        elsewhere = dict(spark.sparkContext.getConf().getAll())  # what the tests' own session was given
        own = [k for k in known if k not in elsewhere and k != TIME_ZONE]
        assert {k: given[k] for k in own} == {k: MEASURED[k].default for k in own}


def test_the_table_knows_what_the_offset_log_holds(spark: SparkSession) -> None:
    logged = recorded(spark)
    assert "spark.sql.streaming.multipleWatermarkPolicy" in logged
    assert {m.key for m in MEASURED.values() if m.recorded} == logged & MEASURED.keys()


def test_the_reviewed_ones_are_settings_of_spark(registry: dict[str, Setting]) -> None:
    """But those of Hadoop, which has no list of its settings."""
    reviewed = [begin for begin in HARMLESS if not begin.startswith("spark.hadoop.")]
    found = [key for begin in reviewed for key in registry if key.startswith(begin)]
    assert [begin for begin in reviewed if not any(key.startswith(begin) for key in registry)] == []
    assert not set(found) & MEASURED.keys()


def test_a_group_is_taken_apart(spark: SparkSession) -> None:
    """Of many settings changed at once those are found that change something, with the worst they do."""
    texts = ["try_to_date('2020-1-5', 'yyyy-MM-dd')", "map('a', 1, 'a', 2)", "1 + 1", "upper('x')"]
    run = Sweep(spark, [Statement(text=t, expression=True) for t in texts])
    assert run.baseline() == []
    for text in texts:  # without a Java compiler nothing is known of what is read
        run.reads[text] |= set(MEASURED) | {"spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"}
    flips = {"spark.sql.adaptive.enabled": "false", PARSER: "LEGACY", "spark.sql.codegen.wholeStage": "false"}
    found = {f.key: (f.value, f.change, f.text) for f in run.group({**flips, MAPS: "LAST_WIN"}) or ()}
    assert found == {PARSER: ("LEGACY", "values", texts[0]), MAPS: ("LAST_WIN", "errors", texts[1])}


def _slice() -> list[str]:
    batch = [k for k, m in MEASURED.items() if m.kind != "stream"]
    return sorted({*batch[::SLICE], *(k for k in NAMED if k in MEASURED)})


@pytest.mark.parametrize("key", _slice())
def test_a_slice_of_the_table_is_measured_anew(spark: SparkSession, place: Path, key: str) -> None:
    assert confirm(spark, MEASURED[key], place) == MEASURED[key].change


@pytest.mark.sweep
@pytest.mark.parametrize("key", list(MEASURED))
def test_all_of_the_table_is_measured_anew(spark: SparkSession, place: Path, key: str) -> None:
    if key in settings_of(spark):
        assert confirm(spark, MEASURED[key], place)


def settings_of(spark: SparkSession) -> set[str]:
    return set(effective_settings(spark, MEASURED))


@pytest.mark.sweep
@pytest.mark.timeout(4 * 3600)
def test_what_is_not_asked_about_changes_nothing(tmp_path: Path) -> None:
    """Every setting of the registry is asked about when it changes, or is tried here, whole."""
    results, streams = tmp_path / "results.json", tmp_path / "streams.json"
    whole = sweep(results, 180, WHICH["uncompared"]) and sweep_streams(streams, 60, harmless)
    said = [Results.of(p) for p in (results, streams)]
    found = said[0].found.keys() | said[1].found.keys()
    known = settings(start(tmp_path))
    read = set().union(*(keys for one in said for keys in one.read.values()))
    uncompared = [s for s in known if harmless(s.key)]
    left_out = [
        (s.key, s.reason or "not read by anything here") for s in uncompared if not s.values or s.key not in read
    ]
    print(f"{len(known)} settings: {len(known) - len(uncompared)} are asked about, {len(uncompared)} are not; of these")
    print(f"{len(uncompared) - len(left_out)} were tried and {len(found)} change results; {len(left_out)} left out:")
    print("\n".join(f"  {key}: {reason}" for key, reason in left_out))
    assert sorted(found) == []
    assert whole, "not all settings were tried in the time"


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_every_setting_is_in_the_plan_of_who_was_given_it(spark: SparkSession, registry: dict[str, Setting]) -> None:
    """So that the rules see it: as one of the table, as another one, or in the offset log, which wins."""
    logged, missing, plain = recorded(spark), [], other_settings(spark)
    for setting in registry.values():
        for value in setting.values:
            session = spark.newSession()
            session.conf.set(setting.key, value)
            before, now = (effective_settings(s, [setting.key]) for s in (spark, session))
            seen = {**effective_settings(session, MEASURED), **other_settings(session)}
            told = setting.key in seen or setting.key not in plain  # PySpark gives one that is not Spark's default
            if now != before and setting.key not in logged and told and seen.get(setting.key) != now[setting.key]:
                missing.append(f"{setting.key}={value}")
    assert missing == []
