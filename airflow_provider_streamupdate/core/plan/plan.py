"""Plans: the parts of an app version's queries on which their saved state depends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from cattrs.strategies import configure_tagged_union

from ..names import named
from ..names import parts as segments
from ..serde import converter
from .expressions import Call, Column, Expression, Python, Window
from .visitors import column_types

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

UNKNOWN = "?"  # of code that cannot be compared, and before the name of a source that could not be told

# The version of what a plan's expressions tell. It is counted up when they come to tell more, or something else:
# expressions of two versions cannot be compared.
TEXTS = 1

TIME_ZONE = "spark.sql.session.timeZone"
# The machine's settings in a plan, by names like those of a session's (streaming/planning/settings/query_settings.py).
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
    """The buffer of one aggregate in the state row: `columns` fields in a row, and the SQL of the values they start
    with (none when unknown). `function` is Spark's class, for example ``Sum``.

    operand: the type of its only operand; empty when it has another number of them
    unscaled: of a decimal operand it keeps a plain number, without the scale (DecimalAggregates)
    """

    function: str
    columns: int
    initial: tuple[str, ...] = ()
    operand: str = ""
    unscaled: bool = False


Expressions = tuple[Expression, ...]


def in_order(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return things whose order does not count in the order of their texts."""
    return tuple(sorted(values, key=str))


@attrs.frozen(kw_only=True)
class NotUnderstood:
    """The definition of a stage of a kind that is not understood."""


@attrs.frozen(kw_only=True)
class Aggregation:
    """An aggregation or session window: its grouping keys, and its aggregates in the order of the state row."""

    keys: Expressions = ()
    aggregates: Expressions = ()


@attrs.frozen(kw_only=True)
class Deduplication:
    """A deduplication, within a watermark or not, by these keys."""

    keys: Expressions = ()


@attrs.frozen(kw_only=True)
class Join:
    """A stream-stream join. keys: the equalities, in the order of the state's key columns; condition: the others, in
    any order; left_columns, right_columns: what the state holds of each side's rows"""

    join_type: str
    keys: Expressions = ()
    condition: Expressions = attrs.field(default=(), converter=in_order)
    left_columns: Expressions = ()
    right_columns: Expressions = ()


@attrs.frozen(kw_only=True)
class Limit:
    """A limit to a number of rows."""

    rows: Expression


@attrs.frozen(kw_only=True)
class PandasFunction:
    """An applyInPandasWithState. code: the function; input: the columns that it is given, by name; timeout: its kind"""

    keys: Expressions = ()
    code: Python
    input: tuple[Call, ...] = ()
    timeout: str = "?"


@attrs.frozen(kw_only=True)
class StateVariable:
    """A state variable. kind: ``ValueState``, ``ListState`` or ``MapState``; ttl: its values have a time to live"""

    name: str
    kind: str
    ttl: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}" + (" with TTL" if self.ttl else "")


@attrs.frozen(kw_only=True)
class Processor:
    """A transformWithState. time_mode: for timers and times to live; the rest as for a `PandasFunction`"""

    keys: Expressions = ()
    code: Python
    input: tuple[Call, ...] = ()
    time_mode: str = "?"
    initial_state: bool = False
    state_variables: tuple[StateVariable, ...] = ()


Definition = NotUnderstood | Aggregation | Deduplication | Join | Limit | PandasFunction | Processor
configure_tagged_union(Definition, converter, tag_name="is")


def parts(definition: Definition) -> dict[str, Any]:
    """Return the parts of a definition by their names in words, without those that are empty."""
    every = attrs.asdict(definition, recurse=False)
    return {name.replace("_", " "): value for name, value in every.items() if value != ()}


@attrs.frozen
class Step:
    """A filter, or what makes other rows, on the way of rows. late: it comes after a watermark, so that it drops rows
    that have moved the watermark"""

    expression: Expression
    late: bool = False

    def __str__(self) -> str:
        return self.expression.text + (", after the watermark" if self.late else "")


@attrs.frozen
class Path:
    """A way on which rows come to a stage or to the sink.

    stages: the names of the stages that they pass; steps: what they meet since the last of these
    """

    source: str
    stages: tuple[str, ...] = attrs.field(default=(), converter=in_order)
    steps: tuple[Step, ...] = attrs.field(default=(), converter=in_order)

    def __str__(self) -> str:
        return self.describe(str)

    def describe(self, write: Callable[[Expression], str]) -> str:
        """Return the path as text, with its expressions as `write` writes them."""
        steps = (write(step.expression) + (", after the watermark" if step.late else "") for step in self.steps)
        return ", ".join([f"from {self.source}", *(f"after {name}" for name in self.stages), *steps])


@attrs.frozen(kw_only=True)
class Watermark:
    """A watermark, or how long a deduplication within a watermark keeps a key.

    column: the column with the event time (None: of a deduplication)
    above: the stages below it; of a deduplication its name
    branches: on how many branches with different rows it is
    rows: where the branches have several delays, a digest of the rows that have this one
    """

    delay_ms: int
    column: Expression | None = None
    above: tuple[str, ...] = ()
    branches: int = 1
    rows: str = ""

    def __str__(self) -> str:
        return f"{self.place} delayed by {self.delay_ms} ms"

    @property
    def place(self) -> str:
        """The watermark without its delay, as text."""
        return self.describe(str)

    def describe(self, write: Callable[[Expression], str]) -> str:
        """Return the watermark without its delay, with its column as `write` writes it."""
        several = f" in {self.branches} branches" if self.branches > 1 else ""
        which = f" of rows {self.rows}" if self.rows else ""
        above = "".join(f", above {name}" for name in self.above)
        return f"{write(self.column) if self.column else 'expiry'}{several}{which}{above}"


