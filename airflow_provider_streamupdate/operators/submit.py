"""The operator that submits an application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, conf

from ..core.errors import DriverError, StreamUpdateError
from ..core.names import check_name
from ..core.registry.deployment import STARTED_STATES
from ..hooks.errors import airflow_errors
from ..hooks.templated_values import optional_text
from ..hooks.xcom import plain_dict
from ..links.streamupdate import DriverLogLink, SparkUiLink
from ..triggers.base import value_of
from ..triggers.driver import DriverTrigger
from .application import VersionOperator
from .base import owner_of
from .driver.lines import driver_lines
from .driver.links import link_driver, stop_driver

_LOGGED = ("deployment", "app", "epoch")


class StreamSubmitOperator(VersionOperator):
    """Starts an application as a new deployment, and returns once its driver runs. The driver outlives the task.

    A retry of the task finds, by `owner_token`, what an earlier try submitted, and continues with it: there is never a
    second driver. A task that is killed before its driver runs stops that driver, unless it waits in the triggerer:
    then cancel the app.

    application ..., agree, renames: see VersionOperator
    deployment_id: id of the new deployment, never used before; None: made from the application's digest
    from_snapshot: the snapshot its state comes from; None: start without state, which is refused when the app has some
    fresh: start without state on purpose, although the app has some
    fork: continue from the snapshot beside the snapshot's app, under new query ids; from_app: that app, if it is
        another one
    timeout: seconds (or a timedelta, or ISO 8601 text) until the driver must run; None: the connection's
    retry_dead_driver: whether the task is retried when the driver dies at its start
    get_logs: write the driver's log into the task's log while the task waits for it
    deferrable: once the driver was started, wait for it in the triggerer
    owner_token: identifies the submitter; None: ``airflow:<dag_id>/<run_id>/<task_id>/<map_index>``
    """

    template_fields = (*VersionOperator.template_fields, "from_app", "timeout", "owner_token")
    operator_extra_links = (SparkUiLink(), DriverLogLink())
    ui_color = "#d5ecd9"
    needs_root = False

    def __init__(
        self,
        *,
        fork: bool = False,
        from_app: str | None = None,
        fresh: bool = False,
        timeout: Any = None,
        retry_dead_driver: bool = True,
        get_logs: bool = True,
        owner_token: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fork = fork
        self.from_app = from_app
        self.fresh = fresh
        self.timeout = timeout
        self.retry_dead_driver = retry_dead_driver
        self.get_logs = get_logs
        self.owner_token = owner_token
        self.deferrable = deferrable

    def execute(self, context: Any) -> dict[str, Any]:
        owner = optional_text(self.owner_token) or owner_of(context["ti"])
        with self.step(context):
            application = self.described()
            if wanted := optional_text(self.deployment_id):
                check_name("deployment", wanted)  # before a driver is started for the plan
            timeout = self.duration("timeout", "submit_timeout")
            owned = lambda: next(self._owned(owner), None)  # noqa: E731
            try:
                version, planned = self.version(), bool(optional_text(self.digest))  # by an earlier task
                with driver_lines(self.client, owned, self.log, self.get_logs):
                    deployed = self.client.submit(
                        application,
                        **version,
                        checked=planned,
                        fork=self.fork,
                        from_app=optional_text(self.from_app),
                        fresh=self.fresh,
                        owner=owner,
                        timeout=None if self.deferrable else timeout,
                        progress=self.log.info,
                    )
            except DriverError as error:
                if self.retry_dead_driver:
                    raise
                raise AirflowFailException(str(error)) from error
            except BaseException as error:
                if not isinstance(error, Exception):  # killed, or an execution timeout: nobody else cleans up
                    self._stop_started(owner)
                raise
            finally:  # a driver that died has a log as well
                for app, deployment in self._owned(owner):
                    link_driver(context, self.client, app, deployment)
            begun = plain_dict(deployed)
            if self.deferrable and self.client.drivers(deployed.app).state(deployed.deployment) not in STARTED_STATES:
                waited_for: dict[str, Any] = {
                    "deployment": deployed.deployment,
                    "states": [str(state) for state in STARTED_STATES],
                }
                self.wait_in_triggerer(deployed.app, DriverTrigger, timeout, begun=begun, **waited_for)
            return self._submitted(begun)

    def execute_complete(self, context: Any, event: dict[str, Any], begun: dict[str, Any]) -> dict[str, Any]:
        """Continue after the trigger has fired. begun: what `execute` has started"""
        with airflow_errors(context):
            try:
                value_of(event)
            except AirflowException as error:
                if event["error"] == DriverError.__name__ and not self.retry_dead_driver:
                    raise AirflowFailException(str(error)) from error
                raise
            finally:
                with suppress(StreamUpdateError):
                    link_driver(context, self.client, begun["app"], begun["deployment"])
            return self._submitted(begun)

    def _submitted(self, deployed: dict[str, Any]) -> dict[str, Any]:
        self.touch(deployed["app"], deployed["deployment"])
        how = "reattached" if deployed["reattached"] else "submitted"
        self.log.info("%s: deployment %s of app %s runs (epoch %d)", how, *(deployed[k] for k in _LOGGED))
        return deployed

    def _owned(self, owner: str) -> Iterator[tuple[str, str]]:
        """Yield the app and the deployment that this task has submitted, in this try or an earlier one."""
        with suppress(StreamUpdateError):
            for app in [self.app_name] if self.app_name else self.client.apps():
                if (spec := self.client.find_owned(app, owner)) is not None:
                    yield app, spec.deployment

    def _stop_started(self, owner: str) -> None:
        """Stop the driver this task started, so that a killed task leaves no orphan."""
        for app, deployment in self._owned(owner):
            stop_driver(self.client, app, deployment, self.log)
