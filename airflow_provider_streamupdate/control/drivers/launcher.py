"""How a driver is started: the spark-submit command and its environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from ...core.errors import SPARK_VERSIONS, EnvironmentProblem, StreamUpdateError
from ...core.registry.application import Application
from ...core.storage.options import VARIABLE, to_environment
from .runtime import RUNNER, script_runner

JAVA_NEEDED = 17
DEPLOY_MODE = "spark.submit.deployMode"
_JAR = re.compile(r"spark-core_[\d.]+-(\d+\.\d+)(\.\S*)?\.jar")


class Launcher(Protocol):
    """Builds the command that `process.py` runs. The Airflow hook makes one from a Spark connection."""

    def check(self) -> None:
        """Raise EnvironmentProblem when Java or spark-submit is missing, or Spark's environment contains Airflow."""

    def command(self, application: Application, args: list[str], runtime: str) -> list[str]:
        """Return the full argv; `args` go to the application, `runtime` is the zip for --py-files."""

    def environment(self, application: Application) -> dict[str, str]:
        """Return the complete environment of the child process."""


def need_launcher(launcher: Launcher | None) -> Launcher:
    """Return the launcher. StreamUpdateError when a client has none."""
    if launcher is None:
        raise StreamUpdateError(
            "this client was made without a launcher, so it can neither start a driver nor end one in a cluster"
        )
    return launcher


class SparkSubmit:
    """A launcher that uses spark-submit without Airflow.

    spark_submit: its path; default STREAMUPDATE_SPARK_SUBMIT, then SPARK_HOME/bin, then PATH
    master, conf, env_vars: defaults; an application's own values override them
    """

    def __init__(
        self,
        spark_submit: str | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        env_vars: Mapping[str, str] | None = None,
    ) -> None:
        self.spark_submit = find_spark_submit(spark_submit)
        self.master = master
        self.conf = dict(conf or {})
        self.env_vars = dict(env_vars or {})

    def check(self) -> None:
        check_environment(self.spark_submit, {**os.environ, **self.env_vars})

    def command(self, application: Application, args: list[str], runtime: str) -> list[str]:
        command = [str(self.spark_submit)]
        if master := application.master or self.master:
            command += ["--master", master]
        for key, value in {**self.conf, **application.conf}.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--py-files", ",".join([runtime, *application.py_files])]
        if application.files:
            command += ["--files", ",".join(application.files)]
        if in_cluster(command):  # as SparkSubmitHook does: a driver there does not inherit this environment
            prefix = "spark.kubernetes.driverEnv" if is_kubernetes(command) else "spark.yarn.appMasterEnv"
            for key, value in application.env_vars.items():
                command += ["--conf", f"{prefix}.{key}={value}"]
        return [*command, main_file(application, runtime), *args]

    def environment(self, application: Application) -> dict[str, str]:
        return spark_environment(self.spark_submit, {**self.env_vars, **application.env_vars})


def main_file(application: Application, runtime: str) -> str:
    """Return the Python file that spark-submit runs: the application's, or what runs a script."""
    if application.script is None:
        return application.file
    return str(script_runner(Path(runtime))) if runtime else RUNNER  # the command is only looked at


def driver_environment(
    launcher: Launcher, application: Application, command: list[str], storage_options: Mapping[str, Any]
) -> dict[str, str]:
    """Return the environment of the child that runs `command`, with the storage options its driver needs for the root.

    EnvironmentProblem in cluster deploy mode, where the driver does not inherit this environment.
    """
    if storage_options and in_cluster(command) and not any(VARIABLE in word for word in command):
        raise EnvironmentProblem(
            f"in cluster deploy mode a driver does not inherit the storage options in {VARIABLE}: set this variable "
            "for the cluster's drivers in the Spark configuration, e.g. on Kubernetes "
            f"spark.kubernetes.driver.secretKeyRef.{VARIABLE}=<secret>:<key>, or use client deploy mode"
        )
    return {**launcher.environment(application), **to_environment(storage_options)}


def in_cluster(command: Sequence[str]) -> bool:
    """Return whether the driver runs in the cluster. spark-submit's option overrides a setting."""
    modes = [b for a, b in pairwise(command) if a == "--deploy-mode"] or _settings(command, DEPLOY_MODE)
    return modes[-1:] == ["cluster"]


def master_of(command: Sequence[str]) -> str | None:
    """Return the master, None if not given. spark-submit's option overrides a setting."""
    masters = [b for a, b in pairwise(command) if a == "--master"] or _settings(command, "spark.master")
    return masters[-1] if masters else None


def is_kubernetes(command: Sequence[str]) -> bool:
    """Return whether a command's master is a Kubernetes."""
    return (master_of(command) or "").startswith("k8s://")


def on_this_machine(command: Sequence[str]) -> list[str]:
    """Return the same command with the driver on this machine, so that its files can be read here.

    On Kubernetes it gets no executors: pods rarely reach a machine outside of their cluster, or a worker's pod without
    a service of its own.
    """
    if not in_cluster(command):
        return list(command)
    if not is_kubernetes(command):
        return [command[0], "--deploy-mode", "client", *_without(command[1:], "--deploy-mode")]
    mode = ["--master", "local[*]", "--deploy-mode", "client"]
    return [command[0], *mode, *_without(command[1:], "--deploy-mode", "--master")]


