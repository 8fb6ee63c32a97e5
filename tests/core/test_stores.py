"""State stores before and after: what moves as files, what is rewritten, and what the offset log records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot, SnapshotFile
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.plan_file import PlanFile
from airflow_provider_streamupdate.core.plan.plan import QueryPlan, StateSchema
from airflow_provider_streamupdate.core.plan.state_stores import (
    DEFAULT_STORE,
    PARTITIONS,
    PROVIDER,
    ROCKSDB,
    as_recorded,
    single_partition,
)
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.restore import plan_restore, record_stores

from .builders import app_plan, query_plan, stage_plan

OLD = {PROVIDER: DEFAULT_STORE, PARTITIONS: "2"}
LIMIT = stage_plan("first", 1, kind="limit", operator="globalLimit", definition={"rows": "5"})


def snapshot(*paths: str, in_flight: int | None = None) -> QuerySnapshot:
    files = tuple(SnapshotFile(path=p, size=1, object=p) for p in paths)
    return QuerySnapshot(batch=3, query_id="id", files=files, conf={**OLD, "other": "x"}, in_flight=in_flight)


def restored(new: dict[str, str]) -> tuple[list[str], list[str], dict[str, str]]:
    """The stages that are rewritten, the state files that are moved, and the configuration of the new checkpoint."""
    plans: list[QueryPlan] = [query_plan(stage_plan(), LIMIT, stores=stores) for stores in (OLD, new)]
    made = plan_restore(snapshot("state/0/0/4.delta", "state/1/0/4.delta"), *plans)
    assert all(m.migration is None for m in made.migrated)
    return [m.new.name for m in made.migrated], [path for _, path in made.moves], made.conf


def test_what_is_rewritten_when_stores_change() -> None:
    assert restored(OLD) == ([], ["state/0/0/4.delta", "state/1/0/4.delta"], {**OLD, "other": "x"})
    assert restored({}) == restored(OLD)  # a plan from before stores were recorded
    # another provider rewrites every stage
    asked = {PROVIDER: ROCKSDB, PARTITIONS: "2"}
    assert restored(asked) == (["daily", "first"], [], {**asked, "other": "x"})
    # another number of partitions leaves a stage of one partition alone
    asked = {**OLD, PARTITIONS: "9"}
    assert restored(asked) == (["daily"], ["state/1/0/4.delta"], {**asked, "other": "x"})


def test_the_report_goes_by_what_the_offset_log_records() -> None:
    # A version before this one ran with settings that its session was given and its state did not have.
    pretended = app_plan(query_plan(stores={PROVIDER: ROCKSDB, PARTITIONS: "9"}))
    [old] = [as_recorded(pretended, {"windows": {**OLD, "other": "x"}})]
    assert old.queries[0].stores == OLD
    [item] = [i for i in compare(old, pretended, "s1").items if i.thing == "stage"]
    assert (item.verdict, item.rules) == ("migrated", ("store.provider", "store.partitions"))
    assert item.reason == (
        "state moves from the default store (HDFS-backed) to RocksDB: every row is rewritten; "
        "state moves from 2 partitions to 9: every row is rewritten into its new partition"
    )
    # a stage that is refused is not said to be migrated
    old = app_plan(query_plan(stores=OLD))
    other = stage_plan(definition={"keys": ["source-1.dest"], "aggregates": ["count(1)"]})
    new = app_plan(query_plan(other, stores={**OLD, PARTITIONS: "9"}))
    [item] = [i for i in compare(old, new, "s1").items if i.thing == "stage"]
    assert (item.verdict, item.rules) == ("refused", ("stage.keys",))


def test_a_plan_alone_says_what_its_offset_log_will_record(tmp_path: Path) -> None:
    """So that a new version whose session is given nothing (in a CI, for instance) keeps the stores."""
    file = tmp_path / "plan.json"
    file.write_bytes(to_json(app_plan(query_plan(stores=OLD), query_plan(name="older"))))
    assert PlanFile.read(str(file)).recorded == {"windows": OLD}


def test_a_new_stage_that_needs_rocksdb_is_refused_without() -> None:
    families = StateSchema(name="n", key={"encoder": {}, "row": {}, "user_key": ""}, value={})
    added = stage_plan("more", 1, kind="transform-with-state", schemas=(families,))
    for provider, verdict in ((DEFAULT_STORE, "refused"), (ROCKSDB, "empty")):
        new = app_plan(query_plan(stage_plan(), added, stores={**OLD, PROVIDER: provider}))
        items = {i.name: i for i in compare(app_plan(query_plan(stores=OLD)), new, "s1").items}
        assert items["windows/more"].verdict == verdict
    # the query's state moves to RocksDB in the same update
    assert items["windows/daily"].verdict == "migrated"


def test_an_offset_entry_gets_the_new_settings_and_keeps_the_rest() -> None:
    metadata = {"batchWatermarkMs": 7, "batchTimestampMs": 8, "conf": {**OLD, "other": "x"}}
    for version, lines in (("v1", '{"a":1}\n-'), ("v2", 'one:{"a":1}')):
        entry = f"{version}\n{json.dumps(metadata)}\n{lines}"
        assert record_stores(entry, {}) == record_stores(entry, OLD) == entry
        changed = record_stores(entry, {PROVIDER: ROCKSDB, PARTITIONS: "9"})
        first, second, rest = changed.split("\n", 2)
        assert (first, rest) == (version, lines)
        assert json.loads(second) == {**metadata, "conf": {PROVIDER: ROCKSDB, PARTITIONS: "9", "other": "x"}}


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({PROVIDER: "com.example.Store"}, "store.provider-refused"),
        ({PARTITIONS: "0"}, "store.partitions-refused"),
        ({PARTITIONS: "many"}, "store.partitions-refused"),
    ],
)
def test_settings_that_are_not_understood_are_refused(changed: dict[str, str], rule: str) -> None:
    old, new = (app_plan(query_plan(stores=stores)) for stores in (OLD, {**OLD, **changed}))
    for before, after in ((old, new), (new, old)):
        [item] = [i for i in compare(before, after, "s1").items if i.thing == "stage"]
        assert (item.verdict, item.rules) == ("refused", (rule,))


@pytest.mark.parametrize(
    ("keys", "single"),
    [
        ([], True),
        (["s.k"], False),
        (["session_window(s.t, gap '5 minutes', #a)"], True),
        (["session_window(s.t, gap '5 minutes', #a)", "s.k"], False),
        (["⟨session_window(s.t, gap '5 minutes', #a) ∪ session_window(r.t, gap '5 minutes', #a)⟩"], True),
        (["⟨session_window(s.t, gap '5 minutes', #a) ∪ session_window(r.t, gap '5 minutes', #a)⟩", "s.k"], False),
        (["session_window(s.t, gap '5 minutes', #a).start"], False),
    ],
)
def test_sessions_without_another_key_are_in_one_partition(keys: list[str], single: bool) -> None:
    assert single_partition(stage_plan("s", kind="session-window", definition={"keys": keys})) == single
