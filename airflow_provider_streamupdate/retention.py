"""Which snapshots to delete: too many, or too old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .core import clock
from .core.checkpoint.snapshot import Snapshot
from .core.errors import InUseError

if TYPE_CHECKING:
    from .control.client import StreamUpdateClient

OWN_PREFIXES = ("periodic-", "before-")  # taken by this package's DAGs, not by a person


def outdated(snapshots: Sequence[Snapshot], keep_count: int, keep_seconds: float) -> list[Snapshot]:
    """Return those of the snapshots (oldest first) beyond the newest `keep_count`, or older than `keep_seconds`.

    Only those that this package's DAGs took count.
    """
    own = [s for s in snapshots if s.name.startswith(OWN_PREFIXES)]
    newest = {s.name for s in own[-keep_count:]} if keep_count > 0 else set()
    return [s for s in own if s.name not in newest or clock.age(s.created_at) > keep_seconds]


def clean(
    client: StreamUpdateClient,
    app: str,
    keep_count: int,
    keep_seconds: float,
    progress: Callable[[str], None] | None = None,
) -> list[str]:
    """Delete an app's outdated snapshots, except its last one and those in use. Return the deleted names."""
    deleted = []
    report = progress or (lambda line: None)
    for snapshot in outdated(client.snapshots(app), keep_count, keep_seconds):
        try:
            freed = client.delete_snapshot(app, snapshot.name)
        except InUseError as error:
            report(f"kept: {error}")
        else:
            deleted.append(snapshot.name)
            report(f"deleted snapshot {snapshot.name} of {app}: {freed} bytes freed")
    return deleted
