"""Drivers that run in a YARN cluster (master yarn, deploy mode cluster), away from the process that submitted them.

Their applications are found by a tag, which is known before anything is submitted, so that every driver can be found.
YARN's own client, which comes with Spark, lists and ends them: it reads HADOOP_CONF_DIR as spark-submit does, and so
knows the ResourceManagers and, with Kerberos, its own identity.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ....core.errors import DriverError
from ....core.registry.deployment import Launch, Submitted
from .. import process
from ..launcher import in_cluster, master_of
from .cluster import Client, Cluster, Prepared

CLIENT = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
LIVING = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
TAGS = "spark.yarn.tags"
# Placed before the user's settings, which override them. A second attempt would find its epoch taken, and the
# submitting process has nothing to wait for: the driver reports its state through the root.
DEFAULTS = {"spark.yarn.maxAppAttempts": "1", "spark.yarn.submit.waitAppCompletion": "false"}
TIMEOUT_SECONDS = 120.0


class Yarn(Cluster):
    """YARN in cluster deploy mode. A driver's name is its tag."""

    name = "yarn"
    first_sign_seconds = 900.0  # it may wait in a queue first

    def takes(self, command: Sequence[str]) -> bool:
        return in_cluster(command) and master_of(command) == "yarn"

    def prepare(self, command: list[str], driver: tuple[str, ...], environment: Mapping[str, str]) -> Prepared:
        name = tag(*driver)
        return Prepared(tagged(command, name), Submitted(name=name))

    def end(self, launch: Launch, client: Callable[[], Client]) -> bool:
        process.end(launch)  # before YARN is asked: it may be about to submit
        assert launch.submitted is not None
        reached = client()
        kill(reached.spark_submit, reached.environment, launch.submitted.name)
        return True

    def log_of(self, launch: Launch, application: str | None) -> str | None:
        return f"of spark-submit; the driver's own: yarn logs -applicationId {application or '<its id>'}"


def tag(*parts: str) -> str:
    """Return the tag of one driver. YARN accepts up to a hundred characters, in lower case."""
    return f"streamupdate-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:32]}"


def tagged(command: Sequence[str], name: str) -> list[str]:
    """Return the spark-submit command with the tag added to the tags it sets."""
    settings = {**DEFAULTS, TAGS: name}
    ours = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    theirs = [f"{word},{name}" if word.startswith(f"{TAGS}=") else word for word in command[1:]]
    return [command[0], *ours, *theirs]


def kill(spark_submit: str, environment: Mapping[str, str], name: str) -> None:
    """End the applications with the tag, and wait until they have ended. DriverError when YARN could not be asked."""
    listed = ask(spark_submit, environment, "-list", "-appTags", name, "-appStates", LIVING)
    for application in re.findall(r"^\s*(application_\d+_\d+)\s", listed, re.MULTILINE):
        ask(spark_submit, environment, "-kill", application)


def ask(spark_submit: str, environment: Mapping[str, str], *arguments: str) -> str:
    """Return the output of ``yarn application``. DriverError when it fails or does not answer."""
    command = [str(Path(spark_submit).with_name("spark-class")), CLIENT, "application", *arguments]
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DriverError(
            f"YARN did not answer within {TIMEOUT_SECONDS:g} s (yarn application {' '.join(arguments)}); check that "
            "its ResourceManager can be reached from here (HADOOP_CONF_DIR), and try again"
        ) from error
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise DriverError(
            f"the request to YARN failed (yarn application {' '.join(arguments)}); check HADOOP_CONF_DIR and try "
            f"again:\n{last}"
        )
    return done.stdout
