"""Plans: the parts of an app version's queries on which their saved state depends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import attrs

from ..names import named, parts

# Kinds of stages whose state can be carried. Anything else is planned, but refused on restore.
RESTORABLE_KINDS = (
    "aggregate",
    "session-window",
    "deduplicate",
    "deduplicate-within-watermark",
    "join",
    "apply-in-pandas-with-state",
    "transform-with-state",
    "limit",
)

# Marks in the texts of a definition for what the planner could not compare.
EXPIRY = "expiry"  # in `QueryPlan.watermarks`: how long a deduplication within a watermark keeps a key
UNKNOWN = "?"  # a column that could not be traced to its source
LATE = "after the watermark: "  # in `StagePlan.paths`: it drops rows that have moved the watermark
FROM, PASSED = "from ", "after "  # in `StagePlan.paths`: a source, and a stage that the rows pass, each with a dot
PYTHON = "python:"  # a Python function: its name is known, its code is not

# What is the author's own within such a text: a name in backticks, which may have any other sign in it, or a text as
# Python's repr() has it. A quote that is not closed goes on to the end: so the time is linear in the text's length.
_QUOTED = re.compile(r"`(?:``|[^`])*(?:(`)|\Z)|'(?:\\.?|[^'\\])*(?:(')|\Z)|\"(?:\\.?|[^\"\\])*(?:(\")|\Z)")


def quoted_parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a definition's text, each with whether it is quoted. What follows a quote that is not closed
    is not."""
    end = 0
    for found in _QUOTED.finditer(text):
        if found.lastindex:
            yield text[end : found.start()], False
            yield found[0], True
            end = found.end()
    yield text[end:], False


def without_quoted(text: str) -> str:
    """Return a definition's text with nothing between its quotes."""
    return "".join("''" if quoted else part for part, quoted in quoted_parts(text))


def unknown(text: str) -> bool:
    """Whether a text of a definition has a part that could not be traced or read, anywhere in it: ``max(?x)``."""
    return re.search(rf"(^|[ (,]){re.escape(UNKNOWN)}", without_quoted(text)) is not None


def untold(text: str) -> bool:
    """Whether a text has a function whose code is unknown."""
    return PYTHON in without_quoted(text)


# The version of what a plan's expressions tell. It is counted up when they come to tell more, or something else:
# expressions of two versions cannot be compared.
TEXTS = 1

REDACTED = "(redacted)"  # in place of an option's value that may be a secret
TIME_ZONE = "spark.sql.session.timeZone"
# What a plan has beside a session's settings, by names of the same form (streaming/planning/settings/surroundings.py).
PYTHON_ZONE, JVM_LOCALE = "python.timezone", "jvm.locale"
PYTHON_IMPORTS = "python.imports"
JVM_ZONE, PARALLELISM = "jvm.timezone", "default.parallelism"


@attrs.frozen(kw_only=True)
class StateSchema:
    """One column family of a state store: its key and value rows as Spark's JSON types."""

    name: str
    key: Any
    value: Any


@attrs.frozen(kw_only=True)
class AggregateBuffer:
    """What one aggregate keeps in the state row: `columns` fields in a row, and the SQL of the values they start with
    (none when unknown). `function` is Spark's class, for example ``Sum``.

    operand: the type of its only operand; empty when it has another number of them
    unscaled: of a decimal operand it keeps a plain number, without the scale (DecimalAggregates)
    """

    function: str
    columns: int
    initial: tuple[str, ...] = ()
    operand: str = ""
    unscaled: bool = False


@attrs.frozen(kw_only=True)
class WindowKey:
    """A grouping key that is a time window: its place among the keys, the column it is made of, and its size, slide
    and offset in microseconds (tumbling when size and slide are equal)."""

    position: int
    column: str
    size: int
    slide: int
    start: int

    @property
    def tumbling(self) -> bool:
        return self.size == self.slide


@attrs.frozen(kw_only=True)
class StagePlan:
    """A stateful operator.

    name: the author's name, or a positional one (``aggregate-1``) when `named` is false
    kind: one of RESTORABLE_KINDS, or Spark's own word for what is not understood
    operator: Spark's operator name (``stateStoreSave``, ``dedupe`` ...); operator_id: its position
    definition: what the state means, traced to source columns: part -> text or list of texts, for example
        ``{"keys": ["source-1.origin"], "aggregates": ["count(1)"], "watermark": [...]}``
    schemas: the column families of its stores
    stores: store names under a partition (``default``)
    types: the type of each source column (or field of one) that the definition reads, by its name there:
        ``{"source-1.user.id": "bigint"}`` (none: not known)
    below: a digest of what the rows below it pass (filters, joins, other stages), to tell unnamed stages apart
    filters: what rows have to meet to reach it from the sources or stages below (none: not known)
    hidden: those of them that are not written below it: the optimizer put them there, from above the stage or out of a
        join's condition (none: not known)
    arrivals: what makes other rows, or more or fewer of them, on their way to it: lookups in tables, `explode`, joins
        of streams ...; and which of its columns have a watermark. Sorted, each as often as it is there (none: not
        known)
    paths: the ways on which rows come to it, each its source, the stages passed, and since the last of these the
        filters and what makes other rows, sorted; what comes after a watermark is marked (none: not known)
    late_rows: which rows behind the watermark it drops: ``by source-1.at``; for a join ``of its left side by ...``;
        for an aggregation ``by its keys`` (None: not known)
    buffers: for an aggregation, what each of its aggregates keeps, in the order of the state row
    arguments: for an aggregation, what each of its aggregates is computed from, in that order: two with equal arguments
        receive the same values
    results: for an aggregation, the name of the first column that is computed from each of its aggregates
    windows: for an aggregation, its keys that are time windows
    migrates: the states (`migration.describe`) the app has a migration function for
    """

    name: str
    named: bool
    kind: str
    operator: str
    operator_id: int
    definition: dict[str, Any] = attrs.field(factory=dict)
    types: dict[str, str] | None = None
    schemas: tuple[StateSchema, ...] = ()
    stores: tuple[str, ...] = attrs.field(default=("default",), validator=parts)
    below: str = ""
    filters: tuple[str, ...] | None = None
    hidden: tuple[str, ...] | None = None
    arrivals: tuple[str, ...] | None = None
    paths: tuple[tuple[str, ...], ...] | None = None
    late_rows: tuple[str, ...] | None = None
    buffers: tuple[AggregateBuffer, ...] = ()
    arguments: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    windows: tuple[WindowKey, ...] = ()
    migrates: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class SourcePlan:
    """A source.

    name: given with `source()` or Spark's own `.name()`; else ``source-<n>`` by its position
    native: whether Spark has the name, too (`.name()`): its offset log and folders then go by name
    format: the class or short name; options: without secrets, names in lower case
    location: the path of files, whole (scheme, working folder), topics, host and port, or a table's name
    columns: type by name; order: the names in the schema's order
    code: of a Python data source, a digest of its code, or UNKNOWN
    session: what the session says of options whose default it has (rules/sources/source_options.py), where that counts
    read: where the columns that are read decide which records do not fit: those of each reading (else none)
    """

    name: str = attrs.field(validator=named("source"))
    named: bool
    format: str
    location: str | None = None
    native: bool = False
    columns: dict[str, Any] = attrs.field(factory=dict)
    options: dict[str, str] = attrs.field(factory=dict)
    order: tuple[str, ...] = ()
    code: str | None = None
    session: dict[str, str] = attrs.field(factory=dict)
    read: tuple[tuple[str, ...], ...] = ()


