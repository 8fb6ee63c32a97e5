"""The operator that restarts a dead driver."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from ..core.errors import StreamUpdateError
from ..core.names import check_name
from ..hooks.templated_values import optional_text
from ..hooks.xcom import plain_dict
from ..links.streamupdate import DriverLogLink, SparkUiLink
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deployment_id = deployment_id
        self.timeout = timeout
        self.get_logs = get_logs
        self.until_finished = until_finished

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            check_name("app", self.app)
            try:
                with driver_lines(self.client, self._current, self.log, self.get_logs):
                    start = (
                        self.client.run_until_finished
                        if self.until_finished
                        else partial(self.client.restart, reattach=True)
                    )
                    deployed = start(
                        self.app,
                        deployment=optional_text(self.deployment_id),
                        timeout=self.duration("timeout", "submit_timeout"),
                        progress=self.log.info,
                    )
            finally:  # a driver that died has a log as well
                with suppress(StreamUpdateError):
                    if current := self._current():
                        link_driver(context, self.client, *current)
            self.touch(self.app, deployed.deployment)
            how = "was already running" if deployed.reattached else "runs again"
            how = "has finished" if self.until_finished else how
            self.log.info("app %s: deployment %s %s (epoch %d)", self.app, deployed.deployment, how, deployed.epoch)
            return plain_dict(deployed)

    def _current(self) -> tuple[str, str] | None:
        current = self.client.registry.app(self.app).current_id()
        return (self.app, current) if current else None
