"""Starting drivers through Airflow's Spark connection.

The command is the one SparkSubmitHook builds for the connection (master, queue, deploy mode, keytab ...). The
hook's own `submit` is not used: in client mode it blocks for the app's life, and killing it can orphan the
driver.
"""

from __future__ import annotations

from itertools import pairwise

from airflow.exceptions import AirflowException, AirflowNotFoundException
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook

from ..control.drivers.launcher import SparkSubmit
from ..core.errors import EnvironmentProblem, InvalidInputError
from ..core.registry.application import Application


class ConnectionLauncher:
    """A `control.launcher.Launcher` whose commands come from a Spark connection.

    spark_conn_id: the Spark connection
    spark_submit: path of spark-submit; None: as `SparkSubmit` finds it
    conf, env_vars: for every app; the app's own win
    """

    def __init__(
        self,
        spark_conn_id: str,
        spark_submit: str | None = None,
        conf: dict[str, str] | None = None,
        env_vars: dict[str, str] | None = None,
    ) -> None:
        self.spark_conn_id = spark_conn_id
        self.conf = conf or {}
        self.env_vars = env_vars or {}
        self.submitter = SparkSubmit(spark_submit=spark_submit, env_vars=self.env_vars)

    def check(self) -> None:
        """EnvironmentProblem when the Spark connection, Java or spark-submit is missing, or the environment
        mixed.
        """
        self.check_connection()
        self.submitter.check()

    def check_connection(self) -> None:
        """SparkSubmitHook silently takes master ``yarn`` when its connection is missing; that is refused
        here.
        """
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
        """The full argv; `runtime` is the zip of this package's driver side, `args` the application's
        arguments.
        """
        self.check_connection()
        for path in (*application.py_files, *application.files):
            if "," in path:
                raise InvalidInputError(
                    f"path {path!r} holds a comma, which separates files for spark-submit; rename it"
                )
        try:
            hook = self.spark_hook(application, args, runtime)
            command: list[str] = hook._build_spark_submit_command(application.file)
        except (AirflowException, RuntimeError, ValueError) as error:
            raise EnvironmentProblem(f"Spark connection {self.spark_conn_id} cannot be used: {error}") from error
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
        """The complete environment of the child."""
        return self.submitter.environment(application)

    def spark_hook(self, application: Application, args: list[str], runtime: str) -> SparkSubmitHook:
        """The hook whose built command is used."""
        return SparkSubmitHook(
            conn_id=self.spark_conn_id,
            conf={**self.conf, **application.conf},
            py_files=",".join((runtime, *application.py_files)),
            files=",".join(application.files) or None,
            name=_name(application, args),
            application_args=list(args),
            env_vars={**self.env_vars, **application.env_vars} or None,
            spark_binary=self.submitter.spark_submit,
        )


def _name(application: Application, args: list[str]) -> str:
    """The Spark application's name: ours is ``<app>@<deployment>`` when the arguments say so."""
    named = dict(pairwise(args))
    parts = [named[option] for option in ("--app", "--deployment") if option in named]
    return "@".join(parts) or application.file.rsplit("/", 1)[-1].removesuffix(".py")
