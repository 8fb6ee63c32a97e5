"""Which checkpoints must stay."""

from __future__ import annotations

import attrs

from airflow_provider_streamupdate.core.registry import hot_standby
from airflow_provider_streamupdate.core.registry.update import PROMOTED, UpdateRecord
from airflow_provider_streamupdate.core.snapshots.superseded import needed, version_before
from tests.core.builders import spec


def record(old: str, new: str) -> UpdateRecord:
    return UpdateRecord(
        app="flights", old=old, new=new, digest="", strategy="standby", outcome=PROMOTED,
        started_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def test_a_rollback_s_checkpoint_stays_however_many_hot_standbys_took_over() -> None:
    """Found from outside: gc freed it after two or three takeovers."""
    specs = [spec("v0"), attrs.evolve(spec("v1"), parent="v0")]
    for leader, standby in (("v1", "v1-standby-1"), ("v1-standby-1", "v1-standby-2"), ("v1-standby-2", "v1-standby-3")):
        specs.append(attrs.evolve(spec(standby), parent=leader, owner=hot_standby.owner(leader)))
        kept = needed(standby, specs, [record("v0", "v1")])
        assert set(kept) == {"v0", leader, standby} and "rollback" in kept["v0"]
        assert version_before(standby, specs, [record("v0", "v1")]) == "v0"
    assert version_before("v0", specs, []) is None and version_before("v9", specs, []) is None
    assert version_before("v1", specs, []) == "v0"
