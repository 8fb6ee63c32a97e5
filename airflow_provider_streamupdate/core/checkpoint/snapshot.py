"""Snapshots: named, consistent, immutable exports of a deployment's state at one committed batch a query."""

from __future__ import annotations

import re
import uuid

import attrs

from .. import clock
from ..errors import CorruptError, NewerFormatError
from ..names import inside, named
from ..plan.plan import AppPlan
from ..text_enum import TextEnum

_OF_CHECKPOINT = re.compile(r"metadata|(offsets|commits)/[0-9]+|sources/[^/]+/.+|state/[0-9]+/.+")
_OBJECT = re.compile(r"objects/[^/]+/[^/]+")


@attrs.frozen(kw_only=True)
class SnapshotFile:
    """One file of a query's checkpoint."""

    path: str = attrs.field(validator=inside)  # relative to the query's checkpoint, e.g. ``state/0/1/7.zip``
    size: int
    # where the bytes are, relative to the app's folder (``objects/...``); the path again before it is stored
    object: str = attrs.field(validator=inside)
    sha256: str | None = None  # None only before it is stored


@attrs.frozen(kw_only=True)
class QuerySnapshot:
    """A query's state after `batch` committed (state store version ``batch + 1``)."""

    batch: int  # -1 before the first commit: there are no files, and a restore starts without state
    query_id: str
    files: tuple[SnapshotFile, ...]
    watermark_ms: int = 0
    # A later batch whose offsets are logged but which did not commit. It is carried so that its rerun has the same
    # offsets and batch id (exactly-once sinks depend on it).
    in_flight: int | None = None
    # All tasks of that batch have written their state (version ``batch + 2``). It is carried, too, for a sink that
    # skips the batch (not in state format 2, where Spark does not find it).
    state_ahead: bool = False
    conf: dict[str, str] = attrs.field(factory=dict)  # recorded in the offset log; it wins over the session's
    committed_at: str | None = attrs.field(default=None, validator=clock.is_moment)
    # As last reported, a baseline for verifying:
    state_rows: dict[str, int] = attrs.field(factory=dict)
    rows_batch: int | None = None  # the batch of state_rows; None: they may be counted twice
    source_lag: dict[str, float] = attrs.field(factory=dict)  # rows behind, by source
    state_format: int = 1  # of the checkpoint: 1, or 2 with ids in the state files' names, which the commit log names

    @property
    def made_state_id(self) -> str | None:
        """The id of state files that a restore makes for its stages (None in format v1). One is enough: each store has
        a folder of its own, and Spark never makes the same id twice."""
        if self.state_format == 1:
            return None
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.query_id}/{self.batch}"))

    @property
    def made_state_name(self) -> str:
        """The name of such a file, without its ending."""
        return "_".join(filter(None, (str(self.batch + 1), self.made_state_id)))


class SnapshotKind(TextEnum):
    """The way in which a snapshot was taken."""

    LIVE = "live"  # it went on
    CANCELLED = "cancelled"  # no batch ran after it
    ADOPTED = "adopted"  # it is of checkpoints that this package did not write


@attrs.frozen(kw_only=True)
class Snapshot:
    """A complete snapshot. adopted_from: of checkpoints that were not this package's, their URIs by query."""

    name: str = attrs.field(validator=named("snapshot"))
    app: str = attrs.field(validator=named("app"))
    deployment: str = attrs.field(validator=named("deployment"))
    created_at: str = attrs.field(validator=clock.is_moment)
    kind: SnapshotKind
    plan: AppPlan
    queries: dict[str, QuerySnapshot] = attrs.field(validator=named("query"))
    bytes_new: int = 0
    checksum: str = ""
    adopted_from: dict[str, str] = attrs.field(factory=dict)

    def misplaced(self) -> str | None:
        """The first thing in a stored manifest that cannot be a snapshot's file, in words; None when there is none."""
        for name, query in self.queries.items():
            seen: set[str] = set()
            for file in query.files:
                if not _OF_CHECKPOINT.fullmatch(file.path):
                    return f"names {file.path!r} in query {name}, which is not a known file of a checkpoint"
                if not _OBJECT.fullmatch(file.object):
                    return (
                        f"says that {file.path} of query {name} is in {file.object!r}, which is not the path of a "
                        "snapshot's object"
                    )
                if file.path in seen:
                    return f"names {file.path} of query {name} twice"
                seen.add(file.path)
        return None

    @property
    def size(self) -> int:
        """Bytes of all files, whether shared with other snapshots or not."""
        return sum(f.size for q in self.queries.values() for f in q.files)

    @property
    def batches(self) -> dict[str, int]:
        """The last batch of each query; -1 before its first one."""
        return {name: query.batch for name, query in sorted(self.queries.items())}

    @property
    def position(self) -> str:
        """The batches in words, e.g. ``windows after batch 14``."""
        return ", ".join(f"{name} after batch {'none' if n < 0 else n}" for name, n in self.batches.items())


@attrs.frozen(kw_only=True)
class DamagedSnapshot:
    """A snapshot whose manifest is truncated, altered or not what it should be, or of a newer format; `problem` says
    which, `error` is the type of the error that says so."""

    app: str
    name: str
    problem: str
    error: str = CorruptError.__name__

    @classmethod
    def of(cls, app: str, name: str, error: CorruptError | NewerFormatError) -> DamagedSnapshot:
        return cls(app=app, name=name, problem=str(error), error=type(error).__name__)


@attrs.frozen(kw_only=True)
class Verified:
    """The last comparison of a snapshot with its checksums: when, how many files, and what is wrong."""

    at: str
    files: int
    problem: str | None = None
