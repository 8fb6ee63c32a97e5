"""What the options of a source say: where its rows come from, where a new query starts, and what is known to change no
row. An option that is not listed here counts as changing rows: an option that was not reviewed is not harmless.

Names are in lower case, as plans have them (Spark compares options without their case: CaseInsensitiveMap).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from ....plan.plan import TIME_ZONE, SourcePlan


@attrs.frozen(kw_only=True)
class SourceFormat:
    """The facts known about one format.

    names: short names and simple class names, in lower case
    place: options that say where the rows come from; another one is another source
    start: options that only a new query looks at
    harmless: options that change no row, only how many come at a time, by which way, or how they would be written
    defaults: what an option is when it is not given, so that giving it is no change
    positional: whether columns are given to the schema by their position, so that another name there is another name
        for the same data
    any_case: whether columns are found in the data whatever their case, where the session says so (caseSensitive)
    """

    names: tuple[str, ...]
    place: tuple[str, ...] = ("path",)
    start: tuple[str, ...] = ()
    harmless: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = attrs.field(factory=dict)
    positional: bool = False
    any_case: bool = False


# FileStreamOptions of Spark 4.3: how many files make a batch, and which listing is kept in memory between batches. The
# others say which files are read and when (maxFileAge, latestFirst, fileNameOnly), or remove what a rollback would read
# (cleanSource, sourceArchiveDir), and count.
_FILE_PACE = frozenset({"maxfilespertrigger", "maxbytespertrigger", "maxcachedfiles", "discardcachedinputratio"})
_FILE_DEFAULTS = {
    "latestfirst": "false",
    "filenameonly": "false",
    "maxfileage": "7d",
    "cleansource": "off",
    "recursivefilelookup": "false",
}
_TEXT_DEFAULTS = {"mode": "permissive", "multiline": "false", "locale": "en-US"}
# Harmless besides: options that a reader with a given schema does not look at, because they are for inferring a schema
# (which the check compares as it is) or for writing (scope "write" in Spark's pages of the data sources).
CSV = SourceFormat(
    names=("csv",),
    positional=True,
    harmless=_FILE_PACE
    | {"inferschema", "samplingratio", "compression", "quoteall", "escapequotes", "extension", "inputbuffersize"},
    defaults={**_FILE_DEFAULTS, **_TEXT_DEFAULTS, "header": "false", "sep": ",", "quote": '"', "escape": "\\",
              "encoding": "utf-8", "enforceschema": "true", "ignoreleadingwhitespace": "false",
              "ignoretrailingwhitespace": "false", "nullvalue": "", "emptyvalue": "", "nanvalue": "NaN",
              "positiveinf": "Inf", "negativeinf": "-Inf", "maxcolumns": "20480", "maxcharspercolumn": "-1",
              "unescapedquotehandling": "STOP_AT_DELIMITER"},
)  # fmt: skip
JSON = SourceFormat(
    names=("json",),
    harmless=_FILE_PACE
    | {"samplingratio", "prefersdecimal", "primitivesasstring", "dropfieldifallnull", "infertimestamp", "compression",
       "ignorenullfields", "pretty", "sortkeys", "writenonasciicharacterascodepoint"},
    defaults={**_FILE_DEFAULTS, **_TEXT_DEFAULTS, "allowbackslashescapinganycharacter": "false",
              "allowcomments": "false", "allownonnumericnumbers": "true", "allownumericleadingzeros": "false",
              "allowsinglequotes": "true", "allowunquotedcontrolchars": "false", "allowunquotedfieldnames": "false"},
)  # fmt: skip
XML = SourceFormat(
    names=("xml",),
    harmless=_FILE_PACE
    | {"samplingratio", "preferdate", "prefersdecimal", "compression", "declaration", "indent", "arrayelementname",
       "validatename", "roottag"},
    defaults={**_FILE_DEFAULTS, "mode": "permissive", "locale": "en-US"},
)  # fmt: skip
TEXT = SourceFormat(
    names=("text",),
    positional=True,
    harmless=_FILE_PACE | {"compression"},
    defaults={**_FILE_DEFAULTS, "wholetext": "false"},
)
PARQUET = SourceFormat(
    names=("parquet",),
    harmless=_FILE_PACE | {"compression", "parquet.compression"},
    defaults=_FILE_DEFAULTS,
    any_case=True,
)
ORC = SourceFormat(
    names=("orc",),
    harmless=_FILE_PACE | {"compression", "orc.compress"},
    defaults=_FILE_DEFAULTS,
    any_case=True,
)
AVRO = SourceFormat(
    names=("avro",),
    harmless=_FILE_PACE | {"compression", "recordname", "recordnamespace"},
    defaults=_FILE_DEFAULTS,
)  # fmt: skip
BINARY = SourceFormat(names=("binaryfile", "binary"), harmless=_FILE_PACE, defaults=_FILE_DEFAULTS)

# Kafka integration guide, and the consumer's settings of Kafka: what is left out, isolation.level, interceptor.classes,
# exclude.internal.topics, allow.auto.create.topics and includeHeaders among them, may change rows.
_CONSUMER = frozenset(
    {"kafka.auto.commit.interval.ms", "kafka.check.crcs", "kafka.client.dns.lookup", "kafka.client.id",
     "kafka.client.rack", "kafka.connections.max.idle.ms", "kafka.default.api.timeout.ms", "kafka.fetch.max.bytes",
     "kafka.fetch.max.wait.ms", "kafka.fetch.min.bytes", "kafka.group.id", "kafka.heartbeat.interval.ms",
     "kafka.max.partition.fetch.bytes", "kafka.max.poll.interval.ms", "kafka.max.poll.records",
     "kafka.metadata.max.age.ms", "kafka.receive.buffer.bytes", "kafka.reconnect.backoff.max.ms",
     "kafka.reconnect.backoff.ms", "kafka.request.timeout.ms", "kafka.retry.backoff.max.ms",
     "kafka.retry.backoff.ms", "kafka.security.protocol", "kafka.send.buffer.bytes", "kafka.session.timeout.ms",
     "kafka.socket.connection.setup.timeout.max.ms", "kafka.socket.connection.setup.timeout.ms"}
)  # fmt: skip
_CREDENTIALS = ("kafka.sasl.", "kafka.ssl.")  # how to be let in, not what is read
CLUSTER = "kafka.bootstrap.servers"
KAFKA = SourceFormat(
    names=("kafka",),
    place=("subscribe", "subscribepattern", "assign"),
    start=("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy"),
    harmless=_CONSUMER
    | {"maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "minpartitions", "maxrecordsperpartition",
       "fetchoffset.numretries", "fetchoffset.retryintervalms", "kafkaconsumer.polltimeoutms", "groupidprefix"},
    defaults={"includeheaders": "false", "failondataloss": "true"},
)  # fmt: skip
# TextSocketSourceProvider; RateStreamProvider: an offset is a number of seconds, and rowsPerSecond and rampUpTime say
# which values are in them; RatePerMicroBatchStream: an offset is the last value and its time.
SOCKET = SourceFormat(
    names=("socket", "textsocket"),
    place=("host", "port"),
    harmless=frozenset({"numpartitions"}),
    defaults={"includetimestamp": "false"},
    positional=True,
)
RATE = SourceFormat(
    names=("rate", "ratestreamprovider"),
    place=(),
    harmless=frozenset({"numpartitions"}),
    defaults={"rowspersecond": "1", "rampuptime": "0s"},
)
RATE_BATCH = SourceFormat(
    names=("rate-micro-batch", "ratepermicrobatchprovider"),
    place=(),
    start=("starttimestamp",),
    harmless=frozenset({"numpartitions", "rowsperbatch"}),
    defaults={"advancemillisperbatch": "1000"},
)
# The streaming guides of Delta Lake, Apache Iceberg and Apache Hudi. What skips or adds rows (ignoreChanges,
# skipChangeCommits, readChangeFeed, streaming-skip-...) counts.
DELTA = SourceFormat(
    names=("delta", "deltadatasource"),
    start=("startingversion", "startingtimestamp"),
    harmless=frozenset({"maxfilespertrigger", "maxbytespertrigger"}),
    defaults={
        "ignoredeletes": "false",
        "ignorechanges": "false",
        "skipchangecommits": "false",
        "failondataloss": "true",
    },
)
ICEBERG = SourceFormat(
    names=("iceberg", "icebergsource"),
    start=("stream-from-timestamp",),
    harmless=frozenset({"streaming-max-files-per-micro-batch", "streaming-max-rows-per-micro-batch", "split-size",
                        "lookback", "file-open-cost", "vectorization-enabled", "batch-size"}),
)  # fmt: skip
HUDI = SourceFormat(names=("hudi",), start=("hoodie.datasource.streaming.startoffset",))

_OF_FILES = (JSON, CSV, TEXT, PARQUET, ORC, AVRO, XML, BINARY)
# Spark's own formats that list files: their log knows each file by its path (FileStreamSource).
FILES = tuple(known.names[0] for known in _OF_FILES)
FORMATS = {
    name: known for known in (*_OF_FILES, KAFKA, SOCKET, RATE, RATE_BATCH, DELTA, ICEBERG, HUDI) for name in known.names
}
# Of a format that is not known (a connector, a Python data source) these options name a place wherever they were seen.
_ANYWHERE = (
    "path", "table", "dbtable", "query", "url", "host", "port", "topic", "topics", "subscribe", "subscribepattern",
    "assign", "stream", "streamname", "queue", "subscription", "database", "collection", "keyspace", "bucket", "index",
)  # fmt: skip
UNKNOWN_FORMAT = SourceFormat(names=(), place=_ANYWHERE, positional=True)
# DataSourceOptions.newOption(a, b): the second name is looked at where the first is not given.
ALIASES = {"delimiter": "sep", "charset": "encoding", "codec": "compression"}


def short_format(name: str) -> str:
    """``json`` for Spark's own class names, too."""
    short = name.rsplit(".", 1)[-1].lower().removesuffix("fileformat").removesuffix("sourceprovider")
    return FORMATS[short].names[0] if short in FORMATS else short


