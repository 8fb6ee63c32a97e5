"""The operator that takes a snapshot."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import conf

from ..core import clock
from ..core.names import check_name
from ..hooks.errors import airflow_errors
from ..hooks.templated_values import seconds
from ..hooks.xcom import snapshot_dict
from ..triggers.base import value_of
from ..triggers.snapshot import SnapshotTrigger
from .base import StreamUpdateOperator


class StreamSnapshotOperator(StreamUpdateOperator):
    """Saves the state of a running app under a name. The app keeps running, unless `cancel`.

    A retry returns the snapshot that an earlier try took. Returns the snapshot as plain data, without its list of
    files.

    app: the app
    name: the snapshot's name, never used before
    cancel: end the app with the snapshot: no batch runs after it
    timeout: seconds (or a timedelta, or ISO 8601 text) the snapshot may take; None: the connection's drain
        timeout
    poll_interval: seconds between polls; None: the connection's
    deferrable: wait in the triggerer; with `cancel` in an update, the deferral adds seconds to the app's pause
    """

    template_fields = (*StreamUpdateOperator.template_fields, "app", "name", "timeout")
    ui_color = "#dfeaf8"

    def __init__(
        self,
        *,
        app: str,
        name: str,
        cancel: bool = False,
        timeout: Any = None,
        poll_interval: float | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.name = name
        self.cancel = cancel
        self.timeout = timeout
        self.poll_interval = poll_interval
        self.deferrable = deferrable

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            again = context["ti"].try_number > 1  # then an earlier try may have taken it
            return self._take(check_name("app", self.app), check_name("snapshot", self.name), again)

    def _take(self, app: str, name: str, again: bool) -> dict[str, Any]:
        settings = self.hook.settings
        timeout = settings.drain_timeout if self.timeout is None else seconds(self.timeout, "timeout")
        if not self.deferrable:
            saved = self.client.save_snapshot(
                app, name, cancel=self.cancel, timeout=timeout, progress=self.log.info, again=again
            )
            return self._taken(snapshot_dict(saved))
        self.client.begin_snapshot(app, name, cancel=self.cancel, again=again)
        if snapshot := self.client.poll_snapshot(app, name, cancel=self.cancel):
            return self._taken(snapshot_dict(snapshot))
        return self.defer(
            trigger=SnapshotTrigger(
                streamupdate_conn_id=self.streamupdate_conn_id,
                app=app,
                name=name,
                cancel=self.cancel,
                deadline=clock.wall() + timeout,
                poll_interval=settings.poll_interval if self.poll_interval is None else self.poll_interval,
            ),
            method_name="execute_complete",
        )

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Continue after the trigger has fired."""
        with airflow_errors(context):
            return self._taken(value_of(event))

    def _taken(self, result: dict[str, Any]) -> dict[str, Any]:
        self.touch(result["app"], snapshot=result["name"])
        self.log.info("snapshot %s of %s: %d bytes", result["name"], result["app"], result["size"])
        return result
