"""Metrics of this package, in Airflow's own statistics (StatsD, OpenTelemetry, or none, as Airflow is configured)."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from ..control.update.record import step_seconds
from ..core import clock
from ..core.registry.update import UpdateRecord

log = logging.getLogger(__name__)


def count(name: str, **tags: str) -> None:
    """Count one more of ``streamupdate.<name>``."""
    with _stats() as stats:
        stats.incr(f"streamupdate.{name}", tags=tags)


def count_update(record: UpdateRecord) -> None:
    """Count an update that has just ended, with its pause and the times of its steps (docs/guides/monitoring.md)."""
    tags = {"app": record.app, "strategy": record.strategy}
    count("updates", outcome=str(record.outcome), **tags)
    if record.ended_at is not None:
        took = (clock.parse(record.ended_at) - clock.parse(record.started_at)).total_seconds()
        _time("update.duration", took, outcome=str(record.outcome), **tags)
    if record.pause_seconds is not None:
        _time("update.pause", record.pause_seconds, **tags)
    for step, _, seconds in step_seconds(record):
        _time("update.step", seconds, step=step, **tags)


def _time(name: str, seconds: float, **tags: str) -> None:
    with _stats() as stats:
        stats.timing(f"streamupdate.{name}", timedelta(seconds=max(seconds, 0.0)), tags=tags)  # of two clocks


@contextlib.contextmanager
def _stats() -> Iterator[Any]:
    """Airflow's statistics. Airflow has moved them from release to release; what cannot be counted is logged, and fails
    nothing."""
    try:
        try:
            from airflow.sdk.observability.stats import Stats  # Airflow 3.2 and newer
        except ImportError:
            from airflow.stats import Stats
        yield Stats
    except Exception as error:
        log.warning("Airflow's statistics were not told: %r", error)