def format_of(source: SourcePlan) -> SourceFormat:
    return FORMATS.get(short_format(source.format), UNKNOWN_FORMAT)


def known_format(source: SourcePlan) -> bool:
    return short_format(source.format) in FORMATS


# Options whose default the session says, and the setting that does.
CORRUPT, ZONE = "columnnameofcorruptrecord", "timezone"
OF_THE_SESSION = {
    CORRUPT: "spark.sql.columnNameOfCorruptRecord",
    ZONE: TIME_ZONE,
    "ignorecorruptfiles": "spark.sql.files.ignoreCorruptFiles",
    "ignoremissingfiles": "spark.sql.files.ignoreMissingFiles",
}
# This one may be Hadoop's, too (OrcFileFormat asks SessionState.newHadoopConfWithOptions).
ORC_BY_POSITION = "orc.force.positional.evolution"
CORRUPT_RECORD = "_corrupt_record"
# Formats whose reader tries each value by the type of its column.
TRIED = ("csv", "json", "xml")


def effective(source: SourcePlan, option: str, default: str) -> str:
    """An option's value: the source's, else the session's, else Spark's default."""
    return source.options.get(option, source.session.get(option, default))


def corrupt_column(source: SourcePlan) -> str:
    """The column for malformed records, where the schema has one of this name."""
    return effective(source, CORRUPT, CORRUPT_RECORD)


