"""The operator that promotes the running deployment."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, AssetAlias

from ..assets import PROMOTED, app_asset
from ..core.errors import InvalidInputError
from ..core.names import check_name
from ..core.registry.update import Step
from ..hooks.templated_values import optional_text
from ..hooks.xcom import plain_dict
from .base import AppOperator
from .driver.links import counting, trying


class StreamPromoteOperator(AppOperator):
    """Accepts a deployment: the update ends, its lease is released, and the app's asset gets an event.

    The asset is ``streamupdate://<app>``. If the app is known when the DAG is parsed, the asset is an outlet; for a
    template the event goes through the asset alias ``streamupdate:promoted``. The event's extra: app, deployment,
    snapshot. Returns the update's record, or None when no update brought the deployment in.

    app: the app
    deployment_id: the deployment; None: the current one
    """

    template_fields = (*AppOperator.template_fields, "deployment_id")
    ui_color = "#c8e6c9"

    def __init__(self, *, app: str, deployment_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(app=app, outlets=[*(kwargs.pop("outlets", None) or []), outlet_of(app)], **kwargs)
        self.deployment_id = deployment_id

    def execute(self, context: Any) -> dict[str, Any] | None:
        with self.step(context):
            check_name("app", self.app)
            deployment = optional_text(self.deployment_id) or self._current()
            counted = counting(self.client, self.app, deployment)
            with counted, trying(self.client, self.app, deployment, Step.PROMOTE, context):
                record = self.client.promote(self.app, deployment)
            deployment = record.runs if record else deployment
            self.touch(self.app, deployment, update=record.new if record else None, promoted=True)
            spec = next(s for s in self.client.deployments(self.app) if s.deployment == deployment)
        emit_promoted(self, context, {"app": self.app, "deployment": deployment, "snapshot": spec.from_snapshot})
        if record is None:
            return None
        self.log.info(
            "promoted %s of app %s%s",
            deployment,
            self.app,
            f" (pause {record.pause_seconds:.1f} s)" if record.pause_seconds is not None else "",
        )
        return plain_dict(record)

    def _current(self) -> str:
        current = self.client.status(self.app).current
        return current.deployment if current else ""


def outlet_of(app: str) -> Asset | AssetAlias:
    """Return the asset of an app; the alias of all, for a template or a name that `execute` will refuse."""
    try:
        return app_asset(app)
    except InvalidInputError:
        return PROMOTED


def emit_promoted(task: AppOperator, context: Any, extra: dict[str, Any]) -> None:
    """Emit the event of the app's asset. extra: app, deployment, snapshot"""
    asset = app_asset(task.app)
    if asset in task.outlets:
        context["outlet_events"][asset].extra = extra
    else:
        context["outlet_events"][PROMOTED].add(asset, extra=extra)
