"""A rehearsal: the first batches of a new version on a clone of a snapshot, with nothing written, and the same batches
of the version the snapshot is of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from ..compatibility.report import CompatibilityReport
from ..compatibility.rules.sources.source_options import FILES, short_format
from ..compatibility.verdict import REFUSED, ReportItem
from ..difference.figures import BATCH_COLUMNS, BatchFigures, batch_row
from ..errors import StreamUpdateError
from ..markdown import bullets, table
from ..plan.plan import AppPlan, SourcePlan

BATCHES = "batches"  # why it ended: as many batches as were asked for
INPUT = "input"  # the input that was there at its start is used up
ERROR = "error"

# Sources that reading does nothing to. Files are removed by cleanSource, and a Kafka group of the app's own is shared
# with the running app (FileStreamSource: cleanSource; Kafka integration guide: kafka.group.id). What another source
# does when it is read (acknowledge, delete) is not known.
READABLE = (*FILES, "kafka", "rate", "rate-micro-batch", "delta", "iceberg")


@attrs.frozen(kw_only=True)
class RehearsedQuery:
    """A query's batches in their order; ended: BATCHES, INPUT or ERROR, with the error in words."""

    name: str
    batches: tuple[BatchFigures, ...] = ()
    ended: str = INPUT
    error: str | None = None

    def batch(self, number: int) -> BatchFigures | None:
        return next((b for b in self.batches if b.batch == number), None)

    @property
    def state_rows(self) -> dict[str, int]:
        """State rows by stage, after the last batch."""
        return self.batches[-1].state_rows or {} if self.batches else {}


@attrs.frozen(kw_only=True)
class Rehearsal:
    """The rehearsal of one version, as its driver reports it."""

    snapshot: str  # the one that was cloned
    deployment: str  # of that snapshot
    queries: tuple[RehearsedQuery, ...]
    state_rows: dict[str, dict[str, int]] = attrs.field(factory=dict)  # in the snapshot: query -> stage -> rows

    def query(self, name: str) -> RehearsedQuery | None:
        return next((q for q in self.queries if q.name == name), None)


@attrs.frozen(kw_only=True)
class RehearsalReport:
    """The new version's rehearsal beside the old one's."""

    app: str
    snapshot: str
    newest: bool
    wanted: int
    compatibility: CompatibilityReport
    new: Rehearsal | None = None  # None: it is not compatible
    old: Rehearsal | None = None  # None: it could not be rehearsed
    old_missing: str | None = None  # why `old` is None

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def problems(self) -> list[str]:
        """Everything that went wrong, one line each."""
        failed = (f"query {q.name}: {q.error}" for q in (self.new.queries if self.new else ()) if q.error)
        return [*self.compatibility.problems, *failed]

    @property
    def outcome(self) -> str:
        if not self.compatibility.compatible:
            return self.compatibility.outcome
        if not self.passed:
            return "failed"
        return "went well" if any(q.batches for q in self.queries) else "went well, but there was no input"

    @property
    def queries(self) -> tuple[RehearsedQuery, ...]:
        return self.new.queries if self.new else ()

    def notes(self) -> Iterator[str]:
        """How each query's rehearsal ended, and what is missing."""
        for query in self.queries:
            end = {BATCHES: f"ended after {self.wanted} batches", INPUT: "used up the input", ERROR: "died"}
            yield f"query {query.name} {end[query.ended]}"
        if self.old_missing:
            yield f"no figures of the old version: {self.old_missing}"

    BATCH_COLUMNS = BATCH_COLUMNS
    STATE_COLUMNS = ("stage", "in the snapshot", "after", "old after")

    def batch_rows(self) -> Iterator[tuple[Any, ...]]:
        """A line a batch, in the order of BATCH_COLUMNS."""
        for query in self.queries:
            old = self.old.query(query.name) if self.old else None
            for new in query.batches:
                yield batch_row(query.name, new, old.batch(new.batch) if old else None)

    def stage_rows(self) -> Iterator[tuple[Any, ...]]:
        """A line a stage, in the order of STATE_COLUMNS."""
        for query in self.queries:
            old = self.old.query(query.name) if self.old else None
            saved = self.new.state_rows.get(query.name, {}) if self.new else {}
            left = old.state_rows if old else {}
            for stage, rows in query.state_rows.items():
                yield (f"{query.name}/{stage}", saved.get(stage), rows, left.get(stage))

    def to_markdown(self) -> str:
        head = (
            f"Rehearsal of the new version of **{self.app}** on snapshot {self.snapshot}"
            f"{' (the newest)' if self.newest else ''}: **{self.outcome}**"
        )
        if self.new is None:
            return f"{head}\n\n{self.compatibility.to_markdown()}"
        lines = bullets((*self.problems, *self.notes()))
        batches = table(self.BATCH_COLUMNS, self.batch_rows())
        return "\n".join([head, "", *lines, *batches, *table(self.STATE_COLUMNS, self.stage_rows())])


def check_harmless(plan: AppPlan) -> tuple[ReportItem, ...]:
    """Refusals of sources that a second reader would change."""
    found = ((q.name, s, _effect(s)) for q in plan.queries for s in q.sources)
    return tuple(
        ReportItem(thing="source", name=f"{query}/{source.name}", verdict=REFUSED, reason=f"cannot be rehearsed: {why}")
        for query, source, why in found
        if why
    )


def _effect(source: SourcePlan) -> str | None:
    """How a rehearsal would affect the source, or the app that reads it; None when it is harmless."""
    kind = short_format(source.format)
    if kind not in READABLE:
        return f"whether reading a source of format {source.format} changes it is unknown"
    if kind in FILES and source.options.get("cleansource", "off").lower() != "off":
        return "it removes the files it has read (cleanSource), which the running app may still need"
    if "kafka.group.id" in source.options:
        return "it has the running app's consumer group (kafka.group.id), so it would take away the app's rows"
    return None


class RehearsalError(StreamUpdateError):
    """The new version failed its rehearsal; carries the report."""

    def __init__(self, message: str, report: RehearsalReport) -> None:
        super().__init__(message)
        self.report = report
