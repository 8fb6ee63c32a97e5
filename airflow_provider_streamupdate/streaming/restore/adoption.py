"""The check whether a checkpoint belongs to these queries: it is compared with the plan of the code that is said to
have written it, by operator id, and then by Spark itself, on a clone of the checkpoint's metadata. Nothing is written
to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyspark
from pyspark.sql.streaming import DataStreamWriter

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.checkpoint.named_files import read_operator
from ...core.checkpoint.offset_log import OffsetEntry
from ...core.checkpoint.snapshot import QuerySnapshot
from ...core.compatibility.report import CompatibilityReport
from ...core.compatibility.rules.sinks import kind_of
from ...core.compatibility.rules.sources.source_options import FILES, short_format
from ...core.compatibility.verdict import CARRIED, REFUSED, ReportItem
from ...core.errors import CorruptError, StreamUpdateError, describe
from ...core.names import check_path
from ...core.plan.plan import RESTORABLE_KINDS, AppPlan, QueryPlan, SourcePlan, StagePlan, StateSchema
from ...core.plan.spark_types import form, row_ddl
from ...core.snapshots.restore import NO_OFFSET
from ...core.storage import Folder
from .. import spark_internals
from ..planning.planner import operator_schemas, schema_files
from ..planning.schema_file import evolved

_PROTOCOL = re.compile(r"^[A-Za-z][\w+.-]*:(//[^/]*)?")
_UNDESCRIBED = (
    "the checkpoint does not describe its operators, as Spark 3.5 and older leave it. 1. Stop the query, and keep a "
    f"copy of its checkpoint. 2. Start the same code on the same checkpoint with Spark {pyspark.__version__}, until "
    "it has committed a batch: Spark then describes them. 3. Stop it, and adopt again"
)
_WRONG_FILE = "give the file (and parameters) of the code that wrote the checkpoint"


def check_adoptable(
    plan: AppPlan, writers: Mapping[str, DataStreamWriter], checkpoints: Mapping[str, Folder], scratch: Path
) -> CompatibilityReport:
    """Return the report on every source, stage and sink. `plan` was made under the checkpoints' recorded
    configuration."""
    items: list[ReportItem] = []
    for query in plan.queries:
        items += _query(query, Checkpoint(checkpoints[query.name]), writers[query.name], scratch / query.name)
    where = ", ".join(folder.path() for folder in checkpoints.values())
    return CompatibilityReport(app=plan.app, source=f"checkpoint {where}", items=tuple(items))


def _query(query: QueryPlan, checkpoint: Checkpoint, writer: DataStreamWriter, clone: Path) -> Iterator[ReportItem]:
    found: list[ReportItem] = []

    def item(thing: str, name: str, problem: str | None, carried: str) -> None:
        verdict, reason = (REFUSED, problem) if problem else (CARRIED, carried)
        found.append(ReportItem(thing=thing, name=f"{query.name}/{name}", verdict=verdict, reason=reason))

    batch = checkpoint.committed_batch()
    assert batch is not None  # the caller looked
    entry = checkpoint.offsets(batch)
    lines = _lines(query, entry)
    for source in query.sources:
        problem = lines if isinstance(lines, str) else _source_problem(source, query, lines, checkpoint)
        item("source", source.name, problem, f"offsets continue after batch {batch}")
    item("sink", query.sink.format, _sink_problem(query, batch), "the query id and the batch ids continue")
    exported: QuerySnapshot | None = None
    if not isinstance(lines, str):
        try:
            listed = checkpoint.export(carry_in_flight=True, source_order=query.source_order)
            _clone(checkpoint.folder, listed, clone)
            exported = listed
        except CorruptError as error:
            yield ReportItem(thing="query", name=query.name, verdict=REFUSED, reason=str(error))
    if exported is not None:
        operators = _operators(clone, batch)
        if query.stages and checkpoint.operator_ids() and not operators:
            yield from (i for i in found if i.blocks)
            yield ReportItem(thing="query", name=query.name, verdict=REFUSED, reason=_UNDESCRIBED)
            return
        for stage in query.stages:
            problem = _stage_problem(stage, operators.get(stage.operator_id), clone / "state" / str(stage.operator_id))
            item("stage", stage.name, problem, f"operator {stage.operator_id} ({stage.operator}), the same state")
        for number in sorted(set(checkpoint.operator_ids()) - {s.operator_id for s in query.stages}):
            name = operators[number]["operatorInfo"]["operatorName"] if number in operators else "unknown"
            item("stage", f"operator-{number}", f"the plan has no such operator ({name}); {_WRONG_FILE}", "")
    yield from found
    if exported is None or any(i.blocks for i in found):
        return
    if problem := _spark_problem(query, writer, clone, exported):
        yield ReportItem(thing="query", name=query.name, verdict=REFUSED, reason=f"Spark refuses it: {problem}")


def _lines(query: QueryPlan, entry: OffsetEntry) -> dict[str, str] | str:
    """The offset of each source; a text (the problem) when the offset log does not belong to these sources."""
    if entry.names:
        if set(entry.names) != {s.name for s in query.sources if s.native}:
            return f"the offset log holds the sources {', '.join(entry.names)}; {_WRONG_FILE}"
        return dict(zip(entry.names, entry.sources, strict=True))
    if any(s.native for s in query.sources):
        return (
            "the offset log is ordered by position, but the plan's sources are named with Spark's .name(); "
            f"{_WRONG_FILE}"
        )
    if len(entry.sources) != len(query.source_order):
        return (
            f"the offset log has {len(entry.sources)} sources per entry, but the plan reads "
            f"{len(query.source_order)}; {_WRONG_FILE}"
        )
    return dict(zip(query.source_order, entry.sources, strict=True))


def _source_problem(
    source: SourcePlan, query: QueryPlan, lines: Mapping[str, str], checkpoint: Checkpoint
) -> str | None:
    """Why an offset cannot belong to such a source, as far as its form shows; None when it can."""
    offset = lines[source.name]
    if offset in (NO_OFFSET, ""):
        return None
    parsed = _parsed(offset)
    kind = short_format(source.format)
    of_files = isinstance(parsed, dict) and set(parsed) == {"logOffset"}
    if of_files != (kind in FILES):
        return f"its offset {offset} is not that of a {kind} source; {_WRONG_FILE}"
    if kind == "kafka" and "subscribe" in source.options and isinstance(parsed, dict):
        topics = {topic.strip() for topic in source.options["subscribe"].split(",")}
        if strange := sorted(set(parsed) - topics):
            topic = ", ".join(strange)
            return f"its offset is of topic {topic}, but the plan's source reads {source.location}; {_WRONG_FILE}"
    folder = _PROTOCOL.sub("", source.location or "").rstrip("/")
    if of_files and folder.startswith("/") and not source.native and not set(folder) & set("*?[{"):
        number = list(dict.fromkeys(query.source_order)).index(source.name)
        for read in checkpoint.source_file_log(number):
            if not f"{unquote(_PROTOCOL.sub('', read['path']))}/".startswith(f"{folder}/"):
                return f"it has read {read['path']}, but the plan's source reads {source.location}; {_WRONG_FILE}"
    return None


def _sink_problem(query: QueryPlan, batch: int) -> str | None:
    """A file sink's log must hold the last committed batch: it cannot begin in the middle."""
    path = query.sink.options.get("path")
    if not kind_of(query.sink.format).has_log or not path:
        return None
    log = Folder.open(path).sub("_spark_metadata")
    if log.exists(str(batch)) or log.exists(f"{batch}.compact"):
        return None
    return (
        f"the file sink's log in {path} does not hold batch {batch}, so the checkpoint's query wrote elsewhere; "
        f"{_WRONG_FILE}"
    )


