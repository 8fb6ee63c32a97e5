"""An app in continuous time, with Spark's loop of batches that take what has come, held by the real SLO gate over a
real registry. Times are seconds; the cut-over is at 0."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import attrs

from airflow_provider_streamupdate.control.operations.verification.health import Health
from airflow_provider_streamupdate.control.operations.verification.slo import Gate
from airflow_provider_streamupdate.core.clock import utc_now
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.difference.figures import KEPT, BatchFigures
from airflow_provider_streamupdate.core.history.history import minute_of
from airflow_provider_streamupdate.core.history.span import Span
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus, Status
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.slo.limits import SloLimits
from tests.core.builders import deploy, set_status, status, write_json, write_spans

QUERY, STAGE = "windows", "daily"  # of the builders' plan
POLL = 0.05  # from one look for rows to the next, without a trigger
STEP = 0.05  # in which rows come in
EVERY = 2.0  # from one look of the verification to the next
LEAST_BATCHES, PATIENCE = 2, 600.0


@attrs.frozen(kw_only=True)
class Habit:
    """rate: rows a second that come in at a time; takes: seconds of a batch by its rows; out: rows out by rows in
    gain: rows that the stage gains by rows in (None: there is no stage); trigger: from batch to batch (0: at once)
    told: rows in that Spark tells; cold: the first batch, as a multiple
    """

    rate: Callable[[float], float]
    takes: Callable[[int, random.Random], float]
    out: Callable[[int], int]
    gain: Callable[[int], int] | None = None
    trigger: float = 0.0
    told: Callable[[int, random.Random], int] = lambda rows, _: rows
    cold: float = 4.0


@attrs.frozen
class _Batch:
    begin: float
    end: float
    figures: BatchFigures


class Driver:
    """From `begin` on. backlog: rows that wait for it"""

    def __init__(
        self, habit: Habit, chance: random.Random, begin: float, first: int = 0, backlog: int = 0, held: int = 0
    ) -> None:
        self.habit, self.chance, self.begin, self.first = habit, chance, begin, first
        self.now = self._read_to = begin
        self.backlog, self.held, self._part = backlog, held, 0.0
        self.batches: list[_Batch] = []

    @property
    def next(self) -> int:
        return self.first + len(self.batches)

    def run(self, until: float) -> Driver:
        while self.now < until:
            if trigger := self.habit.trigger:
                due = math.ceil((self.now - self.begin) / trigger - 1e-9) * trigger + self.begin
                if due >= until:
                    break
                self.now = max(self.now, due)
            self._arrive()
            if not self.backlog:
                self.now += self.habit.trigger or POLL
                continue
            self._batch()
        return self

    def _arrive(self) -> None:
        while self._read_to < self.now - 1e-9:
            step = min(STEP, self.now - self._read_to)
            self._part += self.habit.rate(self._read_to) * step
            self._read_to += step
        whole = int(self._part)
        self.backlog, self._part = self.backlog + whole, self._part - whole

    def _batch(self) -> None:
        rows, self.backlog = self.backlog, 0
        cold = max(1.0, self.habit.cold * math.exp(-len(self.batches)))
        seconds = self.habit.takes(rows, self.chance) * cold
        if self.habit.gain:
            self.held += self.habit.gain(rows)
        figures = BatchFigures(
            batch=self.next,
            rows_in=self.habit.told(rows, self.chance),
            rows_out=self.habit.out(rows),
            seconds=seconds,
            state_rows={STAGE: self.held} if self.habit.gain else None,
        )
        self.batches.append(_Batch(self.now, self.now + seconds, figures))
        self.now += max(seconds, 1e-3)

    def status(self, zero: datetime, at: float) -> Status:
        done = [batch for batch in self.batches if batch.end <= at]
        now = self.batches[len(done)] if len(done) < len(self.batches) else None
        query = QueryStatus(
            batch=self.first + len(done) - 1,
            first_batch=self.first if done else None,
            first_commit_at=moment(zero, done[0].end) if done else None,
            last_commit_at=moment(zero, done[-1].end) if done else None,
            figures=tuple(batch.figures for batch in done[-KEPT:]),
            batch_running=max(at - now.begin, 0.0) if now else 0.0,
            idle=now is None or at < now.begin,
        )
        return status(queries={QUERY: query}, heartbeat_at=moment(zero, at), started_at=moment(zero, self.begin))

    def spans(self, zero: datetime) -> list[Span]:
        """Its minutes, as it would write them down."""
        found: dict[int, list[BatchFigures]] = {}
        for batch in self.batches:
            found.setdefault(math.floor(batch.end / 60), []).append(batch.figures)
        return [span_of(moment(zero, minute * 60), part) for minute, part in sorted(found.items())]


def span_of(at: str, batches: Sequence[BatchFigures], **more: float | None) -> Span:
    """The minute of these batches, as their driver would write it down."""
    return Span(
        at=at,
        batches=len(batches),
        timed=len(batches),
        rows_in=sum(b.rows_in or 0 for b in batches),
        rows_out=sum(b.rows_out or 0 for b in batches),
        seconds=sum(b.seconds for b in batches),
        longest=max(b.seconds for b in batches),
        state_rows=dict(batches[-1].state_rows or {}),
        **more,
    )


def moment(zero: datetime, at: float) -> str:
    return (zero + timedelta(seconds=at)).isoformat()


def verified(folder: Path, old: Driver, new: Driver, run_for: float = 10.0) -> tuple[bool, tuple[str, ...]]:
    """Whether the new version is promoted, and what was found: it is looked at as `verify` does, less often."""
    zero, app = minute_of(utc_now()), Registry(str(folder)).app("a")
    deploy(app)
    deploy(app, "v2", 2)
    write_spans(app, *old.spans(zero), query=QUERY)
    set_status(app, "v1", old.status(zero, old.now))
    times = {"plan": moment(zero, -60), "snapshot_and_cancel": moment(zero, 0)}
    app.set_update(UpdateRecord(app="a", old="v1", new="v2", started_at=moment(zero, -60), step_times=times))
    write_json(app, "updates/v2.report.json", CompatibilityReport(app="a", source="deployment v1", items=()))
    gate, at = Gate(registry=app, limits=SloLimits(), run_for=run_for), new.begin
    while at < new.begin + PATIENCE:
        at += EVERY
        state = new.run(at + 30).status(zero, at)
        ready = bool(new.batches) and new.batches[0].end <= at - run_for
        if not ready or state.queries[QUERY].batch - new.first + 1 < LEAST_BATCHES:
            continue
        found = gate.hold("v2", Health(healthy=True, failed=False, reasons=(), status=state))
        if found.failed or found.healthy:
            return found.healthy, found.reasons or found.holds
    return False, ("it took too long",)
