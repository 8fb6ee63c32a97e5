"""The operator that stops an app."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import conf

from ..core import clock
from ..core.names import check_name
from ..hooks.errors import airflow_errors
from ..hooks.templated_values import seconds
from ..triggers.base import value_of
from ..triggers.cancel import CancelTrigger
from .base import StreamUpdateOperator, owner_of


class StreamCancelOperator(StreamUpdateOperator):
    """Stops an app: every driver of it, and the update under way. Its state stays under the root, and it stays down:
    no supervisor, hot standby or rollback of that update starts it again. Returns the final state; an app that has
    ended already is left as it is.

    app: the app
    drain: stop at a batch boundary (the batch in flight commits, none begins); False: at once
    drain_timeout: seconds (or a timedelta, a pendulum Duration, ISO 8601 text such as PT5M) that the drain may
        take; after that the task fails and the app keeps draining. None: the connection's drain timeout
    poll_interval: seconds between polls; None: the connection's
    deferrable: wait in the triggerer
    """

    template_fields = (*StreamUpdateOperator.template_fields, "app", "drain_timeout")
    ui_color = "#f8e2dc"

    def __init__(
        self,
        *,
        app: str,
        drain: bool = True,
        drain_timeout: Any = None,
        poll_interval: float | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.drain = drain
        self.drain_timeout = drain_timeout
        self.poll_interval = poll_interval
        self.deferrable = deferrable

    def execute(self, context: Any) -> str:
        with self.step(context):
            check_name("app", self.app)
            settings, by = self.hook.settings, owner_of(context["ti"])
            timeout = (
                settings.drain_timeout if self.drain_timeout is None else seconds(self.drain_timeout, "drain_timeout")
            )
            if not (self.drain and self.deferrable):  # stopping at once is too short to defer
                cancelled = self.client.cancel(self.app, self.drain, timeout, self.log.info, by)
                self.log.info("%s", cancelled)
                return str(cancelled.state)
            if ended := self.client.begin_cancel(self.app, drain=True, asked_by=by):
                self.log.info("draining %s", ", ".join(ended))
            if self.client.poll_cancel(self.app):
                return self._ended(self.client.status(self.app).state)
            return self.defer(
                trigger=CancelTrigger(
                    streamupdate_conn_id=self.streamupdate_conn_id,
                    app=self.app,
                    deadline=clock.wall() + timeout,
                    poll_interval=self.poll_interval if self.poll_interval is not None else settings.poll_interval,
                ),
                method_name="execute_complete",
            )

    def execute_complete(self, context: Any, event: dict[str, Any]) -> str:
        """Continue after the trigger has fired."""
        with airflow_errors(context):
            return self._ended(value_of(event))

    def _ended(self, state: str) -> str:
        self.log.info("app %s: %s", self.app, state)
        return state
