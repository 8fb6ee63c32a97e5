"""The end of an update by a task: it is counted once, in Airflow's statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..hooks.metrics import count_update

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


@contextmanager
def counting(client: StreamUpdateClient, app: str, deployment: str | None) -> Iterator[None]:
    """Count the update that the block ends. One that had ended before was counted by whoever ended it.

    deployment: that the update brings in; None: of the update under way
    """
    registry = client.registry.existing(app)
    before = registry.update(deployment) if deployment else registry.update_under_way()
    yield
    if before is None or before.outcome is not None:
        return
    after = registry.update(before.new)
    if after is not None and after.outcome is not None:
        count_update(after)
