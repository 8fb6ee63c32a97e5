"""The number of rows that the stages of a query hold, and that have left since the driver's start."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ...core.difference.figures import BatchFigures
from ...core.plan.plan import StagePlan
from ...core.plan.state_stores import single_partition
from ..spark_internals import ExecutedBatch, OperatorReport

Reported = Sequence[ExecutedBatch]


@attrs.frozen(kw_only=True)
class StateRows:
    """batch: the last one that was counted, since `start`; rows: of each stage, None before the first report
    exact: whether each stage ran once in that batch, as a whole, so that each row was counted once
    removed: of each stage; None where it is not known, since a report is missing or was not exact
    """

    start: int
    batch: int
    rows: tuple[int, ...] | None = None
    exact: bool = False
    removed: tuple[int, ...] | None = ()

    @classmethod
    def since(cls, batch: int) -> StateRows:
        return cls(start=batch, batch=batch)

    def after(self, reported: Reported, plans: Sequence[StagePlan]) -> StateRows:
        """Return the counts after later batches, given their reports, oldest first, and the plans of the stages."""
        now = self
        for report in reported:
            batch, stages, exact = report.batch, report.stages, counted_once(report, plans)
            removed: tuple[int, ...] | None = None
            if exact and now.removed is not None and batch == now.batch + 1:
                before = now.removed or (0,) * len(stages)
                removed = tuple(n + stage.removed for n, stage in zip(before, stages, strict=True))
            ran = any(stage.stores for stage in stages) or not stages  # else the sink did not ask for the batch
            rows = tuple(stage.rows for stage in stages) if ran else now.rows
            now = StateRows(start=self.start, batch=batch, rows=rows, exact=exact, removed=removed)
        return now


def counted_once(report: ExecutedBatch, plans: Sequence[StagePlan]) -> bool:
    """Whether each stage ran once in the batch, as a whole."""
    return len(report.stages) == len(plans) and all(map(_once, report.stages, plans))


def figures(report: ExecutedBatch, plans: Sequence[StagePlan]) -> BatchFigures:
    """A batch as it is compared with another version's."""
    rows = {plan.name: stage.rows for plan, stage in zip(plans, report.stages, strict=False)}
    return BatchFigures(
        batch=report.batch,
        rows_in=report.rows_in,
        rows_out=report.rows_out,
        state_rows=rows if counted_once(report, plans) else None,
        seconds=report.seconds,
    )


def _once(stage: OperatorReport, plan: StagePlan) -> bool:
    # Spark reports the query's partitions, also of a stage that it gathers in one.
    partitions = 1 if single_partition(plan) else stage.partitions
    return stage.stores == partitions * len(plan.stores)