def strict(source: SourcePlan) -> bool:
    """Whether a malformed record is dropped or fails."""
    return "mode" in meaning(source)


def choosy(source: SourcePlan) -> bool:
    """Whether the rows depend on which columns are read: Spark parses no others (column pruning), so those alone decide
    whether a record is malformed, and therefore dropped or reported in a column."""
    return short_format(source.format) in TRIED and (strict(source) or corrupt_column(source) in source.columns)


def positional(source: SourcePlan) -> bool:
    """Whether another order of names in its schema changes the meaning of its columns."""
    if short_format(source.format) == "avro":
        return source.options.get("positionalfieldmatching", "false").lower() == "true"
    if short_format(source.format) == "orc":
        return effective(source, ORC_BY_POSITION, "false").lower() == "true"
    return format_of(source).positional


def place(source: SourcePlan) -> dict[str, str]:
    """The options that say where the rows come from, in one form for all that mean the same. The folder of a file
    source is the plan's `location`, which the planner made absolute."""
    known = format_of(source)
    found = {name: _canonical(name, source.options[name]) for name in known.place if name in source.options}
    if source.location and known not in (KAFKA, SOCKET):  # else it is made of the options
        found["path"] = folder(source.location) if known in (*_OF_FILES, DELTA, HUDI) else source.location
    return found


