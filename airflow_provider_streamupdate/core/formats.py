"""The files under a root, and the version of each format.

All JSON that this package writes states its format: ``"format"``, the version, and ``"format_since"``, the first
release that reads that version. Reading (`serde.from_json`) converts an older file to the current form
(`Format.upgrades`), and refuses a newer one with NewerFormatError before using it.

A new version is for a change that an older reader would get wrong. A new field that it may ignore, with a default for
files that lack it, needs none. Drivers stay at the release they were started with, and a rollback starts the old
one again (``runtime.zip``): what a driver reads of others' files (`File.drivers`) should change in that way only. One
that cannot tell any more who may commit ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

import attrs

from .. import __version__
from .errors import CorruptError, NewerFormatError

VERSION, SINCE = "format", "format_since"
_RELEASE = re.compile(r"[0-9][0-9A-Za-z.+-]{0,30}")
_PACKAGE = f"{__name__.rpartition('.core.')[0]}."

Fields = dict[str, Any]
Upgrade = Callable[[Fields], Fields]


@attrs.frozen(kw_only=True)
class Format:
    """The JSON of one class.

    holds: the class, as ``module.Class`` below this package; for events, whose lines are of no class, a word
    version: what is written; since: the first release that reads it
    upgrades: from a version to the next one; one that is not here has the same fields as the next, or fewer
    """

    holds: str
    version: int = 1
    since: str = "0.1.0"
    upgrades: Mapping[int, Upgrade] = attrs.field(factory=dict)

    def stamped(self, fields: Fields) -> Fields:
        """The fields with their version."""
        return {VERSION: self.version, SINCE: self.since, **fields}

    def understood(self, found: Any, where: str) -> Any:
        """What was read of `where` in today's form, without its version. NewerFormatError when it is of a later version
        than this one."""
        if not isinstance(found, dict):
            return found  # no object: what it should be says what is wrong with it
        version = self.version_of(found, where)
        found = {key: value for key, value in found.items() if key not in (VERSION, SINCE)}
        for older in range(version, self.version):
            if older in self.upgrades:
                found = self.upgrades[older](found)
        return found

    def version_of(self, found: Fields, where: str) -> int:
        """The version a file says it is of; NewerFormatError when that is a later one."""
        version = found.get(VERSION)
        if type(version) is not int or version < 1:
            raise CorruptError(
                f"{where} has {str(version)[:20]!r} as its format version, which is not a whole number of 1 or more; "
                "restore it from a backup"
            )
        if version > self.version:
            since = found.get(SINCE)
            known = isinstance(since, str) and _RELEASE.fullmatch(since)
            needed = f"airflow-provider-streamupdate >= {since}" if known else "the version that wrote it"
            shown = str(version)[:20]
            raise NewerFormatError(
                f"{where} was written by a newer version of this package (format {shown}; this one, {__version__}, "
                f"reads up to {self.version}): use {needed}"
            )
        return version


@attrs.frozen(kw_only=True)
class File:
    """A kind of file.

    path: below the app's folder; ``<name>`` stands for one part of a path, ``...`` for the rest of one
    about: what it tells; drivers: whether a running driver reads it, too
    format: None for what has none of this package's: `why` says whose it is, or why it needs no version
    unless: what a path of this kind does not contain
    """

    path: str
    about: str
    format: Format | None = None
    why: str = ""
    drivers: bool = False
    unless: str = "\0"

    def matches(self, path: str) -> bool:
        return _pattern(self.path).fullmatch(path) is not None and self.unless not in path


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(<[a-z0-9 ]+>|\.\.\.)", path)
    return re.compile("".join(".+" if p == "..." else "[^/]+" if p.startswith("<") else re.escape(p) for p in parts))


_CURRENT = Format(holds="core.registry.deployment.Current")
_LEASE = Format(holds="core.coordination.lease.Lease")
EVENT = Format(holds="event")
_SPARK = "Spark's own, in its formats"
_USER = "a copy of the application's own file"
_PEOPLE = "for people; nothing reads it"

FILES = (
    File(path="current.json", about="which deployment runs, in which epoch", format=_CURRENT, drivers=True),
    File(path="epochs/<epoch>.json", about="the claim of an epoch", format=_CURRENT, drivers=True),
    File(
        path="lease/<number>.json",
        about="who works on the app",
        format=_LEASE,
        drivers=True,
    ),
    File(
        path="supervisor/lease/<number>.json",
        about="which supervisor watches the app",
        format=_LEASE,
    ),
    File(
        path="deletion.json",
        about="who deletes the app, so that nothing of it is started",
        format=Format(holds="core.registry.deployment.Deletion"),
        drivers=True,
    ),
    File(
        path="supervision-off.json",
        about="why the app is not supervised",
        format=Format(holds="core.registry.supervision.SupervisionOff"),
    ),
    File(
        path="supervision.json",
        about="how often a supervisor started the driver in a row, and whether it left the app alone",
        format=Format(holds="core.registry.supervision.Supervision"),
    ),
    File(
        path="hot-standby.json",
        about="that the app is to have a hot standby, and which one it has",
        format=Format(holds="core.registry.hot_standby.HotStandby"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/spec.json",
        about="what was submitted",
        format=Format(holds="core.registry.deployment.DeploymentSpec"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/changes/<number>.json",
        about="a change of its parameters in flight",
        format=Format(holds="core.registry.in_flight.ParameterChange"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/launch.json",
        about="where its driver was started",
        format=Format(holds="core.registry.deployment.Launch"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/status.json",
        about="its driver's heartbeat",
        format=Format(holds="core.registry.deployment.Status"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/plan.json",
        about="its queries' plan",
        format=Format(holds="core.plan.plan.AppPlan"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/planned.json",
        about="what its driver says of it before it runs: plan, report, or what is wrong",
        format=Format(holds="core.snapshots.plan_answer.PlanAnswer"),
    ),
    File(
        path="deployments/<deployment>/drivers/<number>.json",
        about="the claim of one driver of an epoch; only that it is there is read",
        format=Format(holds="core.registry.deployment.DriverClaim"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/restored/<query>.json",
        about="a query's checkpoint is whole; only that it is there is read",
        format=Format(holds="core.snapshots.restore.RestoredMark"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/commands/<epoch>/<command>.json",
        about="what a driver is asked for",
        format=Format(holds="core.coordination.commands.Command"),
        drivers=True,
        unless=".result.",
    ),
    File(
        path="deployments/<deployment>/commands/<epoch>/<command>.result.json",
        about="its answer",
        format=Format(holds="core.coordination.commands.CommandResult"),
    ),
    File(
        path="deployments/<deployment>/events.jsonl",
        about="what happened to its drivers, a line each; each line has its version",
        format=EVENT,
    ),
    File(
        path="deployments/<deployment>/newest_snapshot.json",
        about="its last snapshot's name, a hint",
        format=Format(holds="core.snapshots.snapshots.Newest"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/freed/note.json",
        about="its checkpoint was freed; only that it is there is read",
        format=Format(holds="core.snapshots.superseded.FreedNote"),
    ),
    File(
        path="deployments/<deployment>/freed/...", about="what is left to free", why=_SPARK, unless="/freed/note.json"
    ),
    File(path="deployments/<deployment>/checkpoint/...", about="its checkpoint", why=_SPARK),
    File(path="deployments/<deployment>/application/...", about="its code and files", why=_USER),
    File(
        path="deployments/<deployment>/runtime.zip",
        about="the package its drivers run",
        why="Python code of one release, which reads and writes that release's formats",
    ),
    File(path="deployments/<deployment>/driver-<epoch>.log", about="its driver's output", why=_PEOPLE),
    File(path="deployments/<deployment>/driver-<epoch>.log.<number>", about="older output", why=_PEOPLE),
    File(
        path="snapshots/<snapshot>/snapshot.json",
        about="a snapshot's manifest; on some stores a line that says that it was deleted",
        format=Format(holds="core.checkpoint.snapshot.Snapshot"),
        drivers=True,
    ),
    File(
        path="snapshots/<snapshot>/verified.json",
        about="what its last verification found",
        format=Format(holds="core.checkpoint.snapshot.Verified"),
    ),
    File(
        path="snapshots/<snapshot>/exporting.json",
        about="an export under way",
        format=Format(holds="core.snapshots.pending_exports.Export"),
        drivers=True,
    ),
    File(
        path="snapshots/<snapshot>/alive.json",
        about="its sign of life",
        why="a moment as text, only compared with the one before",
    ),
    File(path="objects/<export>/<object>", about="the bytes of snapshots", why=_SPARK),
    File(
        path="updates/<deployment>.json",
        about="the record of an update",
        format=Format(holds="core.registry.update.UpdateRecord"),
        drivers=True,
        unless=".report.",
    ),
    File(
        path="updates/<deployment>.report.json",
        about="its compatibility report",
        format=Format(holds="core.compatibility.report.CompatibilityReport"),
        unless=".rehearsal.",
    ),
    File(path="updates/<deployment>.report.md", about="the same as text", why=_PEOPLE, unless=".rehearsal."),
    File(
        path="updates/<deployment>.rehearsal.report.json",
        about="its rehearsal's report",
        format=Format(holds="core.snapshots.rehearsal.RehearsalReport"),
    ),
    File(path="updates/<deployment>.rehearsal.report.md", about="the same as text", why=_PEOPLE),
    File(
        path="differences/<deployment>.json",
        about="what it and the version before made of the same batches, before it took over",
        format=Format(holds="core.difference.report.DifferenceReport"),
    ),
    File(path="differences/<deployment>.md", about="the same as text", why=_PEOPLE),
    File(
        path="deployments/<deployment>/diff/asked.json",
        about="the queries whose rows are to be compared with those of the version before",
        format=Format(holds="core.difference.request.ComparisonRequest"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/diff/expected.json",
        about="the differences that its author expects",
        format=Format(holds="core.difference.request.ExpectedDifferences"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/diff/found.json",
        about="the differences that were found",
        format=Format(holds="core.difference.comparison.Findings"),
        drivers=True,
    ),
    File(
        path="deployments/<deployment>/diff/rows/...",
        about="the rows of both versions, until they were compared",
        why=_SPARK,
    ),
    File(
        path="history/minutes/<hour>-<epoch>-<deployment>.json",
        about="what the queries of a driver did in an hour, minute by minute",
        format=Format(holds="core.history.history.Minutes"),
        drivers=True,
    ),
    File(
        path="history/months/<month>.json",
        about="what the queries of all drivers did in a month, hour by hour",
        format=Format(holds="core.history.history.Month"),
        drivers=True,
    ),
    File(
        path="rollbacks/<number>.json",
        about="the record of a rollback",
        format=Format(holds="core.registry.rollback.RollbackRecord"),
    ),
    File(
        path="rehearsals/<name>/used-by.json",
        about="the process that uses a rehearsal's scratch folder",
        format=Format(holds="core.registry.scratch.UsedBy"),
        drivers=True,
    ),
    File(
        path="_streamupdate/pipeline.json",
        about="in the storage of a pipeline: which code its flows' checkpoints belong to",
        format=Format(holds="pipelines.record.PipelineRecord"),
        drivers=True,
    ),
    File(path="rehearsals/<name>/...", about="scratch checkpoints of a rehearsal", why=_SPARK, unless="/used-by.json"),
)
_BY_CLASS = {file.format.holds: file.format for file in FILES if file.format}


def format_of(kind: type) -> Format | None:
    """The format of a class that files hold; None for any other."""
    return _BY_CLASS.get(f"{kind.__module__.removeprefix(_PACKAGE)}.{kind.__qualname__}")


@lru_cache(1000)
def files_of(path: str) -> tuple[File, ...]:
    """What a path below an app's folder may be: one kind of file, or nothing that is known."""
    return tuple(file for file in FILES if file.matches(path))


def check_readable(texts: Iterable[tuple[str, bytes | None]], folder: str) -> None:
    """NewerFormatError when one of these files (paths below an app's folder `folder`, with their content) is of a newer
    format. A file that cannot be read at all is reported by the code that needs it."""
    for path, text in texts:
        try:
            found = json.loads(text or b"null")
        except (ValueError, RecursionError):
            continue
        for file in files_of(path):
            if file.format and isinstance(found, dict):
                try:
                    file.format.version_of(found, f"{folder}/{path}")
                except CorruptError:
                    pass