def _without(words: Sequence[str], *options: str) -> list[str]:
    kept: list[str] = []
    for word in words:
        if kept[-1:] and kept[-1] in options:
            kept.pop()
        else:
            kept.append(word)
    return kept


def _settings(command: Sequence[str], key: str) -> list[str]:
    found = [word.partition("=") for word in command]
    return [value for name, separator, value in found if separator and name.lower() == key.lower()]


def find_spark_submit(given: str | None = None) -> str:
    """Return the path of spark-submit; `given` may be a path or a name on PATH. `check_environment` checks it.

    A relative path becomes absolute, because a driver is started in a folder of its own.
    """
    if given:
        found = shutil.which(given) or given
    elif path := os.environ.get("STREAMUPDATE_SPARK_SUBMIT"):
        found = path
    elif home := os.environ.get("SPARK_HOME"):
        found = str(Path(home) / "bin" / "spark-submit")
    else:
        found = shutil.which("spark-submit") or "spark-submit"
    return os.path.abspath(found) if os.path.dirname(found) else found


def spark_environment(spark_submit: str, env_vars: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment, with the Python beside spark-submit for driver and executors.

    Otherwise spark-submit takes the first python3 on PATH, which under Airflow is Airflow's own. A SPARK_HOME of
    another installation would mix the two, so it is dropped when spark-submit has its own Python.
    """
    environment = dict(os.environ)
    python = Path(spark_submit).parent / "python"
    if python.exists():
        environment.pop("SPARK_HOME", None)
        environment.pop("PYTHONPATH", None)
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = str(python)
    environment.setdefault("PYTHONUNBUFFERED", "1")  # a driver's last output must reach its log
    environment.update(env_vars)
    return environment


def check_environment(spark_submit: str, environment: Mapping[str, str]) -> None:
    """Raise EnvironmentProblem when spark-submit, Java or the environment would prevent a driver's start."""
    check_spark_submit(spark_submit)
    check_java(environment)


def check_spark_submit(spark_submit: str) -> None:
    """Raise EnvironmentProblem when spark-submit is missing, lies in an environment mixed with Airflow's, or belongs to
    a Spark that is not supported, as far as its jars tell (one without them beside it is a wrapper)."""
    if not (os.path.isfile(spark_submit) and os.access(spark_submit, os.X_OK)):
        raise EnvironmentProblem(
            f"spark-submit was not found at {spark_submit!r}; install pyspark into its own environment and name its "
            "spark-submit (--spark-submit, STREAMUPDATE_SPARK_SUBMIT, or the connection's spark-submit field)"
        )
    _check_not_mixed(spark_submit)
    if (version := spark_version(spark_submit)) is not None:
        check_spark_version(spark_submit, version)


def spark_version(spark_submit: str) -> str | None:
    """Return the major and minor version of spark-submit's Spark, read from the name of its core jar; None: no jar."""
    home = Path(spark_submit).resolve().parent.parent
    for folder in (home / "jars", *home.glob("lib/python3*/site-packages/pyspark/jars")):
        for jar in folder.glob("spark-core_*.jar"):
            if match := _JAR.fullmatch(jar.name):
                return match.group(1)
    return None


def check_spark_version(spark_submit: str, version: str) -> None:
    if version not in SPARK_VERSIONS:
        raise EnvironmentProblem(
            f"{spark_submit} belongs to Spark {version}, which is not supported; supported are "
            f"{', '.join(SPARK_VERSIONS)}: install one of them into its own environment and name its spark-submit "
            "(--spark-submit, STREAMUPDATE_SPARK_SUBMIT, or the connection's spark-submit field)"
        )


def check_java(environment: Mapping[str, str]) -> str:
    """Return the Java that drivers use, e.g. ``Java 17 (/usr/bin/java)``; EnvironmentProblem if missing or too old."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    where = f"JAVA_HOME={home}" if home else "PATH"
    if not java or not os.path.isfile(java):
        raise EnvironmentProblem(
            f"no Java was found ({where}); install Java {JAVA_NEEDED} or newer (Debian: apt-get install "
            "openjdk-17-jre-headless; macOS: brew install openjdk@17) and set JAVA_HOME"
        )
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    version = _java_version(shown.stderr + shown.stdout)
    if version is None or version < JAVA_NEEDED:
        raise EnvironmentProblem(
            f"{java} is Java {version or 'of an unknown version'}; Spark 4 needs Java {JAVA_NEEDED} or newer: "
            "set JAVA_HOME"
        )
    return f"Java {version} ({java})"


def _check_not_mixed(spark_submit: str) -> None:
    """Raise EnvironmentProblem when pyspark-client is installed beside pyspark.

    It overwrites files of pyspark with those of another version (measured: UDFs fail, `pip check` is silent).
    """
    environment = Path(spark_submit).resolve().parent.parent
    clients = list(environment.glob("lib/python3*/site-packages/pyspark_client-*.dist-info"))
    if clients:
        raise EnvironmentProblem(
            f"the Spark environment {environment} also holds pyspark-client, which overwrites pyspark's files "
            "(apache-airflow-providers-apache-spark brings it); install pyspark into an environment without Airflow"
        )


def _java_version(text: str) -> int | None:
    for word in text.replace('"', " ").split():
        head = word.split(".")[0].split("-")[0]
        if head.isdigit():
            return int(word.split(".")[1]) if head == "1" else int(head)
    return None
