"""The saved state that a deployment starts from."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from ...core.errors import CorruptError
from ...core.registry.deployment import DeploymentSpec
from ...core.registry.registry import AppRegistry
from ...core.snapshots.snapshots import SnapshotStore
from ..restore.saved_state import SavedState


class SavedStateSource:
    """The saved state for the deployment `spec` of `app`; its stages and sources have the names that the new version
    gives them."""

    def __init__(self, app: AppRegistry, spec: DeploymentSpec) -> None:
        self.app = app
        self.spec = spec

    def saved(self) -> SavedState | None:
        """The snapshot it was submitted with; None when it starts empty."""
        if self.spec.from_snapshot is None:
            return None
        app = self.app.sibling(self.spec.from_app) if self.spec.from_app else self.app
        stored = SnapshotStore(app).exists(self.spec.from_snapshot)
        if not stored and self.spec.parent and self.app.current_id() == self.spec.deployment:
            # It was handed over to, and the old driver has not come to storing the snapshot.
            saved = self.drained()
        else:
            saved = self._find(app, f"snapshot:{self.spec.from_snapshot}")
        if not self.spec.fork:
            return saved
        return saved.forked(app, beside=None if self.spec.from_app else self.spec.parent)

    def at_first(self) -> SavedState | None:
        """The state that a driver is checked against while it gets ready: what the parent has committed right now, or,
        to run beside the parent, the snapshot that it starts from, once that exists."""
        if not self.spec.fork:
            return self.running()
        if SnapshotStore(self.app).exists(str(self.spec.from_snapshot)):
            return self.saved()
        return self.running().forked(self.app, beside=self.spec.parent)

    def running(self) -> SavedState:
        """Return what the parent, which still runs, has committed."""
        return self._find(self.app, f"deployment:{self.spec.parent}")

    def before(self, batches: int) -> SavedState:
        """Return what the parent, which still runs, had committed before its last `batches` batches, or before fewer of
        them when it has not kept the state so long."""
        for again in range(batches, 0, -1):
            with contextlib.suppress(CorruptError):
                return SavedState.find(self.app, f"deployment:{self.spec.parent}", again).renamed(self.spec.renames)
        return self.running()

    def drained(self, without: Collection[str] = ()) -> SavedState:
        """Return what the parent, which runs no more batches, has left.

        without: queries whose state is there already; their files are not read
        """
        return self._find(self.app, f"drained:{self.spec.parent}", without)

    def _find(self, app: AppRegistry, source: str, without: Collection[str] = ()) -> SavedState:
        return SavedState.find(app, source, without=without).renamed(self.spec.renames)
