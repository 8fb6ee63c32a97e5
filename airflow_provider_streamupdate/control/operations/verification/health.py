"""Decide whether a deployment is healthy: pure functions of its status and a baseline snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import attrs

from ....core import clock
from ....core.checkpoint.snapshot import QuerySnapshot, Snapshot
from ....core.registry.deployment import FINAL_STATES, FINISHED, RUNNING, DriverState, QueryStatus, Status

# Where it is not known how many rows have left a stage, it must hold at least this part of those it had: windows close
# while others open, but a state that was not carried over shows as (almost) no rows.
ROWS_KEPT = 0.1
LAG_GROWTH = 1.5  # lag may be this many times what it was, plus one batch's worth of rows


@attrs.frozen(kw_only=True)
class Health:
    """The health of a deployment.

    healthy: all conditions are met. failed: it can never become healthy. reasons: the conditions that are not met yet.
    holds: the conditions that are met, and what could not be compared.
    """

    healthy: bool
    failed: bool
    reasons: tuple[str, ...]
    status: Status | None
    holds: tuple[str, ...] = ()

    def lines(self, app: str) -> str:
        """Return what holds of a healthy app, one condition per line."""
        return "\n  ".join((f"{app} is healthy", *self.holds))


@attrs.frozen
class Condition:
    """One condition of health, and its text."""

    holds: bool
    text: str


def assess(
    deployment: str,
    state: DriverState,
    status: Status | None,
    baseline: Snapshot | None = None,
    batches: int = 2,
    run_for: float = 0.0,
    uncounted: Collection[str] = (),
) -> Health:
    """Return the health of a deployment.

    Healthy means: the driver runs; every query has committed `batches` batches since its start (or waits for data, with
    nothing new to read); state rows, and lag of the sources it had, are back to where they were in the baseline; and
    `run_for` seconds have passed since the first commit (of an idle query: since it found nothing to read). One
    whose queries have all ended by themselves (trigger availableNow) is held to its lag and state rows alone.

    uncounted: stages (``query/stage``) whose rows are not compared: the update changed them, or they are not counted
    """
    if state in FINAL_STATES and state != FINISHED:
        why = (status.error or status.reason) if status else None
        reason = f"deployment {deployment} is {state}" + (f": {why}" if why else "")
        return Health(healthy=False, failed=True, reasons=(reason,), status=status)
    if state not in (RUNNING, FINISHED) or status is None:
        return Health(healthy=False, failed=False, reasons=(f"deployment {deployment} is {state}",), status=status)
    if not status.queries:
        return Health(healthy=False, failed=False, reasons=("no query has reported yet",), status=status)
    conditions = list[Condition]()
    for name, query in sorted(status.queries.items()):
        before = baseline.queries.get(name) if baseline else None
        planned = baseline.plan.query(name) if baseline else None
        stateless = planned is not None and not planned.stages
        if state == FINISHED:
            done = f"query {name} has committed {_batches_done(query)} batches since its start, and has ended by itself"
            conditions.append(Condition(True, done))
        else:
            conditions += _runs(name, query, batches)
        conditions += _as_before(name, query, before, uncounted, stateless)
    reasons = [c.text for c in conditions if not c.holds]
    holds = [c.text for c in conditions if c.holds]
    if run_for and not reasons and state != FINISHED:
        if clock.age(status.runs_since) < run_for:
            reasons.append(f"it must run for {run_for:g} s")
        else:
            holds.append(f"it has run for {run_for:g} s")
    return Health(healthy=not reasons, failed=False, reasons=tuple(reasons), status=status, holds=tuple(holds))


def _runs(name: str, query: QueryStatus, batches: int) -> Iterator[Condition]:
    if not query.active:
        yield Condition(False, f"query {name} has stopped")
    done = _batches_done(query)
    if done >= batches:
        yield Condition(True, f"query {name} has committed {done} batches since its start (at least {batches})")
    elif query.idle:
        yield Condition(True, f"query {name} is idle: it has committed {done} batches, and there is no more input")
    else:
        yield Condition(False, f"query {name} has committed {done} of {batches} batches since its start")


def _batches_done(query: QueryStatus) -> int:
    return 0 if query.first_batch is None else query.batch - query.first_batch + 1


def _as_before(
    name: str, query: QueryStatus, before: QuerySnapshot | None, uncounted: Collection[str], stateless: bool
) -> Iterator[Condition]:
    if before is None:
        return
    # A source that is new since the snapshot may have years of input to read, so it is not compared.
    if both := query.source_lag.keys() & before.source_lag.keys():
        lag, was = (sum(lags[source] for source in both) for lags in (query.source_lag, before.source_lag))
        allowed = was * LAG_GROWTH + (query.input_rows_per_second or 0) * (query.batch_seconds or 0)
        yield Condition(lag <= allowed, f"query {name} is {lag:.0f} rows behind; it was {was:.0f}")
    if stateless:
        return
    if not before.state_rows:
        yield Condition(True, f"the state of query {name} was not compared: the snapshot has no counts of its rows")
        return
    if not query.state_rows:
        # An idle one may have run no batch, or one whose rows its sink did not ask for.
        silent = (
            _batches_done(query) > 0
            and not query.idle
            and not all(f"{name}/{s}" in uncounted for s in before.state_rows)
        )
        told = f"query {name} has not reported what its stages hold"
        yield Condition(not silent, told if silent else f"the state of query {name} was not compared: {told}")
        return
    exact = before.rows_batch == before.batch == query.removed_since and query.rows_batch is not None
    for stage, rows in sorted(before.state_rows.items()):
        if stage in query.state_rows:
            counted = f"{name}/{stage}" not in uncounted
            yield _rows(f"stage {name}/{stage}", stage, query, rows, exact, counted)
        else:
            yield Condition(True, f"stage {name}/{stage} was not compared: the new version has none of this name")


def _rows(what: str, stage: str, query: QueryStatus, rows: int, exact: bool, counted: bool) -> Condition:
    """Compare a stage's rows with those it had.

    exact: `rows` are those of the batch from which the query counts the rows that have left, each once. Then the rows
        present plus those that have left are at least `rows`. (Measured for every kind of stage but state functions:
        tests/spark/test_state_rows.py.)
    """
    now = query.state_rows[stage]
    if not counted:
        return Condition(True, f"{what} holds {now} rows, which are not compared with the {rows} it held")
    left = (query.removed_rows or {}).get(stage)
    if exact and left is not None:
        return Condition(now + left >= rows, f"{what} holds {now} rows; it held {rows}, of which {left} have left")
    return Condition(now >= rows * ROWS_KEPT, f"{what} holds {now} rows; it held about {rows}")