# What a foreachBatch function does with a batch id that it has had: it writes nothing; it replaces what it wrote for
# the id; it writes its rows once more; it replaces rows that have the same key, whichever batch wrote them.
SKIPS, REPLACES, ADDS, UPSERTS = "skips", "replaces", "adds", "upserts"
SEEN_BATCH = (SKIPS, REPLACES, ADDS, UPSERTS)
UNUSED = "unused"  # it does not look at the id (streaming/planning/batch_id.py)


@attrs.frozen(kw_only=True)
class SinkPlan:
    """A sink. A query has one, so it goes by the query's name.

    format: as given to the writer (``foreachBatch`` for a function)
    options: without secrets
    location: of a file sink: the whole URI of its folder (else None)
    partitioned_by: the columns given to ``partitionBy``
    columns: of a file sink: the name and the type of each, in order (else None)
    seen_batch: of a function: what it does with a batch id that it has had (SEEN_BATCH), or UNUSED; None: not known
    """

    format: str
    options: dict[str, str] = attrs.field(factory=dict)
    location: str | None = None
    partitioned_by: tuple[str, ...] = ()
    columns: tuple[tuple[str, Any], ...] | None = None
    seen_batch: str | None = None

    @property
    def path(self) -> str | None:
        """The option of this name, as it was written."""
        return next((value for key, value in self.options.items() if key.lower() == "path"), None)

    @property
    def place(self) -> str | None:
        """Where it writes; None: a function, or a sink that names no place."""
        return self.location or self.path


@attrs.frozen(kw_only=True)
class QueryPlan:
    """One query; stages in the order of Spark's operator ids (0 is nearest the sink).

    source_order: the source's name for each line of an offset log entry. A DataFrame used twice is one source but two
        lines (MicroBatchExecution.sources; measured: a restart with another number of lines fails).
    conf: the settings that change results (settings/settings_table.py), as the session has them, with Spark's defaults;
        those that its Spark has; and what the machine says (PYTHON_ZONE ...)
    unaffected: those of them that provably change nothing here (streaming/planning/settings/unaffected.py)
    given: all other settings of SQL and of file formats that the session was given and that are not Spark's default
    hadoop: what Spark was told of Hadoop's settings (`spark.hadoop.`), without those that are known to be harmless
    stores: the settings of its state stores (stores.py), as its offset log has or will have them: what the session was
        given, else what is recorded already, else Spark's default
    written: file and line of its function, for messages
    filters, paths: as a stage has them, of the rows that come to the sink. They are shown and not compared: the sink
        keeps no state (none: a plan of an earlier version of this package)
    """

    name: str = attrs.field(validator=named("query"))
    output_mode: str
    sink: SinkPlan
    sources: tuple[SourcePlan, ...]
    stages: tuple[StagePlan, ...]
    source_order: tuple[str, ...] = ()
    watermarks: tuple[str, ...] = ()
    conf: dict[str, str] = attrs.field(factory=dict)
    unaffected: tuple[str, ...] = ()
    given: dict[str, str] = attrs.field(factory=dict)
    hadoop: dict[str, str] = attrs.field(factory=dict)
    stores: dict[str, str] = attrs.field(factory=dict)
    written: str = ""
    filters: tuple[str, ...] | None = None
    paths: tuple[tuple[str, ...], ...] | None = None

    def stage(self, name: str) -> StagePlan | None:
        return next((s for s in self.stages if s.name == name), None)


@attrs.frozen(kw_only=True)
class AppPlan:
    """The plan of an app version. reloadable: the parameters that may change in flight; version: of its texts
    (TEXTS)."""

    app: str
    spark_version: str
    queries: tuple[QueryPlan, ...]
    warnings: tuple[str, ...] = ()
    reloadable: tuple[str, ...] = ()
    version: int = TEXTS

    def query(self, name: str) -> QueryPlan | None:
        return next((q for q in self.queries if q.name == name), None)
