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

    version: what is written; since: the first release that reads it
    """

    holds: str  # the class, as ``module.Class`` below this package; for events, whose lines are of no class, a word
    version: int = 1
    since: str = "0.1.0"
    # from a version to the next one; one that is not here has the same fields as the next, or fewer
    upgrades: Mapping[int, Upgrade] = attrs.field(factory=dict)

    def stamped(self, fields: Fields) -> Fields:
        """The fields with their version."""
        return {VERSION: self.version, SINCE: self.since, **fields}

    def understood(self, found: Any, where: str) -> Any:
        """Return what was read from `where` in today's form, without its version. NewerFormatError when it is of a
        later version than this one."""
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

    about: what it tells; drivers: whether a running driver reads it, too
    """

    path: str  # below the app's folder; ``<name>`` stands for one part of a path, ``...`` for the rest of one
    about: str
    # None for what has none of this package's: `why` says whose it is, or why it needs no version
    format: Format | None = None
    why: str = ""
    drivers: bool = False
    unless: str = "\0"  # what a path of this kind does not contain

    def matches(self, path: str) -> bool:
        return _pattern(self.path).fullmatch(path) is not None and self.unless not in path


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(<[a-z0-9 ]+>|\.\.\.)", path)
    return re.compile("".join(".+" if p == "..." else "[^/]+" if p.startswith("<") else re.escape(p) for p in parts))


_SPARK = "Spark's own, in its formats"
_USER = "a copy of the application's own file"
_PEOPLE = "for people; nothing reads it"
EVENT = Format(holds="event")


@cache
def _of_class(name: str) -> Format:
    return Format(holds=f"core.{name}")


def _json(path: str, about: str, form: str | Format, drivers: bool = False, unless: str = "\0") -> File:
    """A JSON file of this package. form: its format, or the class that it holds, as ``module.Class`` below core"""
    form = _of_class(form) if isinstance(form, str) else form
    return File(path=path, about=about, format=form, drivers=drivers, unless=unless)


def _other(path: str, about: str, why: str, unless: str = "\0") -> File:
    """A file without a format of this package."""
    return File(path=path, about=about, why=why, unless=unless)


