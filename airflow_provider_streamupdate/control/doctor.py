"""Check what an update needs before an update needs it: Python, Spark, Java, the root, the clocks, the apps."""

from __future__ import annotations

import platform
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import attrs

from ..core import clock
from ..core.errors import StreamUpdateError
from ..core.redaction import hide
from ..core.storage import Folder
from ..core.storage.ownership import command_to_mend, foreign_folders
from ..core.users import user_name
from .attention import Kind
from .drivers.launcher import (
    check_java,
    check_spark_submit,
    check_spark_version,
    spark_environment,
    spark_version,
)
from .drivers.orphans import orphans
from .operations.context import Context
from .status import apps, glance

OK, WARNING, FAILED = "ok", "warning", "failed"
# From this skew on, displayed times and retention mislead: they use several machines' clocks (docs/crash-safety.md).
SKEW_SECONDS = 5.0
_TOLD = re.compile(r"\bversion (\d+\.\d+)\.")
_NAME_ANOTHER = "name the spark-submit of a Spark installation (--spark-submit, STREAMUPDATE_SPARK_SUBMIT)"


@attrs.frozen
class Finding:
    """The result of one check."""

    thing: str
    outcome: str  # OK, WARNING (it works, with a reservation) or FAILED
    found: str  # what was found and, where something is wrong, what to do


def examine(spark_submit: str, env_vars: Mapping[str, str], context: Context | None) -> Iterator[Finding]:
    """Run all checks; no file is left behind. `context`: the root's; None without a root."""
    yield Finding("python", OK, f"{platform.python_version()}{_airflow()}")
    yield _finding_of("spark-submit", lambda: _spark(spark_submit, env_vars))
    yield _finding_of("java", lambda: check_java(spark_environment(spark_submit, env_vars)))
    if context is None:
        yield Finding("root", WARNING, "not checked; name it with --root or STREAMUPDATE_ROOT")
        return
    root = _finding_of("root", lambda: _root(context.registry.folder))
    yield root
    if root.outcome != FAILED:
        yield _clock(context.registry.folder)
        yield from _apps(context)


def _finding_of(thing: str, inspect: Callable[[], str]) -> Finding:
    try:
        return Finding(thing, OK, inspect())
    except StreamUpdateError as error:
        return Finding(thing, FAILED, hide(str(error)))


def _airflow() -> str:
    try:
        return f", Airflow {metadata.version('apache-airflow-core')}"
    except metadata.PackageNotFoundError:
        return ", no Airflow in this environment (the command line needs none)"


def _told_version(spark_submit: str, env_vars: Mapping[str, str]) -> str:
    """Return the version that spark-submit itself reports; takes seconds.

    For a spark-submit without its jars beside it (a wrapper, a distribution's package).
    """
    command, environment = [spark_submit, "--version"], spark_environment(spark_submit, env_vars)
    try:
        shown = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StreamUpdateError(f"{spark_submit} --version failed: {error}; {_NAME_ANOTHER}") from error
    if shown.returncode == 0 and (match := _TOLD.search(shown.stderr + shown.stdout)):
        return match.group(1)
    last = (shown.stderr + shown.stdout).strip().splitlines()[-1:] or ["nothing"]
    raise StreamUpdateError(
        f"{spark_submit} --version printed no Spark version (exit code {shown.returncode}, last line: {last[0]}); "
        f"{_NAME_ANOTHER}"
    )


def _spark(spark_submit: str, env_vars: Mapping[str, str]) -> str:
    check_spark_submit(spark_submit)
    version = spark_version(spark_submit)
    if version is None:
        check_spark_version(spark_submit, version := _told_version(spark_submit, env_vars))
    return f"Spark {version} ({spark_submit})"


def _root(folder: Folder) -> str:
    """Check that a lease can be taken under the root, and that a new file can be read and listed at once."""
    folder.check_exists()
    folder.check_writable()
    name, data = f"_probe-{uuid.uuid4().hex}", b"streamupdate doctor"
    try:
        folder.write(name, data)
        read, listed = folder.read(name), name in folder.names()
    finally:
        folder.remove(name)
    if read != data or not listed:
        raise StreamUpdateError(
            f"a file just written to {folder.uri} cannot be {'listed' if read == data else 'read'} yet; use a store "
            "that shows writes at once (strong consistency)"
        )
    return f"{folder.uri} can be read, written and locked"


