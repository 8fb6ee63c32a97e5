"""The operator that restarts a dead driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import conf

from ..control.operations.submit import Deployed
from ..core.errors import StreamUpdateError
from ..core.names import check_name
from ..core.registry.deployment import FINISHED, STARTED_STATES, DriverState
from ..hooks.errors import airflow_errors
from ..hooks.templated_values import optional_text
from ..hooks.xcom import plain_dict
from ..links.streamupdate import DriverLogLink, SparkUiLink
from ..triggers.base import value_of
from ..triggers.driver import DriverTrigger
from .base import AppOperator
from .driver.lines import driver_lines
from .driver.links import link_driver


class StreamRestartOperator(AppOperator):
    """Starts the driver of the current deployment again, from its own checkpoint, unless it is alive.

    So running it again changes nothing. Returns what runs: `app`, `deployment`, `epoch`, and `reattached`, which is
    true when the driver was alive already.

    app: the app
    deployment_id: the deployment to start again, which must still be current; None: the current one
    timeout: seconds (or a timedelta, or ISO 8601 text) until it must run; None: the connection's
    until_finished: wait until all its queries have ended by themselves (trigger availableNow), as a scheduled run does
    get_logs: write the driver's log into the task's log while the task waits for it
    deferrable: once the driver was started, wait for it in the triggerer
    """

    template_fields = (*AppOperator.template_fields, "deployment_id", "timeout")
    operator_extra_links = (SparkUiLink(), DriverLogLink())
    ui_color = "#d5ecd9"

    def __init__(
        self,
        *,
        deployment_id: str | None = None,
        timeout: Any = None,
        get_logs: bool = True,
        until_finished: bool = False,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deployment_id = deployment_id
        self.timeout = timeout
        self.get_logs = get_logs
        self.until_finished = until_finished
        self.deferrable = deferrable

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            check_name("app", self.app)
            deployment, timeout = optional_text(self.deployment_id), self.duration("timeout", "submit_timeout")
            try:
                with driver_lines(self.client, self._current, self.log, self.get_logs):
                    start: Callable[..., Deployed] = partial(self.client.restart, reattach=True)
                    if self.until_finished and not self.deferrable:
                        start = self.client.run_until_finished
                    waited = None if self.deferrable else timeout
                    deployed = start(self.app, deployment, timeout=waited, progress=self.log.info)
            finally:  # a driver that died has a log as well
                self._link(context)
            begun = plain_dict(deployed)
            return self._wait(begun, STARTED_STATES, timeout) if self.deferrable else self._runs(begun)

    def execute_complete(self, context: Any, event: dict[str, Any], begun: dict[str, Any]) -> dict[str, Any]:
        """Continue after the trigger has fired. begun: what `execute` has started"""
        with airflow_errors(context):
            try:
                state = value_of(event)
            finally:
                self._link(context)
            # How long it then runs is not limited.
            wait = self.until_finished and state != FINISHED
            return self._wait(begun, (FINISHED,), None) if wait else self._runs(begun)

    def _wait(self, begun: dict[str, Any], states: tuple[DriverState, ...], timeout: float | None) -> Any:
        names = [str(state) for state in states]
        return self.wait_in_triggerer(
            self.app, DriverTrigger, timeout, begun=begun, deployment=begun["deployment"], states=names
        )

    def _runs(self, deployed: dict[str, Any]) -> dict[str, Any]:
        self.touch(self.app, deployed["deployment"])
        how = "was already running" if deployed["reattached"] else "runs again"
        how = "has finished" if self.until_finished else how
        self.log.info("app %s: deployment %s %s (epoch %d)", self.app, deployed["deployment"], how, deployed["epoch"])
        return deployed

    def _link(self, context: Any) -> None:
        with suppress(StreamUpdateError):
            if current := self._current():
                link_driver(context, self.client, *current)

    def _current(self) -> tuple[str, str] | None:
        current = self.client.registry.app(self.app).current_id()
        return (self.app, current) if current else None
