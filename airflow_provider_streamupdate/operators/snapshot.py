"""The operator that takes a snapshot."""

from __future__ import annotations

from typing import Any

from ..core.names import check_name
from ..hooks.xcom import snapshot_dict
from ..triggers.snapshot import SnapshotTrigger
from .base import WaitingOperator


class StreamSnapshotOperator(WaitingOperator):
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

    template_fields = (*WaitingOperator.template_fields, "name", "timeout")
    ui_color = "#dfeaf8"

    def __init__(self, *, name: str, cancel: bool = False, timeout: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.cancel = cancel
        self.timeout = timeout

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            app, name = check_name("app", self.app), check_name("snapshot", self.name)
            again = context["ti"].try_number > 1  # then an earlier try may have taken it
            timeout = self.duration("timeout", "drain_timeout")
            if not self.deferrable:
                saved = self.client.save_snapshot(
                    app, name, cancel=self.cancel, timeout=timeout, progress=self.log.info, again=again
                )
                return self.result_of(snapshot_dict(saved))
            self.client.begin_snapshot(app, name, cancel=self.cancel, again=again)
            if snapshot := self.client.poll_snapshot(app, name, cancel=self.cancel):
                return self.result_of(snapshot_dict(snapshot))
            asked: dict[str, Any] = {"name": name, "cancel": self.cancel, "poll_interval": self.poll_interval}
            return self.wait_in_triggerer(app, SnapshotTrigger, timeout, **asked)

    def result_of(self, value: dict[str, Any]) -> dict[str, Any]:
        self.touch(value["app"], snapshot=value["name"])
        self.log.info("snapshot %s of %s: %d bytes", value["name"], value["app"], value["size"])
        return value
