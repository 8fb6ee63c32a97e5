"""The rules for what a table answers when it is asked for the rows that come next. Two plans do not tell that: rows are
deleted, tables replaced and columns changed while no version of the app is."""

from __future__ import annotations

import attrs

from ....plan.plan import SourcePlan
from ...report import CARRIED, REFUSED
from ..rule import Facts, Rule
from .source_options import DELTA, format_of, short_format

# Formats whose source can be asked without an effect on a query that runs. Hudi's was not tried.
ASKED = ("delta", "iceberg")
# Delta's source writes down each schema that it comes to, and ends there (DeltaSourceMetadataEvolutionSupport).
TRACKING = ("schematrackinglocation", "schemalocation")

# How answers begin: the condition of Delta's error, or Iceberg's message (SparkMicroBatchStream and its planners).
_REPLACED = (
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    # Iceberg 1.12 goes from the current snapshot to its parents, and looks for the saved one among them (measured).
    'Cannot invoke "java.lang.Long.longValue()" because the return value of "org.apache.iceberg.Snapshot.parentId()"',
)
_EXPIRED = (
    "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
    "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "DELTA_FILE_NOT_FOUND",
    "Cannot load current offset at snapshot",
    "Cannot find snapshot after",
    "Cannot find next snapshot",
)
_SCHEMA = (
    "DELTA_SCHEMA_CHANGED",
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
    "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING",
    "DELTA_STREAMING_CHECK_COLUMN_MAPPING",
    "DELTA_STREAMING_METADATA_EVOLUTION",
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE",
)
_CHANGES = (
    "DELTA_SOURCE_IGNORE_DELETE",
    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    "Cannot process delete snapshot",
    "Cannot process overwrite snapshot",
)
MISSING_FILE = "a data file of rows that were not read yet is gone"


@attrs.frozen(kw_only=True)
class NextInput:
    """The answer of a source's table.

    new: the source is new, so it was asked for its first rows
    problem: why it does not give the rows that come next, in the table's own words, on one line; None: it gives them
    """

    source: SourcePlan
    new: bool = False
    problem: str | None = None


def askable(source: SourcePlan) -> bool:
    """Whether the source can be asked for its next rows with nothing written."""
    return short_format(source.format) in ASKED and not tracks_schemas(source)


def tracks_schemas(source: SourcePlan) -> bool:
    return format_of(source) is DELTA and any(option in source.options for option in TRACKING)


def _facts(c: NextInput) -> Facts:
    return {"problem": c.problem, "format": short_format(c.source.format), "place": c.source.location}


def _begins(c: NextInput, beginnings: tuple[str, ...]) -> bool:
    return c.problem is not None and c.problem.startswith(beginnings)


def _replaced(c: NextInput) -> Facts | None:
    return _facts(c) if _begins(c, _REPLACED) else None


def _expired(c: NextInput) -> Facts | None:
    return _facts(c) if not c.new and _begins(c, (*_EXPIRED, MISSING_FILE)) else None


def _schema(c: NextInput) -> Facts | None:
    return _facts(c) if _begins(c, _SCHEMA) else None


def _changes(c: NextInput) -> Facts | None:
    return _facts(c) if _begins(c, _CHANGES) else None


def _other(c: NextInput) -> Facts | None:
    known = (_replaced, _expired, _schema, _changes)
    return _facts(c) if c.problem is not None and not any(rule(c) for rule in known) else None


def _tracked(c: NextInput) -> Facts | None:
    return _facts(c) if tracks_schemas(c.source) else None


_InputRule = Rule[NextInput]
_GROUND = ("ground/delta_source.py::test_what_became_of_a_table_is_found_before_anything_stops",)
_ANOTHER_NAME = "or give the source another name (and, in Delta, a startingVersion), so that it starts anew"

