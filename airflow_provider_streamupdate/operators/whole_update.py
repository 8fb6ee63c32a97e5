"""The operator that updates an app in one task."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from ..core.errors import InvalidInputError, StreamUpdateError
from ..core.names import check_name
from ..hooks.metrics import count_update
from ..hooks.xcom import plain_dict
from ..links.streamupdate import DriverLogLink, SparkUiLink
from .application import UpdateTaskOperator
from .driver.links import link_driver
from .promote import emit_promoted, outlet_of


class StreamWholeUpdateOperator(UpdateTaskOperator):
    """Updates an app: all steps of `stream_update` in one task, which keeps its worker slot until the end.

    When a step fails, the old version runs afterwards, and the task fails. A task that was killed is continued by its
    retry. Skipped when the app runs this version already. Returns the update's record; promotion emits an event of the
    app's asset, as StreamPromoteOperator does.

    app, options: see UpdateTaskOperator
    """

    operator_extra_links = (SparkUiLink(), DriverLogLink())
    ui_color = "#d5ecd9"

    def __init__(self, *, app: str, **kwargs: Any) -> None:
        super().__init__(app=app, outlets=[*(kwargs.pop("outlets", None) or []), outlet_of(app)], **kwargs)

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            app, engine = check_name("app", self.app), self.engine(context)
            registry = self.client.registry.existing(app)
            if engine.options.check_only:
                raise InvalidInputError("check_only is for stream_update; use StreamCompatibilityCheckOperator here")
            options = self.client.resolve(engine.options, app)
            if unchanged := self.client.look_ahead(options.application, options.deployment, options.snapshot, app):
                raise AirflowSkipException(str(unchanged))
            ended = {record.new for record in registry.updates() if record.outcome is not None}
            try:
                record = engine.update(app)
            finally:
                with suppress(StreamUpdateError):  # the update's own error is the one to show
                    for each in registry.updates():
                        if each.outcome is not None and each.new not in ended:
                            count_update(each)
                            link_driver(context, self.client, app, each.new)
            spec = registry.spec(record.runs)
            self.touch(app, record.runs, update=record.new, promoted=True)
        emit_promoted(self, context, {"app": app, "deployment": record.runs, "snapshot": spec.from_snapshot})
        return plain_dict(record)
