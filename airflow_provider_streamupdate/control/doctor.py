"""What an update rests on, looked at before it is needed: Python, Spark, Java, the root, the clocks, the apps."""

from __future__ import annotations

import platform
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

import attrs

from ..core import clock
from ..core.errors import StreamUpdateError
from ..core.storage import Folder
from .drivers.launcher import check_java, check_spark_submit, spark_environment
from .interruption import interruption
from .next_step import next_step
from .operations.context import Context
from .status import apps

OK, WARNING, FAILED = "ok", "warning", "failed"
# Times are shown, and retention goes, by clocks of several machines (docs/design.md); from here on they mislead.
SKEW_SECONDS = 5.0
_TOLD = re.compile(r"\bversion (\d+\.\d+)\.")
_NAME_ANOTHER = "name the spark-submit of a Spark installation (--spark-submit, STREAMUPDATE_SPARK_SUBMIT)"
_JAR = re.compile(r"spark-core_[\d.]+-(\d+\.\d+)(\.\S*)?\.jar")


@attrs.frozen(kw_only=True)
class Finding:
    """What was found of one thing. `outcome`: OK, WARNING (it works, but) or FAILED; what to do is in the text."""

    thing: str
    outcome: str
    found: str


def examine(spark_submit: str, env_vars: Mapping[str, str], context: Context | None) -> Iterator[Finding]:
    """Look at everything; nothing is left behind. `context`: the root's, None without one."""
    yield Finding(thing="python", outcome=OK, found=f"{platform.python_version()}{_airflow()}")
    yield _found("spark-submit", lambda: _spark(spark_submit, env_vars))
    yield _found("java", lambda: check_java(spark_environment(spark_submit, env_vars)))
    if context is None:
        yield Finding(thing="root", outcome=WARNING, found="not looked at; name it with --root or STREAMUPDATE_ROOT")
        return
    root = _found("root", lambda: _root(context.registry.folder))
    yield root
    if root.outcome != FAILED:
        yield _clock(context.registry.folder)
        yield from _apps(context)


def _found(thing: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(thing=thing, outcome=OK, found=look())
    except StreamUpdateError as error:
        return Finding(thing=thing, outcome=FAILED, found=str(error))


def _airflow() -> str:
    try:
        return f", Airflow {metadata.version('apache-airflow-core')}"
    except metadata.PackageNotFoundError:
        return ", no Airflow beside it (the command line needs none)"


def spark_version(spark_submit: str) -> str | None:
    """Major and minor version of the Spark that spark-submit belongs to, by its core's jar; None: not found."""
    home = Path(spark_submit).resolve().parent.parent
    for folder in (home / "jars", *home.glob("lib/python3*/site-packages/pyspark/jars")):
        for jar in folder.glob("spark-core_*.jar"):
            if match := _JAR.fullmatch(jar.name):
                return match.group(1)
    return None


def supported_versions() -> list[str]:
    """The minor versions of Spark there is an adapter for. They are not imported: that takes pyspark."""
    adapters = Path(__file__).parents[1] / "streaming" / "spark_internals" / "adapters"
    return sorted(path.stem.removeprefix("spark_").replace("_", ".") for path in adapters.glob("spark_*.py"))


def _told_version(spark_submit: str, env_vars: Mapping[str, str]) -> str:
    """What it says itself, in seconds: where its jars are not beside it (a wrapper, a distribution's package)."""
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
        f"{spark_submit} --version names no version of Spark (exit code {shown.returncode}, its last line: {last[0]}); "
        f"{_NAME_ANOTHER}"
    )


def _spark(spark_submit: str, env_vars: Mapping[str, str]) -> str:
    check_spark_submit(spark_submit)
    version, known = spark_version(spark_submit) or _told_version(spark_submit, env_vars), supported_versions()
    if version not in known:
        raise StreamUpdateError(
            f"{spark_submit} is of Spark {version}; {' and '.join(known)} are supported: install one of them into an "
            "environment of its own and name its spark-submit"
        )
    return f"Spark {version} ({spark_submit})"


def _root(folder: Folder) -> str:
    """That a lease can be taken, and that what was written can be read and listed at once."""
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
            f"a file that was just written to {folder.uri} cannot be {'listed' if read == data else 'read'}; use a "
            "store that shows writes at once"
        )
    return f"{folder.uri} can be read, written and locked"


def _clock(folder: Folder) -> Finding:
    """By the time the root's file system gives a file that is written now."""
    name = f"_probe-{uuid.uuid4().hex}"
    before = time.time()
    try:
        folder.write(name, b"")
        after = time.time()
        written = folder.modified(name)
    finally:
        folder.remove(name)
    skew = max(before - 1 - written, written - after - 1, 0.0)  # file times may be of whole seconds
    if skew <= SKEW_SECONDS:
        return Finding(thing="clock", outcome=OK, found="this machine's and the root's agree")
    return Finding(
        thing="clock",
        outcome=WARNING,
        found=f"this machine's and the root's are {skew:.0f} s apart: times that are shown mislead; use NTP",
    )


def _apps(context: Context) -> Iterator[Finding]:
    for name in apps(context):
        yield _found(f"app {name}", lambda name=name: _app(context, name))  # type: ignore[misc]


def _app(context: Context, name: str) -> str:
    registry = context.registry.existing(name)
    registry.updates()
    current = registry.current()
    if current is None:
        return "was never started"
    state, status = context.drivers(registry, watch=False).look(current.deployment)
    if status is not None and (ahead := -clock.age(status.heartbeat_at)) > SKEW_SECONDS:
        raise StreamUpdateError(
            f"the heartbeat of {current.deployment} on {status.host} is {ahead:.0f} s in the future; synchronize "
            "that machine's clock and this one's by NTP"
        )
    update = registry.last_update()
    interrupted = interruption(registry, update)
    step = next_step(name, state, current, update, interrupted)
    if step and (interrupted is None or interrupted.killed):
        raise StreamUpdateError(f"{current.deployment} is {state}: {step}")
    return f"{current.deployment} is {state}" + (f"; {step}" if step else "")
