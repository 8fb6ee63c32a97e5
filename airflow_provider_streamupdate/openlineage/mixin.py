"""The methods by which OpenLineage's provider asks an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..core.errors import StreamUpdateError
from .lineage import Touched, lineage_of

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from ..hooks.streamupdate import StreamUpdateHook


class OpenLineageMixin:
    """Reports to OpenLineage what an operator works on, which it notes with `touch`.

    OpenLineage asks in the task's process or in a fork of it, if its provider is installed.
    """

    touched: Touched | None = None

    if TYPE_CHECKING:

        @property
        def hook(self) -> StreamUpdateHook: ...

    def touch(self, app: str, deployment: str | None = None, **more: Any) -> None:
        """Note what the task works on; again when more is known. more: see Touched"""
        _ = self.hook.settings  # read here: a fork must not use the connection to the task's supervisor
        self.touched = Touched(app=app, deployment=deployment, **more)

    def get_openlineage_facets_on_start(self) -> OperatorLineage | None:
        """Return the app alone, where it is known: `execute` has not run yet."""
        app = getattr(self, "app", None)
        return lineage_of(Touched(app=app)) if isinstance(app, str) and app else None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage | None:
        """Return what the app reads and writes, and how the task ended."""
        return self._lineage(self.touched)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage | None:
        """Return the same without a promotion."""
        return self._lineage(self.touched and attrs.evolve(self.touched, promoted=False))

    def _lineage(self, touched: Touched | None) -> OperatorLineage | None:
        if touched is None:
            return self.get_openlineage_facets_on_start()
        try:
            client = self.hook.get_client()  # one of its own: one that holds connections does not survive a fork
        except StreamUpdateError:
            client = None
        return lineage_of(touched, client)
