"""What the driver of a pipeline reports."""

from __future__ import annotations

import attrs

from ..compatibility.report import CompatibilityReport
from ..snapshots.plan_answer import PlanError
from .record import PipelineRecord


@attrs.frozen(kw_only=True)
class PipelineAnswer:
    """record: as it was left; None: nothing was recorded
    report: on the flows that have a checkpoint; None: none has
    new: flows that had no checkpoint; carried: flows that got a new version of theirs
    went_back: whether the checkpoints of before are in use again, because the run failed before it used the new ones
    error: what is wrong with the pipeline, or why its run failed
    """

    record: PipelineRecord | None = None
    report: CompatibilityReport | None = None
    new: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    went_back: bool = False
    error: PlanError | None = None