def _clock(folder: Folder) -> Finding:
    """Compare this machine's clock with the modification time that the root gives a file written now."""
    name = f"_probe-{uuid.uuid4().hex}"
    before = clock.wall()
    try:
        folder.write(name, b"")
        after = clock.wall()
        written = folder.modified(name)
    finally:
        folder.remove(name)
    skew = max(before - 1 - written, written - after - 1, 0.0)  # file times may be of whole seconds
    if skew <= SKEW_SECONDS:
        return Finding("clock", OK, "this machine's clock and the root's agree")
    found = f"this machine's clock and the root's differ by {skew:.0f} s, so displayed times mislead; use NTP"
    return Finding("clock", WARNING, found)


def _apps(context: Context) -> Iterator[Finding]:
    for name in apps(context):
        yield _finding_of(f"app {name}", lambda name=name: _app(context, name))  # type: ignore[misc]
        yield from _copies(context, name)
        yield from _owners(context, name)
        try:
            yield from _in_cluster(context, name)
        except StreamUpdateError as error:
            yield Finding(f"cluster of {name}", WARNING, str(error))


def _copies(context: Context, name: str) -> Iterator[Finding]:
    registry = context.registry.existing(name)
    try:
        copies = registry.copies()
    except StreamUpdateError:
        return  # what cannot be read is told of the app
    for path, other in copies:
        found = f"{registry.folder.path(path)} tells of {other}, so it is a copy and is left out everywhere; "
        yield Finding(f"files of {name}", WARNING, f"{found}remove it, or give it its name back")


def _owners(context: Context, name: str) -> Iterator[Finding]:
    """Report folders of other users that the root's owner, its group or the driver cannot write to."""
    root, app = context.registry.folder.path_here, context.registry.app(name).folder.path_here
    if root is None or app is None or not (foreign := foreign_folders(str(root), str(app))):
        return
    user, other = (user_name(path.stat().st_uid) for path in (root, Path(foreign[0])))
    more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
    yield Finding(
        f"owners of {name}",
        FAILED,
        f"{foreign[0]}{more} belongs to {other}, so that {user}, to whom the root belongs, cannot write "
        f"commands, answers or snapshots there: {command_to_mend(root, app)}",
    )


def _in_cluster(context: Context, name: str) -> Iterator[Finding]:
    """Yield the problems of an app's drivers in their cluster."""
    registry = context.registry.existing(name)
    drivers, current = context.drivers(registry, watch=False), registry.current_id()
    found = orphans(drivers)
    for problem in found.problems:
        yield Finding(f"cluster of {name}", WARNING, problem)
    for orphan in found.found:
        why = f"{orphan.driver.name} runs and should not: {orphan.why}"
        ended = f"{why}. A supervisor ends it: streamupdate supervise {name} --once"
        yield Finding(f"cluster of {name}", FAILED, ended)
    if current and (grace := drivers.grace_problem(current, drivers.status(current))):
        yield Finding(f"cluster of {name}", WARNING, grace)


def _app(context: Context, name: str) -> str:
    registry = context.registry.existing(name)
    registry.updates()
    found = glance(registry, context.drivers(registry, watch=False), registry.last_update())
    current, state, status, outage = found.current, found.state, found.status, found.outage
    if current is None:
        return "was never started"
    if status is not None and (ahead := -clock.age(status.heartbeat_at)) > SKEW_SECONDS:
        raise StreamUpdateError(
            f"the heartbeat of {current.deployment} on {status.host} is {ahead:.0f} s in the future; synchronize "
            "the clocks of that machine and this one with NTP"
        )
    if outage is None:
        return f"{current.deployment} is {state}"
    if outage.kind != Kind.WAITS:
        raise StreamUpdateError(f"{current.deployment} is {state}: {outage}")
    return f"{current.deployment} is {state}; {outage}"