@attrs.frozen(kw_only=True)
class StagePlan:
    """A stateful operator.

    name: the author's name, or a positional one (``aggregate-1``) when `named` is false
    kind: one of RESTORABLE_KINDS, or Spark's own word for what is not understood
    operator: Spark's operator name (``stateStoreSave``, ``dedupe`` ...); operator_id: its position
    definition: what the state means, traced to source columns
    schemas: the column families of its stores
    stores: store names under a partition (``default``)
    below: a digest of what the rows below it pass (filters, joins, other stages), to tell unnamed stages apart
    filters: what rows have to meet to reach it from the sources or stages below
    hidden: those of them that are not written below it: the optimizer put them there, from above the stage or out of a
        join's condition
    arrivals: what makes other rows, or more or fewer of them, on their way to it: lookups in tables, `explode`, joins
        of streams ...; and which of its columns have a watermark. Each as often as it is there
    paths: the ways on which rows come to it
    late_rows: which rows behind the watermark it drops
    never_null: of a join, the columns of its sides that cannot be null: Spark reads no nulls in them
    buffers: for an aggregation, what each of its aggregates keeps, in the order of the state row
    aggregated: for an aggregation, what each of its aggregates is computed from, in that order: two with equal ones
        receive the same values
    results: for an aggregation, the name of the first column that is computed from each of its aggregates
    migrates: the states (`migration.describe`) the app has a migration function for
    """

    name: str
    named: bool
    kind: str
    operator: str
    operator_id: int
    definition: Definition = NotUnderstood()
    schemas: tuple[StateSchema, ...] = ()
    stores: tuple[str, ...] = attrs.field(default=("default",), validator=segments)
    below: str = ""
    filters: Expressions = attrs.field(default=(), converter=in_order)
    hidden: Expressions = attrs.field(default=(), converter=in_order)
    arrivals: Expressions = attrs.field(default=(), converter=in_order)
    paths: tuple[Path, ...] = attrs.field(default=(), converter=in_order)
    late_rows: Expressions = attrs.field(default=(), converter=in_order)
    never_null: Expressions = attrs.field(default=(), converter=in_order)
    buffers: tuple[AggregateBuffer, ...] = ()
    aggregated: tuple[Call, ...] = ()
    results: tuple[str, ...] = ()
    migrates: tuple[str, ...] = ()

    @property
    def keys(self) -> Expressions:
        """The keys of its definition (none: it has no keys)."""
        return getattr(self.definition, "keys", ())

    @property
    def aggregates(self) -> Expressions:
        """The aggregates of its definition (none: it is no aggregation)."""
        return getattr(self.definition, "aggregates", ())

    @property
    def expressions(self) -> dict[str, Expressions]:
        """The expressions of its definition by the part they are in."""
        found: dict[str, Expressions] = {}
        for name, value in parts(self.definition).items():
            values = value if isinstance(value, tuple) else (value,)
            found[name] = tuple(each for each in values if isinstance(each, Expression))
        return found

    @property
    def types(self) -> dict[Column, str]:
        """The type of each source column (or field of one) that the definition reads."""
        return column_types(each for part in self.expressions.values() for each in part)

    @property
    def windows(self) -> tuple[Window, ...]:
        """The keys that are time windows; not sliding ones, and those on several branches."""
        return tuple(key for key in self.keys if isinstance(key, Window))

    def changed(self, change: Callable[[Expression], Expression]) -> StagePlan:
        """Return the stage with each of its expressions changed, except those of its paths."""

        def changed(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(changed, value))
            return change(value) if isinstance(value, Expression) else value

        definition = {name: changed(value) for name, value in attrs.asdict(self.definition, recurse=False).items()}
        fields = ("aggregated", "filters", "hidden", "arrivals", "late_rows", "never_null")
        return attrs.evolve(
            self,
            definition=type(self.definition)(**definition),
            **{name: changed(getattr(self, name)) for name in fields},
        )


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
        """The place where it writes (None: a function, or a sink that names no place)."""
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
    checkpoint: a script's own checkpointLocation, which nothing here writes to; a text, for people
    filters, paths: as a stage has them, of the rows that come to the sink. They are shown and not compared: the sink
        keeps no state (paths is None where they could not be told)
    """

    name: str = attrs.field(validator=named("query"))
    output_mode: str
    sink: SinkPlan
    sources: tuple[SourcePlan, ...]
    stages: tuple[StagePlan, ...]
    source_order: tuple[str, ...] = ()
    watermarks: tuple[Watermark, ...] = attrs.field(default=(), converter=in_order)
    conf: dict[str, str] = attrs.field(factory=dict)
    unaffected: tuple[str, ...] = ()
    given: dict[str, str] = attrs.field(factory=dict)
    hadoop: dict[str, str] = attrs.field(factory=dict)
    stores: dict[str, str] = attrs.field(factory=dict)
    written: str = ""
    checkpoint: str = ""
    filters: Expressions = attrs.field(default=(), converter=in_order)
    paths: tuple[Path, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(in_order))

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
