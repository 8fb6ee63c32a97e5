"""An update under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_streamupdate.control.update.strategies import strategy_named
from airflow_provider_streamupdate.core.registry.update import PROMOTED, UpdateRecord
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore

from .oracle import Answer, Oracle
from .worker import Worker

if TYPE_CHECKING:
    from .ground import Ground


class Update(Worker):
    """To deployment `new`. A version that runs beside the old one gets a sink of its own.

    versions: that run before, and after it
    """

    def __init__(self, ground: Ground, new: str, strategy: str, params: dict[str, str]) -> None:
        self.ground = ground
        self.old, self.new = ground.current(), new
        self.strategy = strategy_named(strategy)
        self.versions = ground.version(), params["version"]
        self.output = ground.oracle.output
        if self.strategy.runs_beside:
            self.output = ground.folder / f"out-{new}"
            self.output.mkdir()
        file = Path(__file__).parent / "app.py"
        given = json.dumps({**params, "output": str(self.output)})
        words = (str(ground.folder / "root"), ground.spark_submit, str(file), new, strategy, given, str(ground.plans))
        super().__init__(("crashlib.task", *words), ground.environment, ground.folder / f"{new}.log")

    def record(self) -> UpdateRecord | None:
        return self.ground.registry.update(self.new)

    def outcome(self) -> str | None:
        record = self.record()
        return record.outcome if record else None

    def runs(self) -> tuple[str, str]:
        """The deployment and the version that have to run, now that the update has ended."""
        record = self.record()
        if record is None or record.outcome != PROMOTED:
            return self.old, self.versions[0]
        return record.runs, self.versions[1]

    def look_at_other_sink(self) -> Answer:
        """Check the sink of the version that was left, where each has its own, and go on with the other one."""
        if not self.strategy.runs_beside:
            return Answer()
        ground, left = self.ground, None
        store = SnapshotStore(ground.registry)
        if store.exists(name := f"before-{self.new}"):
            first = store.get(name).queries["counts"].batch + 1
            left = Oracle(ground.registry, self.output, ground.oracle.keys, first)
        if self.outcome() == PROMOTED:
            assert left is not None  # it started from the snapshot
            ground.oracle, left = left, ground.oracle
        return left.check(0) if left else Answer()