def _clone(source: Folder, exported: QuerySnapshot, clone: Path) -> None:
    """Clone the checkpoint's metadata, without state, which is not read here."""
    target = Folder.scratch(clone)
    paths = {file.path for file in exported.files if not file.path.startswith("state/")}
    for operator in source.names("state"):
        top = f"state/{operator}"
        stores = (f"{top}/0/{name}" for name in source.names(f"{top}/0"))  # schemas lie in the first partition
        described = (top, f"{top}/0", *stores)
        paths |= {f"{d}/_metadata/{file}" for d in described for file in source.files(f"{d}/_metadata")}
        paths |= {f"{top}/_stateSchema/{file}" for file in source.files(f"{top}/_stateSchema")}
    known: set[str] = set()
    for path in paths:
        source.check_regular(check_path(path, source.path()), known)
        target.copy_from(source, path, path)
    (clone / "offsets" / str(exported.batch + 1)).touch()  # the dry run of a batch wants it to be in the log


def _operators(clone: Path, batch: int) -> dict[int, dict[str, Any]]:
    """Spark's metadata of each operator that has some, as of `batch`. Its absolute paths (of state schemas, in version
    2) are made to lead into the clone, so that a checkpoint that was moved can be adopted as well."""
    found = {}
    for folder in (clone / "state").glob("[0-9]*"):
        numbered = [p for p in folder.glob("_metadata/v2/[0-9]*") if p.name.isdigit() and int(p.name) <= batch + 1]
        path = max(numbered, key=lambda p: int(p.name), default=folder / "_metadata/metadata")
        if not path.exists():
            continue
        where = f"the checkpoint's {path.relative_to(clone)}"
        version, operator = read_operator(path.read_bytes(), where)
        for store in operator["stateStoreInfo"]:
            if paths := store.get("stateSchemaFilePaths"):
                inner = folder / "_stateSchema" / store["storeName"]
                store["stateSchemaFilePaths"] = [f"file:{inner / Path(path).name}" for path in paths]
        path.unlink()  # it is linked to the checkpoint's own
        path.write_text(f"{version}\n{json.dumps(operator)}")
        found[int(folder.name)] = operator
    return found