def same_place(old: SourcePlan, new: SourcePlan) -> bool:
    """Return whether both read the same place."""
    return place(old) == place(new)


def reads_the_same(old: SourcePlan, new: SourcePlan) -> bool:
    """Whether both read the same place in the same format. Without a place (rate) the options must be the same."""
    if short_format(old.format) != short_format(new.format) or old.native != new.native or not same_place(old, new):
        return False
    return bool(place(new)) or meaning(old) == meaning(new)


def meaning(source: SourcePlan) -> dict[str, str]:
    """The options that decide what the rows are, besides place and start: all that are not known to be harmless, except
    those that have their default."""
    known = format_of(source)
    left_out = {*known.place, *known.start, *known.harmless, CLUSTER}
    found = {}
    for name, value in source.options.items():
        option = ALIASES.get(name, name) if known in _OF_FILES else name
        if option != name and option in source.options:
            continue
        harmless = option in left_out or (known is KAFKA and option.startswith(_CREDENTIALS))
        default = source.session.get(option, known.defaults.get(option))
        if not harmless and (default is None or form(option, value) != form(option, default)):
            found[option] = form(option, value)
    if known in _OF_FILES and found.get("latestfirst") == "true" and _PACED & source.options.keys():
        # FileStreamSource.maxFileAgeMs: the oldest files wait for their turn then, however old they get.
        found["maxfileage"] = "none, because latestFirst is given with a limit for each trigger"
    return found


# Options whose value is a text of the data, or a name: every letter and every space of it counts.
_LITERAL = frozenset(
    {"sep", "quote", "escape", "comment", "chartoescapequoteescaping", "linesep", "nullvalue", "emptyvalue", "nanvalue",
     "positiveinf", "negativeinf", CORRUPT, ZONE}
)  # fmt: skip
# Values that Spark reads without their case.
_WORDS = ("true", "false", "permissive", "dropmalformed", "failfast", "off", "delete", "archive", "utf-8", "en-us",
          "stop_at_delimiter")  # fmt: skip


def form(option: str, value: str) -> str:
    """An option's value, normalised: values that mean the same become equal."""
    if option in _LITERAL:
        return value
    word = value.strip().lower()
    return word if word in _WORDS else value


_PACED = {"maxfilespertrigger", "maxbytespertrigger"}


def start(source: SourcePlan) -> dict[str, str]:
    """The options that only a new query looks at."""
    return {name: value for name, value in source.options.items() if name in format_of(source).start}


def servers(source: SourcePlan) -> list[str]:
    """Kafka's bootstrap servers, whose order does not count."""
    return sorted(s.strip() for s in source.options.get(CLUSTER, "").split(",") if s.strip())


def _canonical(name: str, value: str) -> str:
    """An option's value in one form: topics in any order (KafkaSourceProvider.strategy)."""
    if name == "subscribe":
        return ",".join(sorted({t.strip() for t in value.split(",") if t.strip()}))
    return value.strip()


def folder(path: str) -> str:
    """A path as Hadoop's Path writes it: no slashes twice or at the end, ``file:/in`` for ``file:///in``."""
    found = _PATH.fullmatch(path.strip())
    assert found is not None  # it takes any text
    below = re.sub("/+", "/", found["path"])
    return f"{found['scheme'] or ''}{found['authority'] or ''}{below.rstrip('/') or below}"


_PATH = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:)?(?://(?=/)|(?P<authority>//[^/]+))?(?P<path>.*)", re.DOTALL)
