"""The sensor that waits until an app is healthy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.names import check_name
from ..core.registry.update import Step
from ..core.slo.limits import LONGEST_SECONDS, parse_slo
from ..hooks.errors import airflow_errors
from ..hooks.templated_values import optional_text, text_list
from ..hooks.update_options import verify_for
from ..operators.driver.links import note_step, trying
from ..triggers.health import HealthTrigger
from .base import StreamSensor


class StreamHealthSensor(StreamSensor):
    """Waits until a deployment runs, its batches advance, and lag and state rows are back to where they were.

    Fails at once when that cannot happen any more (the driver is gone). Returns the health as plain data.

    app ...: see StreamSensor
    deployment_id: the deployment; None: the current one
    batches: how many batches every query must have committed since its start
    run_for: how long it must have run, and be healthy at the end: seconds, a timedelta or ISO 8601 text; added to
        `timeout`. None: 10 s, or environment variable STREAMUPDATE_VERIFY_FOR; 0: not required
    baseline_snapshot: the snapshot to compare lag and state rows with; None: not compared
    slo: how much worse than in the hours before its update the deployment may do, as option `slo` of an update; an
        empty list: the defaults. None: not compared
    """

    template_fields = (*StreamSensor.template_fields, "deployment_id", "baseline_snapshot", "run_for", "slo")
    ui_color = "#e3f1e3"

    def __init__(
        self,
        *,
        deployment_id: str | None = None,
        batches: int = 2,
        baseline_snapshot: str | None = None,
        run_for: Any = None,
        slo: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deployment_id = deployment_id
        self.batches = batches
        self.baseline_snapshot = baseline_snapshot
        self.run_for = run_for
        self.slo = slo

    def execute(self, context: Any) -> Any:
        with airflow_errors(context):
            self.timeout += verify_for(self.run_for, "run_for")
            check_name("app", self.app)
        with self._trying(context, begins=True):
            return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        with self._trying(context, begins=False):
            return super().execute_complete(context, event)

    @contextmanager
    def _trying(self, context: Any, begins: bool) -> Iterator[None]:
        """Note the block as the update's step `verify`."""
        with airflow_errors(context):
            deployment = optional_text(self.deployment_id)
            noted = trying(self.client, self.app, deployment, Step.VERIFY, context, begins)
        with noted:
            yield

    def trigger(self, **common: Any) -> HealthTrigger:
        run_for = verify_for(self.run_for, "run_for")
        return HealthTrigger(
            deployment=optional_text(self.deployment_id),
            baseline_snapshot=optional_text(self.baseline_snapshot),
            batches=self.batches,
            run_for=run_for,
            slo=self._slo(),
            longest=min(LONGEST_SECONDS, (self.timeout - run_for) / 2),  # `execute` has added it
            **common,
        )

    def _slo(self) -> list[str] | None:
        if self.slo is None:
            return None
        given = list(text_list(self.slo, "slo"))
        parse_slo(given)  # InvalidInputError for an invalid limit
        return given

    def result_of(self, value: Any) -> Any:
        note_step(self.client, self.app, optional_text(self.deployment_id), Step.VERIFY, value.get("holds", ()))
        return value
