"""The operator that plans an application without running it."""

from __future__ import annotations

from typing import Any

from ..hooks.xcom import plain_dict
from .application import ApplicationOperator, check_app


class StreamPlanOperator(ApplicationOperator):
    """Returns an application's queries, stages, sources and sinks, as plain data. Starts and writes nothing.

    It runs a plan-only driver, which takes 15 to 30 seconds.
    """

    ui_color = "#eef3f8"
    needs_root = False

    def execute(self, context: Any) -> dict[str, Any]:
        with self.step(context):
            application = self.described()
            plan = self.client.plan(application)
            check_app(self.app_name, plan.app, application.file)
            for warning in plan.warnings:
                self.log.warning("%s", warning)
            return plain_dict(plan)
