"""The operator that adopts existing checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.checkpoint.snapshot import SnapshotKind
from ..core.names import check_name
from ..hooks.templated_values import text_map
from ..hooks.xcom import snapshot_dict
from .application import ApplicationOperator


class StreamAdoptOperator(ApplicationOperator):
    """Makes a snapshot of an app from checkpoints of queries that were started without this package.

    The checkpoints are only read. A retry returns the snapshot that an earlier try stored. Returns the snapshot as
    plain data.

    application ...: the code that wrote the checkpoints, as an app (see ApplicationOperator); `app` is required
    checkpoints: the path or URI of each query's checkpoint, or only the path of the app's single query
    snapshot: the snapshot's name, never used before
    """

    template_fields = (*ApplicationOperator.template_fields, "checkpoints", "snapshot")
    ui_color = "#e8e4f3"
    needs_root = False

    def __init__(
        self, *, app: str, checkpoints: Mapping[str, str] | str, snapshot: str = "adopted", **kwargs: Any
    ) -> None:
        super().__init__(app=app, **kwargs)
        self.checkpoints = checkpoints
        self.snapshot = snapshot

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            app, name = check_name("app", self.app), check_name("snapshot", self.snapshot)
            given = self.checkpoints
            if not isinstance(given, str) or given.lstrip().startswith("{"):  # a mapping, perhaps as JSON text
                given = text_map(given, "checkpoints")
            if context["ti"].try_number > 1 and app in self.client.apps():
                taken = [s for s in self.client.snapshots(app) if (s.name, s.kind) == (name, SnapshotKind.ADOPTED)]
                if taken:
                    self.touch(app, snapshot=name)
                    return snapshot_dict(taken[0])
            adopted = self.client.adopt(self.described(), given, app, name, self.log.info)
            self.touch(app, snapshot=name)
            self.log.info("%s", adopted.report.to_markdown())
            self.log.warning("if the query still runs with this checkpoint, stop it before the app is started")
            return snapshot_dict(adopted.snapshot)
