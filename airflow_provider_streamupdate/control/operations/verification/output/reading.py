"""Read the last batches of a query's output, of the version before an update and of the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .....core.errors import StreamUpdateError
from .....core.plan.plan import SinkPlan
from .....core.slo.output import Output, Outputs
from .....core.storage import Folder
from . import delta_log, file_log

READ_BATCHES = 20  # the last ones of each version


class UnreadableOutputError(StreamUpdateError):
    """The output cannot be read from here; the message says why."""


def outputs(sinks: tuple[SinkPlan, SinkPlan], ids: tuple[str, str], first: int, options: Mapping[str, Any]) -> Outputs:
    """What a query wrote. UnreadableOutputError when the sink cannot be read.

    sinks: of the old version and of the new one; ids: of the query in each, as Spark knows it
    first: the first batch of the new version
    options: of the root's storage, which are tried for the sink's, too
    """
    same = place(sinks[0]) == place(sinks[1])
    before = _read(sinks[0], ids[0], options, lambda batch: batch < first or not same)
    return Outputs(before=before, after=_read(sinks[1], ids[1], options, lambda batch: batch >= first))


def place(sink: SinkPlan) -> str:
    """Where the sink writes. UnreadableOutputError when that is no folder that can be read from here."""
    where = sink.location or sink.path
    if sink.format not in (*file_log.COUNTED, delta_log.FORMAT) or where is None:
        raise UnreadableOutputError(f"nulls in a sink of format {sink.format} are not counted")
    return where


def _read(sink: SinkPlan, query_id: str, options: Mapping[str, Any], wanted: Any) -> tuple[Output, ...]:
    try:
        folder = Folder.open(place(sink), dict(options))
        if sink.format == delta_log.FORMAT:
            return delta_log.read(folder, query_id, READ_BATCHES, wanted)
        return file_log.read(folder, sink, READ_BATCHES, wanted)
    except UnreadableOutputError:
        raise
    except Exception as error:  # another storage, other rights, a damaged file: nothing depends on it
        raise UnreadableOutputError(f"the output cannot be read from here: {error or repr(error)}") from error
