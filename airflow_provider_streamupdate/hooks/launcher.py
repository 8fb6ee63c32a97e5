"""Start drivers through Airflow's Spark connection.

SparkSubmitHook builds the command for the connection (master, queue, deploy mode, keytab ...). The hook's own `submit`
is not used: in client mode it blocks as long as the app runs, and killing it can orphan the driver.
"""

from __future__ import annotations

from itertools import pairwise

import attrs
from airflow.exceptions import AirflowException, AirflowNotFoundException
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook

from ..control.drivers.launcher import SparkSubmit, main_file, spark_environment
from ..core.errors import EnvironmentProblem, InvalidInputError
from ..core.registry.application import Application
from .kubernetes import NAMESPACE, KubernetesSettings, kubernetes_settings


@attrs.define
class ConnectionLauncher:
    """A launcher (`control.drivers.launcher.Launcher`) whose commands come from a Spark connection."""

    spark_conn_id: str
    spark_submit: str | None = None  # path of spark-submit; None: as `SparkSubmit` finds it
    conf: dict[str, str] = attrs.field(factory=dict)  # for every app; the app's own values override it
    env_vars: dict[str, str] = attrs.field(factory=dict)  # likewise
    kubernetes_conn_id: str | None = None  # a connection by which spark-submit reaches the cluster; None: as kubectl

    @property
    def submitter(self) -> SparkSubmit:
        return SparkSubmit(spark_submit=self.spark_submit, env_vars=self.env_vars)

    def check(self) -> None:
        """Raise EnvironmentProblem when the connection, Java or spark-submit is missing, or environments are mixed."""
        self.check_connection()
        self._kubernetes(None)
        self.submitter.check()

    def check_connection(self) -> None:
        """Raise EnvironmentProblem without the connection: SparkSubmitHook would silently use master ``yarn``."""
        try:
            connection = BaseHook.get_connection(self.spark_conn_id)
        except AirflowNotFoundException as error:
            raise EnvironmentProblem(
                f"Spark connection {self.spark_conn_id} is not defined; create it (Admin > Connections, type "
                "Spark, "
                "host = the master, e.g. local[2]) or name another one in the streamupdate connection"
            ) from error
        if not connection.host and not connection.port:
            raise EnvironmentProblem(
                f"Spark connection {self.spark_conn_id} has no host; enter the Spark master in it, e.g. "
                "local[2] or yarn"
            )

    def command(self, application: Application, args: list[str], runtime: str) -> list[str]:
        """Return the full argv; `args` go to the application, `runtime` is the zip for --py-files."""
        self.check_connection()
        for path in (*application.py_files, *application.files):
            if "," in path:
                raise InvalidInputError(
                    f"path {path!r} contains a comma, which separates files for spark-submit; rename the file"
                )
        self._kubernetes(application)  # its own errors are not the Spark connection's
        try:
            hook = self.spark_hook(application, args, runtime)
            command: list[str] = hook._build_spark_submit_command(main_file(application, runtime))
        except (AirflowException, RuntimeError, ValueError) as error:
            raise EnvironmentProblem(
                f"Spark connection {self.spark_conn_id} cannot be used: {error}; correct it in Admin > Connections"
            ) from error
        except NameError as error:  # SparkSubmitHook's, of a module that it imports only where it is there
            raise EnvironmentProblem(
                f"Spark connection {self.spark_conn_id} names a Kubernetes master, for which Airflow's Spark provider "
                "needs another one: pip install apache-airflow-providers-cncf-kubernetes"
            ) from error
        if hook._resolve_should_track_driver_status():
            raise EnvironmentProblem(
                f"Spark connection {self.spark_conn_id} asks for cluster mode on a standalone master, which "
                "Spark does "
                "not offer to Python applications; set its deploy mode to client"
            )
        if application.master:
            command[command.index("--master") + 1] = application.master
        return command

    def environment(self, application: Application) -> dict[str, str]:
        """Return the complete environment of the child process."""
        given = {**self._kubernetes(application).env_vars, **self.env_vars, **application.env_vars}
        return spark_environment(self.submitter.spark_submit, given)

    def spark_hook(self, application: Application, args: list[str], runtime: str) -> SparkSubmitHook:
        """Return the hook that builds the command."""
        return SparkSubmitHook(
            conn_id=self.spark_conn_id,
            conf={**self._kubernetes(application).conf, **self.conf, **application.conf},
            py_files=",".join((runtime, *application.py_files)),
            files=",".join(application.files) or None,
            name=_name(application, args),
            application_args=list(args),
            env_vars={**self.env_vars, **application.env_vars} or None,
            spark_binary=self.submitter.spark_submit,
        )

    def _kubernetes(self, application: Application | None) -> KubernetesSettings:
        """Return the Kubernetes connection's settings, if the master is one. The Spark connection's namespace wins."""
        if self.kubernetes_conn_id is None:
            return KubernetesSettings()
        connection = BaseHook.get_connection(self.spark_conn_id)
        master = (application.master if application else None) or connection.host or ""
        if not master.startswith("k8s"):
            return KubernetesSettings()
        found = kubernetes_settings(self.kubernetes_conn_id, self.env_vars)
        if connection.extra_dejson.get("namespace"):
            conf = {name: value for name, value in found.conf.items() if name != NAMESPACE}
            found = attrs.evolve(found, conf=conf)
        return found


def _name(application: Application, args: list[str]) -> str:
    """Return the Spark application's name: ``<app>@<deployment>`` if the arguments hold them, else the file's name."""
    named = dict(pairwise(args))
    parts = [named[option] for option in ("--app", "--deployment") if option in named]
    return "@".join(parts) or application.file.rsplit("/", 1)[-1].removesuffix(".py")
