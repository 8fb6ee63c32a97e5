"""The triggers that wait for a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.errors import NotFoundError
from ..hooks.xcom import snapshot_dict
from .base import StreamUpdateTrigger

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


class SnapshotTrigger(StreamUpdateTrigger):
    """Fires when a snapshot that was asked for is complete (with `cancel`: and the driver gone).

    See the base class; name, cancel: as for StreamSnapshotOperator
    """

    def __init__(self, name: str, cancel: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.cancel = cancel

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "name": self.name, "cancel": self.cancel}

    def poll(self, client: StreamUpdateClient) -> dict[str, Any] | None:
        snapshot = client.poll_snapshot(self.app, self.name, cancel=self.cancel)
        return None if snapshot is None else snapshot_dict(snapshot)

    def waiting_for(self, client: StreamUpdateClient) -> str:
        return f"snapshot {self.name}; the app is {client.status(self.app).state}"


class SnapshotExistsTrigger(StreamUpdateTrigger):
    """Fires when a snapshot exists, whichever process takes it; with `verify`, after its files were verified."""

    def __init__(self, name: str, verify: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.verify = verify

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "name": self.name, "verify": self.verify}

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