def _stage_problem(stage: StagePlan, operator: dict[str, Any] | None, folder: Path) -> str | None:
    if stage.kind not in RESTORABLE_KINDS:
        return f"the stateful operator {stage.kind} is not supported"
    if operator is None:
        return f"the checkpoint holds no description of operator {stage.operator_id} ({stage.operator}): {_WRONG_FILE}"
    name = operator["operatorInfo"]["operatorName"]
    if name != stage.operator:
        return (
            f"operator {stage.operator_id} is {name} in the checkpoint, but {stage.operator} in the plan; {_WRONG_FILE}"
        )
    stores = tuple(store["storeName"] for store in operator["stateStoreInfo"])
    if stores != stage.stores:
        return (
            f"the checkpoint's stores are {', '.join(stores)}, but the plan's are {', '.join(stage.stores)}; "
            f"{_WRONG_FILE}"
        )
    try:
        saved = operator_schemas(folder, operator)
        changed = any(evolved(path.read_bytes(), str(path)) for _, path in schema_files(folder, operator))
    except (OSError, CorruptError) as error:
        return f"its state schema cannot be read: {error}"
    if changed:
        return (
            "its state is in Avro, and its schema has changed since the checkpoint began: rows refer to the schema "
            "with which they were written, and a restore does not keep old schemas. It cannot be adopted"
        )
    if _comparable(saved) != _comparable(stage.schemas):
        return f"the checkpoint's state is {_shown(saved)}, but the plan's is {_shown(stage.schemas)}; {_WRONG_FILE}"
    return None


def _comparable(schemas: tuple[StateSchema, ...]) -> dict[str, Any]:
    """Names and types by column family; without nullability, which Spark's own check looks at."""
    return {schema.name: form([schema.key, schema.value], names=True) for schema in schemas}


def _shown(schemas: tuple[StateSchema, ...]) -> str:
    def row(key: Any) -> str:
        return row_ddl(key["row"] if isinstance(key, dict) and "row" in key else key)

    return "; ".join(f"{row(s.key)} -> {row_ddl(s.value)}" for s in schemas)


def _spark_problem(query: QueryPlan, writer: DataStreamWriter, clone: Path, exported: QuerySnapshot) -> str | None:
    try:
        spark_internals.dry_run(
            spark_internals.writer_frame(writer),
            query.output_mode,
            f"file://{clone}",
            batch=exported.batch + 1,
            conf=exported.conf,
        )
    except StreamUpdateError:
        raise
    except Exception as error:
        return describe(error)
    return None


def _parsed(offset: str) -> Any:
    try:
        return json.loads(offset)
    except ValueError:
        return offset
