"""A real driver's log: put aside when it is full, with older files that go, and at the level that was asked for."""

from __future__ import annotations

import attrs
import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.registry.driver_settings import LOG_BYTES, LOG_FILES


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_driver_keeps_its_log_short(ground) -> None:
    few = {LOG_BYTES: "20000", LOG_FILES: "2"}
    ground.client.submit(attrs.evolve(ground.application("v1"), env_vars=few), "one", app=ground.app)
    ground.feed()
    folder = ground.root / ground.app / "deployments" / "one"

    def logs() -> dict[str, int]:
        return {p.name: p.stat().st_size for p in folder.glob("driver-*")}

    wait_for(lambda: len(logs()) == 3 or None, "two older files", 200)
    first = (folder / "driver-1.log.2").read_bytes()
    wait_for(lambda: (folder / "driver-1.log.2").read_bytes() != first or None, "the oldest to go", 200)
    assert set(logs()) - {"driver-1.log.new"} == {"driver-1.log", "driver-1.log.1", "driver-1.log.2"}
    assert sum(logs().values()) < 1_000_000
    said = ground.client.driver_log(ground.app, "one", 50).lines
    assert len(said) == 50 and any(" INFO " in line for line in said)
    batch = ground.batch()
    wait_for(lambda: ground.batch() > batch or None, "a batch after that", 60)
    ground.client.cancel(ground.app)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_driver_s_log_has_the_level_that_spark_was_given(ground) -> None:
    quiet = attrs.evolve(ground.application("v1"), conf={"spark.log.level": "WARN"})
    ground.client.submit(quiet, "one", app=ground.app)
    ground.feed()
    ground.wait_for_batches(3)
    said = ground.client.driver_log(ground.app, "one", 100_000).lines
    assert not any(" INFO MicroBatchExecution" in line for line in said)
    ground.client.cancel(ground.app)
