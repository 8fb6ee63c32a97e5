"""The trigger that waits until an app has stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import StreamUpdateTrigger

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


class CancelTrigger(StreamUpdateTrigger):
    """Fires with the final state when the app's driver is gone. See the base class."""

    def poll(self, client: StreamUpdateClient) -> str | None:
        return client.status(self.app).state if client.poll_cancel(self.app) else None

    def waiting_for(self, client: StreamUpdateClient) -> str:
        return f"its end; it is {client.status(self.app).state}"