INPUT_RULES: tuple[Rule[NextInput], ...] = (
    _InputRule(
        id="input.replaced",
        verdict=REFUSED,
        change="a table that was replaced (CREATE OR REPLACE) since the saved batch; in Delta also one that was "
        "dropped and made again, in Iceberg also one that was rolled back",
        reason="{place} does not go on from the saved place any more: it is another table now, or was rolled back "
        "({problem}). Bring the old table back, " + _ANOTHER_NAME,
        source="DeltaSourceOffset: an offset holds the table's id; measured: CREATE OR REPLACE gives a new one, and an "
        "Iceberg table a snapshot without a parent",
        tests=("core/test_next_input.py::test_answers_of_tables", *_GROUND),
        applies=_replaced,
    ),
    _InputRule(
        id="input.expired",
        verdict=REFUSED,
        change="a table that does not have the rows any more that come next: its log was cleaned, its snapshots "
        "expired or its files vacuumed. In Iceberg also a table that was dropped and made again",
        reason="{place} does not have the rows any more that come after the saved place ({problem}), so they would be "
        "missing: restore them, start from a later snapshot of the app, " + _ANOTHER_NAME + "; keep more of the "
        "table's history in future (delta.logRetentionDuration, delta.deletedFileRetentionDuration; "
        "expire_snapshots)",
        source="DeltaSource.getFileChanges (failOnDataLoss); SparkMicroBatchStream: a snapshot that was expired or "
        "removed; VACUUM removes files that later versions do not have, whether or not a stream has read them",
        tests=("core/test_next_input.py::test_answers_of_tables", *_GROUND),
        applies=_expired,
    ),
    _InputRule(
        id="input.schema",
        verdict=REFUSED,
        change="a table whose columns changed since the saved batch in a way that its rows cannot be read in one "
        "schema: a column dropped, renamed or of another type",
        reason="the rows of {place} that come next are of another schema than the table has now ({problem}): let the "
        "running version read up to the change first, undo the change, " + _ANOTHER_NAME + " after it",
        source="DeltaSource.checkReadIncompatibleSchemaChanges; Delta compares the schema of each version that comes "
        "next with the one of the table at the start",
        tests=("core/test_next_input.py::test_answers_of_tables", *_GROUND),
        applies=_schema,
    ),
    _InputRule(
        id="input.changes",
        verdict=REFUSED,
        change="a table whose next rows come with rows that were deleted or updated, which the source is not told to "
        "pass over",
        reason="{place} has deletes or updates among what comes next, which the source refuses ({problem}): the "
        "running version fails there, too. Say in the new version what to do with them (Delta: skipChangeCommits, "
        "ignoreDeletes; Iceberg: streaming-skip-delete-snapshots, streaming-skip-overwrite-snapshots), and agree to "
        "that option",
        source="DeltaSource.validateCommitAndDecideSkipping; Iceberg's BaseSparkMicroBatchPlanner.shouldProcess",
        tests=("core/test_next_input.py::test_answers_of_tables", *_GROUND),
        applies=_changes,
    ),
    _InputRule(
        id="input.other",
        verdict=REFUSED,
        change="a table that cannot be read from the saved place on for any other reason",
        reason="{format} does not give the rows of {place} that come next: {problem}. The new version would fail with "
        "this at its start",
        source="the source is asked as Spark asks it at a start (MicroBatchExecution.populateStartOffsets, "
        "constructNextBatch)",
        tests=("core/test_next_input.py::test_answers_of_tables",),
        applies=_other,
    ),
    _InputRule(
        id="input.tracked",
        verdict=CARRIED,
        change="a Delta table with schemaTrackingLocation, which is not asked",
        reason="whether {place} still has the rows that come next was not asked: with schemaTrackingLocation its "
        "source writes to its log of schemas, which the running version uses",
        source="DeltaSourceMetadataEvolutionSupport",
        tests=("core/test_next_input.py::test_a_table_with_a_log_of_schemas_is_not_asked",),
        applies=_tracked,
    ),
)
