"""The steps of an update, noted in its record under the root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..control import updating

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


def note_step(client: StreamUpdateClient, app: str, deployment: str | None, step: str) -> None:
    """Note that the update that brings `deployment` in has completed `step`, and renew its lease; nothing when there
    is no such update under way."""
    registry = client.registry.existing(app)
    record = registry.update(deployment) if deployment else None
    if record is not None and record.outcome is None:
        updating.step(registry, record.new, step)