# fmt: off
FILES = (
    _json("current.json", "which deployment runs, in which epoch", "registry.deployment.Current", drivers=True),
    _json("epochs/<epoch>.json", "the claim of an epoch", "registry.deployment.Current", drivers=True),
    _json("lease/<number>.json", "who works on the app", "coordination.lease.Lease", drivers=True),
    _json("supervisor/lease/<number>.json", "which supervisor watches the app", "coordination.lease.Lease"),
    _json("deletion.json",
          "who deletes the app, so that nothing of it is started", "registry.deployment.Deletion", drivers=True),
    _json("supervision-off.json", "why the app is not supervised", "registry.supervision.SupervisionOff"),
    _json("supervision.json",
          "how often a supervisor started the driver in a row, and whether it left the app alone",
          "registry.supervision.Supervision"),
    _json("hot-standby.json",
        "that the app is to have a hot standby, and which one it has", "registry.hot_standby.HotStandby", drivers=True),
    _json("deployments/<deployment>/spec.json",
          "what was submitted", "registry.deployment.DeploymentSpec", drivers=True),
    _json("deployments/<deployment>/changes/<number>.json",
          "a change of its parameters in flight", "registry.in_flight.ParameterChange", drivers=True),
    _json("deployments/<deployment>/launch.json",
          "where its driver was started", "registry.deployment.Launch", drivers=True),
    _json("deployments/<deployment>/status.json", "its driver's heartbeat", "registry.deployment.Status", drivers=True),
    _json("deployments/<deployment>/plan.json", "its queries' plan", "plan.plan.AppPlan", drivers=True),
    _json("deployments/<deployment>/planned.json",
          "what its driver says of it before it runs: plan, report, or what is wrong",
          "snapshots.plan_answer.PlanAnswer"),
    _json("deployments/<deployment>/drivers/<number>.json",
          "the claim of one driver of an epoch; only that it is there is read",
          "registry.deployment.DriverClaim", drivers=True),
    _json("deployments/<deployment>/restored/<query>.json",
        "a query's checkpoint is whole; only that it is there is read", "snapshots.restore.RestoredMark", drivers=True),
    _json("deployments/<deployment>/commands/<epoch>/<command>.json",
          "what a driver is asked for", "coordination.commands.Command", drivers=True, unless=".result."),
    _json("deployments/<deployment>/commands/<epoch>/<command>.result.json",
          "its answer", "coordination.commands.CommandResult"),
    _json("deployments/<deployment>/events.jsonl",
          "what happened to its drivers, a line each; each line has its version", EVENT),
    _json("deployments/<deployment>/newest_snapshot.json",
          "its last snapshot's name, a hint", "snapshots.snapshots.Newest", drivers=True),
    _json("deployments/<deployment>/freed/note.json",
          "its checkpoint was freed; only that it is there is read", "snapshots.superseded.FreedNote"),
    _other("deployments/<deployment>/freed/...", "what is left to free", _SPARK, unless="/freed/note.json"),
    _other("deployments/<deployment>/checkpoint/...", "its checkpoint", _SPARK),
    _other("deployments/<deployment>/application/...", "its code and files", _USER),
    _other("deployments/<deployment>/runtime.zip",
           "the package its drivers run", "Python code of one release, which reads and writes that release's formats"),
    _other("deployments/<deployment>/driver-<epoch>.log", "its driver's output", _PEOPLE),
    _other("deployments/<deployment>/driver-<epoch>.log.<number>", "older output", _PEOPLE),
    _json("snapshots/<snapshot>/snapshot.json",
          "a snapshot's manifest; on some stores a line that says that it was deleted",
          "checkpoint.snapshot.Snapshot", drivers=True),
    _json("snapshots/<snapshot>/verified.json", "what its last verification found", "checkpoint.snapshot.Verified"),
    _json("snapshots/<snapshot>/exporting.json",
          "an export under way", "snapshots.pending_exports.Export", drivers=True),
    _other("snapshots/<snapshot>/alive.json",
           "its sign of life", "a moment as text, only compared with the one before"),
    _other("objects/<export>/<object>", "the bytes of snapshots", _SPARK),
    _json("updates/<deployment>.json",
          "the record of an update", "registry.update.UpdateRecord", drivers=True, unless=".report."),
    _json("updates/<deployment>.report.json",
          "its compatibility report", "compatibility.report.CompatibilityReport", unless=".rehearsal."),
    _other("updates/<deployment>.report.md", "the same as text", _PEOPLE, unless=".rehearsal."),
    _json("updates/<deployment>.rehearsal.report.json",
          "its rehearsal's report", "snapshots.rehearsal.RehearsalReport"),
    _other("updates/<deployment>.rehearsal.report.md", "the same as text", _PEOPLE),
    _json("differences/<deployment>.json",
          "what it and the version before made of the same batches, before it took over",
          "difference.report.DifferenceReport"),
    _other("differences/<deployment>.md", "the same as text", _PEOPLE),
    _json("deployments/<deployment>/diff/asked.json",
          "the queries whose rows are to be compared with those of the version before",
          "difference.request.ComparisonRequest", drivers=True),
    _json("deployments/<deployment>/diff/expected.json",
          "the differences that its author expects", "difference.request.ExpectedDifferences", drivers=True),
    _json("deployments/<deployment>/diff/found.json",
          "the differences that were found", "difference.comparison.Findings", drivers=True),
    _other("deployments/<deployment>/diff/rows/...", "the rows of both versions, until they were compared", _SPARK),
    _json("history/minutes/<hour>-<epoch>-<deployment>.json",
          "what the queries of a driver did in an hour, minute by minute", "history.history.Minutes", drivers=True),
    _json("history/months/<month>.json",
          "what the queries of all drivers did in a month, hour by hour", "history.history.Month", drivers=True),
    _json("rollbacks/<number>.json", "the record of a rollback", "registry.update.RollbackRecord"),
    _json("rehearsals/<name>/used-by.json",
          "the process that uses a rehearsal's scratch folder", "registry.scratch.UsedBy", drivers=True),
    _json("_streamupdate/pipeline.json",
          "in the storage of a pipeline: which code its flows' checkpoints belong to",
          Format(holds="pipelines.record.PipelineRecord"), drivers=True),
    _other("rehearsals/<name>/...", "scratch checkpoints of a rehearsal", _SPARK, unless="/used-by.json"),
)
# fmt: on
_BY_CLASS = {file.format.holds: file.format for file in FILES if file.format}


def format_of(kind: type) -> Format | None:
    """The format of a class that files hold; None for any other."""
    return _BY_CLASS.get(f"{kind.__module__.removeprefix(_PACKAGE)}.{kind.__qualname__}")


@lru_cache(1000)
def files_of(path: str) -> tuple[File, ...]:
    """Return the kinds of file that a path below an app's folder can be: one, or none."""
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
