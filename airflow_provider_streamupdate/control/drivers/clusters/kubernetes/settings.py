"""The settings of a spark-submit command for Kubernetes: those that say where its pod is, and those added to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from .....core.registry.deployment import PodPlace
from ...launcher import master_of

PREFIX = "k8s://"
_AUTH = "spark.kubernetes.authenticate.submission"
# Placed before the user's settings, which override them: nobody has to wait for the driver's end, which it reports
# through the root, and a driver that was ended is not started again in place.
DEFAULTS = {"spark.kubernetes.submission.waitAppCompletion": "false"}


UPLOADS = "spark.kubernetes.file.upload.path"
TOKEN = f"{_AUTH}.oauthToken"
FILES = ("caCertFile", "clientCertFile", "clientKeyFile", "oauthTokenFile")


def where(command: Sequence[str], environment: Mapping[str, str]) -> PodPlace:
    """Return the place that Spark reads from the same settings and environment (Spark's Running on Kubernetes)."""
    found = {**defaults(command, environment), **settings(command)}
    files = {name: value for name in FILES if (value := found.get(f"{_AUTH}.{name}"))}
    return PodPlace(
        server=server(master_of(command) or ""),
        namespace=found.get("spark.kubernetes.namespace", "default"),
        context=found.get("spark.kubernetes.context"),
        kubeconfig=environment.get("KUBECONFIG"),
        files=files,
    )


def defaults(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of spark-defaults.conf, where spark-submit finds it (bin/load-spark-env.sh)."""
    above = Path(command[0]).resolve().parents[1]
    installed = next(above.glob("lib/python3*/site-packages/pyspark"), above)  # by pip (bin/find-spark-home)
    home = environment.get("SPARK_HOME") or str(installed)
    file = Path(environment.get("SPARK_CONF_DIR") or f"{home}/conf") / "spark-defaults.conf"
    try:
        lines = [line.strip() for line in file.read_text(errors="replace").splitlines()]
    except OSError:
        return {}
    pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def server(master: str) -> str:
    """The address in a master. Spark takes https where none is given (Utils.checkAndGetK8sMasterUrl)."""
    address = master.removeprefix(PREFIX)
    return address if "://" in address else f"https://{address}"


def settings(command: Sequence[str]) -> dict[str, str]:
    """The ``--conf`` settings of a command: of one given twice the last."""
    pairs = (b.partition("=") for a, b in pairwise(command) if a in ("--conf", "-c"))
    return {key: value for key, separator, value in pairs if separator}


def with_settings(command: Sequence[str], own: Mapping[str, str]) -> list[str]:
    """The command with DEFAULTS before its own settings, and `own` after them, before the application."""
    first = [word for key, value in DEFAULTS.items() for word in ("--conf", f"{key}={value}")]
    last = [word for key, value in own.items() for word in ("--conf", f"{key}={value}")]
    end = _application(command)
    return [command[0], *first, *command[1:end], *last, *command[end:]]


# spark-submit's options without a value (SparkSubmitOptionParser.switches)
_SWITCHES = frozenset({"--verbose", "-v", "--supervise", "--usage-error", "--help", "-h", "--version"})


def _application(command: Sequence[str]) -> int:
    """Return the index of the application in the command: the first word that is neither an option nor its value."""
    place = 1
    while place < len(command) and command[place].startswith("-"):
        place += 1 if command[place] in _SWITCHES or "=" in command[place].split(" ")[0] else 2
    return place
