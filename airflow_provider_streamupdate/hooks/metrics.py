"""Metrics of this package, in Airflow's own statistics (StatsD, OpenTelemetry, or none, as Airflow is configured)."""

from __future__ import annotations

import contextlib


def count(name: str, **tags: str) -> None:
    """Count one more of ``streamupdate.<name>``. Airflow has moved its statistics from release to release; where they
    are not found, nothing is counted."""
    with contextlib.suppress(ImportError):
        try:
            from airflow.sdk.observability.stats import Stats  # Airflow 3.2 and newer
        except ImportError:
            from airflow.stats import Stats
        Stats.incr(f"streamupdate.{name}", tags=tags)
