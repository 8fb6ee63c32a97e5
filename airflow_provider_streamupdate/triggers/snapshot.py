"""The triggers that wait for a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..core.errors import NotFoundError
from ..hooks.xcom import snapshot_dict
from .base import StreamUpdateTrigger

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class SnapshotTrigger(StreamUpdateTrigger):
    """Fires when a snapshot that was asked for is complete (with `cancel`: and the driver gone).

    See the base class; name, cancel: as for StreamSnapshotOperator
    """

    name: str
    cancel: bool = False

    def poll(self, client: StreamUpdateClient) -> dict[str, Any] | None:
        snapshot = client.poll_snapshot(self.app, self.name, cancel=self.cancel)
        return None if snapshot is None else snapshot_dict(snapshot)

    def waiting_for(self, client: StreamUpdateClient) -> str:
        return f"snapshot {self.name}; the app is {client.status(self.app).state}"


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class SnapshotExistsTrigger(StreamUpdateTrigger):
    """Fires when a snapshot exists, whichever process takes it; with `verify`, after its files were verified."""

    name: str
    verify: bool = False

    def poll(self, client: StreamUpdateClient) -> dict[str, Any] | None:
        try:
            snapshot = client.snapshot(self.app, self.name)
        except NotFoundError:
            return None
        if self.verify:
            client.verify_snapshot(self.app, self.name)
        return snapshot_dict(snapshot)

    def waiting_for(self, client: StreamUpdateClient) -> str:
        return f"snapshot {self.name} to exist"
