"""Two versions of an app side by side: which may run so, and when the new one has caught up with the old one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import attrs

from ..checkpoint.checkpoint import Checkpoint
from ..compatibility.rules.sinks import kind_of, same_sink
from ..compatibility.rules.sources.source_options import short_format
from ..errors import RefusedError
from ..plan.plan import AppPlan, QueryPlan, SinkPlan, SourcePlan
from ..snapshots.rehearsal import READABLE

# Sources whose offsets are numbers that only grow: KafkaSourceOffset, LongOffset, RatePerMicroBatchStreamOffset.
_GROWING = ("kafka", "rate", "rate-micro-batch")


@attrs.frozen(kw_only=True)
class Position:
    """The input that a query has read from a source, where two queries can be compared in it."""

    files: frozenset[str] | None = None  # None: not a file source
    numbers: dict[str, int] | None = (
        None  # offsets that only grow, by partition; None: its offsets are not such numbers
    )

    def reached(self, other: Position) -> bool:
        """Return whether everything that `other` has read was read here, too; False when that is unknown."""
        if self.files is not None and other.files is not None:
            return other.files <= self.files
        if self.numbers is not None and other.numbers is not None:
            mine = self.numbers
            return all(name in mine and mine[name] >= number for name, number in other.numbers.items())
        return False


_NOTHING = Position(files=frozenset(), numbers={})
Positions = Mapping[tuple[str, str], Position]  # by query and source


def check_side_by_side(
    old: AppPlan, new: AppPlan, old_inputs: Mapping[str, str], new_inputs: Mapping[str, str]
) -> None:
    """Raise RefusedError when the two cannot run side by side: both compute the results since the snapshot, so each
    needs its own place for them, and neither may take input away from the other."""
    same_inputs = dict(old_inputs) == dict(new_inputs)
    problems = [*_sinks(old, new, same_inputs), *_sources(old, new)]
    if problems:
        raise RefusedError(
            f"the new version of {new.app} cannot run beside the running one: {'; '.join(problems)}. Nothing was "
            "started; correct this, or use strategy standby or restart"
        )


def positions(checkpoint: Checkpoint, query: QueryPlan) -> dict[str, Position]:
    """Return what a query has read up to its last committed batch, by source."""
    names = query.source_order or tuple(source.name for source in query.sources)
    batch = checkpoint.committed_batch()
    if batch is None:
        return dict.fromkeys(names, _NOTHING)
    entry = checkpoint.offsets(batch)
    order = entry.names or names
    if len(order) != len(entry.sources):
        return dict.fromkeys(names, Position())
    # A source has a line for each of its uses, and its folder is called after its name or its number.
    lines = {name: entry.sources[order.index(name)] for name in order}
    formats = {source.name: short_format(source.format) for source in query.sources}
    return {
        name: _position(checkpoint, name if entry.names else str(number), line, formats.get(name, ""))
        for number, (name, line) in enumerate(lines.items())
    }


def behind(old: Positions, new: Positions) -> list[tuple[str, str]]:
    """Sources (query, source) of which the old version has read more than the new one, or may have. Sources that only
    one of them reads do not count."""
    return sorted(key for key, position in old.items() if key in new and not new[key].reached(position))


def _position(checkpoint: Checkpoint, folder: str, offset: str, kind: str) -> Position:
    if offset.strip() in ("", "-"):
        return _NOTHING
    parsed = json.loads(offset)
    if isinstance(parsed, dict) and set(parsed) == {"logOffset"}:
        log = checkpoint.source_file_log(folder, int(parsed["logOffset"]))
        return Position(files=frozenset(entry["path"] for entry in log))
    return Position(numbers=dict(_numbers(parsed))) if kind in _GROWING else Position()


def _numbers(value: object, name: str = "") -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, f"{name}/{key}")
    elif isinstance(value, int):
        yield name, value


_ELSEWHERE = "pass another place as a parameter (--set, app_params), or as an argument of a script"


def _sinks(old: AppPlan, new: AppPlan, same_inputs: bool) -> Iterator[str]:
    for query in new.queries:
        kind, form = kind_of(query.sink.format), short_format(query.sink.format)
        if kind.is_function and same_inputs and any(short_format(q.sink.format) == form for q in old.queries):
            yield (
                f"query {query.name} writes with {query.sink.format} and is told the same as the running version, so "
                f"it would write the results since the snapshot to the same place a second time: {_ELSEWHERE}"
            )
        elif kind.has_place and same_sink(query, old.queries):
            yield (
                f"query {query.name} writes to the same place as the running version ({_shown(query.sink)}), which "
                f"would receive the results since the snapshot twice: {_ELSEWHERE}"
            )


def _sources(old: AppPlan, new: AppPlan) -> Iterator[str]:
    running = [source for query in old.queries for source in query.sources]
    groups = {group for source in running if (group := _group(source))}
    for query in new.queries:
        for source in query.sources:
            name, kind = f"source {query.name}/{source.name}", short_format(source.format)
            if kind not in READABLE:
                yield f"whether {name} (format {source.format}) can be read by two versions is unknown"
            if _cleaned(source):
                yield f"{name} removes the files it has read (cleanSource), which the running version may still need"
            if any(_cleaned(other) and other.location == source.location for other in running):
                yield f"the running version removes the files it has read (cleanSource), which {name} may still need"
            if _group(source) in groups:
                yield (
                    f"{name} has the running version's consumer group (kafka.group.id): each version would receive "
                    "only a part of the rows"
                )


def _cleaned(source: SourcePlan) -> bool:
    return source.options.get("cleansource", "off").lower() != "off"


def _group(source: SourcePlan) -> str | None:
    return source.options.get("kafka.group.id")


def _shown(sink: SinkPlan) -> str:
    return " ".join([sink.format, *(f"{key}={value}" for key, value in sorted(sink.options.items()))])
