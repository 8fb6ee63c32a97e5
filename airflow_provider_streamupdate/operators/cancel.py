"""The operator that stops an app."""

from __future__ import annotations

from typing import Any

from ..core.names import check_name
from ..triggers.cancel import CancelTrigger
from .base import WaitingOperator, owner_of


class StreamCancelOperator(WaitingOperator):
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

    template_fields = (*WaitingOperator.template_fields, "drain_timeout")
    ui_color = "#f8e2dc"

    def __init__(self, *, drain: bool = True, drain_timeout: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drain = drain
        self.drain_timeout = drain_timeout

    def execute(self, context: Any) -> str:
        with self.step(context):
            check_name("app", self.app)
            timeout, by = self.duration("drain_timeout", "drain_timeout"), owner_of(context["ti"])
            if not (self.drain and self.deferrable):  # stopping at once is too short to defer
                cancelled = self.client.cancel(self.app, self.drain, timeout, self.log.info, by)
                self.log.info("%s", cancelled)
                return str(cancelled.state)
            if ended := self.client.begin_cancel(self.app, drain=True, asked_by=by):
                self.log.info("draining %s", ", ".join(ended))
            if self.client.poll_cancel(self.app):
                return self.result_of(self.client.status(self.app).state)
            return self.wait_in_triggerer(self.app, CancelTrigger, timeout, poll_interval=self.poll_interval)

    def result_of(self, value: str) -> str:
        self.log.info("app %s: %s", self.app, value)
        return value
