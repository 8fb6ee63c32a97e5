"""Settings that change results: which changes of them are asked about, and what the report says."""

from __future__ import annotations

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.rules.settings.setting import HARMLESS, harmless
from airflow_provider_streamupdate.core.compatibility.rules.settings.settings_table import MEASURED
from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem
from airflow_provider_streamupdate.core.plan.plan import TIME_ZONE
from airflow_provider_streamupdate.core.plan.state_stores import PARTITIONS, PROVIDER

from .builders import app_plan, query_plan

PARSER = "spark.sql.legacy.timeParserPolicy"
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
ANSI = "spark.sql.ansi.enabled"


def settings(old: dict[str, str], new: dict[str, str], *unaffected: tuple[str, ...]) -> list[ReportItem]:
    """What the report says of settings, of a query with state. unaffected: of the old version and of the new."""
    proofs = unaffected or ((), ())
    queries = (query_plan(conf=c, unaffected=p) for c, p in zip((old, new), proofs, strict=True))
    report = compare(*(app_plan(q) for q in queries), "s1")
    return [i for i in report.items if i.thing == "setting"]


@pytest.mark.parametrize("key", sorted(MEASURED))
def test_each_that_changes_results_is_asked_about_by_name(key: str) -> None:
    measured = MEASURED[key]
    assert settings({key: measured.default}, {key: measured.default}) == []
    for old, new in ((measured.default, measured.other), (measured.other, measured.default)):
        [item] = settings({key: old}, {key: new})
        assert item.name.endswith(f":{key}") and item.needs_agreement
        assert f"{key} changed from {old} to {new}" in item.reason and "{" not in item.reason.split("`")[0]


def given(old: dict[str, str], new: dict[str, str], **conf: str) -> list[ReportItem]:
    report = compare(app_plan(query_plan(given=old)), app_plan(query_plan(given=new, conf=conf)), "s1")
    return [i for i in report.items if i.thing == "setting"]


def test_one_that_nobody_knows_is_asked_about_by_name() -> None:
    unknown = "spark.sql.extensions"
    assert given({unknown: "a"}, {unknown: "a"}) == []
    for old, new, said in (
        ({unknown: "a"}, {unknown: "b"}, "changed from a to b"),
        ({}, {unknown: "b"}, "changed from Spark's default to b"),
        ({unknown: "a"}, {}, "changed from a to Spark's default"),
    ):
        [item] = given(old, new)
        assert item.rules == ("setting.unknown",) and item.needs_agreement and item.name == f"windows:{unknown}"
        assert f"{unknown} {said}" in item.reason


@pytest.mark.parametrize("key", HARMLESS)
def test_one_that_is_known_to_change_nothing_is_not(key: str) -> None:
    name = f"{key}x" if key.endswith(".") else key
    assert given({name: "1"}, {name: "2"}) == []


def test_one_that_was_not_known_to_change_results_is_compared_with_what_was_given_then() -> None:
    assert given({PARSER: "LEGACY"}, {}, **{PARSER: "LEGACY"}) == []
    [item] = given({PARSER: "LEGACY"}, {}, **{PARSER: "CORRECTED"})
    assert f"{PARSER} changed from LEGACY to CORRECTED" in item.reason and item.rules == ("setting.changed",)
    [item] = given({}, {}, **{PARSER: "LEGACY"})
    assert f"{PARSER} changed from CORRECTED to LEGACY" in item.reason


def test_what_is_not_asked_about() -> None:
    changed = ({TIME_ZONE: "UTC"}, {TIME_ZONE: "Asia/Tokyo"})
    assert settings(*changed, (TIME_ZONE,), (TIME_ZONE,)) == []
    assert len(settings(*changed, (TIME_ZONE,), ())) == 1
    assert len(settings(*changed, (), (TIME_ZONE,))) == 1
    # one that the new spark does not have is not compared
    assert settings({PARSER: "LEGACY"}, {}) == []
    # one that this version does not know is compared when both have it
    [item] = settings({"spark.sql.of.a.later.version": "1"}, {"spark.sql.of.a.later.version": "2"})
    assert "what it changes is unknown" in item.reason and item.needs_agreement
    assert settings({}, {"spark.sql.of.a.later.version": "2"}) == []
    # a query without state may change them
    zones = [attrs.evolve(query_plan(conf={TIME_ZONE: zone}), stages=()) for zone in ("UTC", "Asia/Tokyo")]
    assert not [i for i in compare(*map(app_plan, zones), "s1").items if i.thing == "setting"]


def test_the_table_is_in_order_and_leaves_out_what_is_handled_elsewhere() -> None:
    assert list(MEASURED) == sorted(MEASURED) and all(m.key == key for key, m in MEASURED.items())
    assert not {PARTITIONS, PROVIDER} & MEASURED.keys()  # core/compatibility/rules/stages/store.py
    assert not [key for key in MEASURED if harmless(key)]
    assert all(m.default != m.other for m in MEASURED.values())
    assert {TIME_ZONE, ANSI, PARSER, POLICY, "spark.sql.caseSensitive"} <= MEASURED.keys()
