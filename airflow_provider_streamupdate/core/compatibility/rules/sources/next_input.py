"""The rules for what a table answers when it is asked for the rows that come next. Two plans do not tell that: rows are
deleted, tables replaced and columns changed while no version of the app is."""

from __future__ import annotations

import attrs

from ....plan.plan import SourcePlan
from ...verdict import CARRIED, REFUSED
from ..rule import Facts, Rule
from .source_options import DELTA, format_of, short_format

# Formats whose source can be asked without an effect on a query that runs. Hudi's was not tried.
ASKED = ("delta", "iceberg")
# Delta's source writes down each schema that it comes to, and ends there (DeltaSourceMetadataEvolutionSupport).
TRACKING = ("schematrackinglocation", "schemalocation")

MISSING_FILE = "a data file of rows that were not read yet is gone"


@attrs.frozen(kw_only=True)
class NextInput:
    """The answer of a source's table.

    problem: why it does not give the rows that come next, in the table's own words, on one line; None: it gives them
    """

    source: SourcePlan
    problem: str | None = None

    @property
    def facts(self) -> Facts:
        return {"problem": self.problem, "format": short_format(self.source.format), "place": self.source.location}


def askable(source: SourcePlan) -> bool:
    """Whether the source can be asked for its next rows with nothing written."""
    return short_format(source.format) in ASKED and not tracks_schemas(source)


def tracks_schemas(source: SourcePlan) -> bool:
    return format_of(source) is DELTA and any(option in source.options for option in TRACKING)


INPUT_RULES: tuple[Rule[NextInput], ...] = (
    Rule[NextInput](
        id="input.refused",
        verdict=REFUSED,
        change="a table that does not give the rows that come after the saved batch: it was replaced or rolled back; "
        "its log was cleaned, its snapshots expired or its files vacuumed; its columns changed; rows were deleted or "
        "updated, which the source is not told to pass over; or it cannot be read",
        reason="{format} does not give the next rows of {place}: {problem}. Restore them, pass over deletes and "
        "updates, or rename the source to start anew",
        source="the source is asked as Spark asks it at a start (MicroBatchExecution.populateStartOffsets, "
        "constructNextBatch); measured with Delta 4.4 and Iceberg 1.12",
        tests=(
            "core/test_next_input.py::test_answers_of_tables",
            "ground/table_source.py::test_what_became_of_a_table_is_found_before_anything_stops",
        ),
        applies=lambda c: None if c.problem is None else c.facts,
    ),
    Rule[NextInput](
        id="input.tracked",
        verdict=CARRIED,
        change="a Delta table with schemaTrackingLocation, which is not asked",
        reason="whether {place} still has the rows that come next was not asked: with schemaTrackingLocation its "
        "source writes to its log of schemas, which the running version uses",
        source="DeltaSourceMetadataEvolutionSupport",
        tests=("core/test_next_input.py::test_a_table_with_a_log_of_schemas_is_not_asked",),
        applies=lambda c: c.facts if tracks_schemas(c.source) else None,
    ),
)
