"""Is a deployment well? Pure functions from its status and a baseline to a verdict."""

from __future__ import annotations

import attrs

from ..state import clock
from ..state.deployment import FINAL_STATES, RUNNING, QueryStatus, Status
from ..state.snapshot import QuerySnapshot, Snapshot

# A stage that was carried holds at least this part of the rows it had: windows close while others open, but a state
# that did not arrive shows as (almost) nothing.
ROWS_KEPT = 0.1
LAG_GROWTH = 1.5  # lag may be this many times what it was, plus one batch's worth of rows


@attrs.frozen(kw_only=True)
class Health:
    """healthy: all is well. failed: it can never become so. reasons: what is not well yet."""

    healthy: bool
    failed: bool
    reasons: tuple[str, ...]
    status: Status | None


def assess(
    deployment: str,
    state: str,
    status: Status | None,
    baseline: Snapshot | None = None,
    batches: int = 2,
    run_for: float = 0.0,
) -> Health:
    """Healthy: the driver runs, every query has committed `batches` batches since its start (or waits for data, with
    nothing new to read), the lag of the sources it had and its state rows are back to where they were in the baseline,
    and `run_for` seconds have passed since its first commit (of an idle query: since the driver's start)."""
    if state in FINAL_STATES:
        why = (status.error or status.reason) if status else None
        reason = f"deployment {deployment} is {state}" + (f": {why}" if why else "")
        return Health(healthy=False, failed=True, reasons=(reason,), status=status)
    if state != RUNNING or status is None:
        return Health(healthy=False, failed=False, reasons=(f"deployment {deployment} is {state}",), status=status)
    reasons = [
        reason
        for name, query in sorted(status.queries.items())
        for reason in _query(name, query, baseline.queries.get(name) if baseline else None, batches)
    ]
    since = [q.first_commit_at or status.started_at for q in status.queries.values()]
    if since and not reasons and clock.age(max(since, key=clock.parse)) < run_for:
        reasons.append(f"it must run for {run_for:g} s")
    if not status.queries:
        reasons.append("no query has reported yet")
    return Health(healthy=not reasons, failed=False, reasons=tuple(reasons), status=status)


def _query(name: str, query: QueryStatus, before: QuerySnapshot | None, batches: int) -> list[str]:
    reasons = []
    if not query.active:
        reasons.append(f"query {name} has stopped")
    done = 0 if query.first_batch is None else query.batch - query.first_batch + 1
    if done < batches and not query.idle:
        reasons.append(f"query {name} has committed {done} of {batches} batches since its start")
    if before is None:
        return reasons
    lag, was = _lags(query, before)
    if lag is not None and was is not None:
        allowed = was * LAG_GROWTH + (query.input_rows_per_second or 0) * (query.batch_seconds or 0)
        if lag > allowed:
            reasons.append(f"query {name} is {lag:.0f} rows behind; it was {was:.0f}")
    for stage, rows in sorted(before.state_rows.items()):
        now = query.state_rows.get(stage)
        if now is not None and now < rows * ROWS_KEPT:
            reasons.append(f"stage {name}/{stage} holds {now} rows; it held {rows}")
    return reasons


def _lags(query: QueryStatus, before: QuerySnapshot) -> tuple[float | None, float | None]:
    """Rows behind, now and then, in the sources that were there then: a new one may have years to read."""
    if not (query.source_lag and before.source_lag):
        return query.lag, before.lag  # of an older package
    both = query.source_lag.keys() & before.source_lag.keys()
    return sum(query.source_lag[s] for s in both), sum(before.source_lag[s] for s in both)
