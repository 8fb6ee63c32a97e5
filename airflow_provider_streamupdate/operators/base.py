"""Base class of the operators: the client, Airflow's errors, the end of a killed task, and lineage."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperator
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ..core import clock
from ..hooks.errors import airflow_errors
from ..hooks.settings import DEFAULT_CONN_ID
from ..hooks.streamupdate import StreamUpdateHook
from ..hooks.templated_values import seconds
from ..openlineage.mixin import OpenLineageMixin
from ..triggers.base import StreamUpdateTrigger, value_of

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient

KILLED = 143  # exit code of a process ended by SIGTERM


class StreamUpdateOperator(OpenLineageMixin, BaseOperator):
    """Base class of the operators. streamupdate_conn_id: the `streamupdate` connection (templated)."""

    template_fields: Sequence[str] = ("streamupdate_conn_id",)
    ui_color = "#e7f0ec"
    needs_root = True  # False: the operator creates a missing root, or works without one

    def __init__(self, *, streamupdate_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.streamupdate_conn_id = streamupdate_conn_id
        self._under_way = False

    @cached_property
    def hook(self) -> StreamUpdateHook:
        return StreamUpdateHook(self.streamupdate_conn_id)

    @cached_property
    def client(self) -> StreamUpdateClient:
        return self.hook.get_client(self.needs_root)

    def duration(self, argument: str, setting: str) -> float:
        """Return an argument in seconds; where it is None, this setting of the connection."""
        given = getattr(self, argument)
        return float(getattr(self.hook.settings, setting)) if given is None else seconds(given, argument)

    @contextmanager
    def step(self, context: Any) -> Iterator[None]:
        """Wrap the work of `execute`: this package's errors become Airflow's, and a kill ends the work."""
        self._under_way = True
        try:
            with airflow_errors(context):
                yield
        finally:
            self._under_way = False

    def on_kill(self) -> None:
        """Interrupt the work, so that its own clean-up runs.

        Airflow calls this inside a signal handler and would then let `execute` continue. SystemExit unwinds it (and
        counts as a failure that may be retried). After an execution timeout the work has already been unwound.
        """
        if self._under_way:
            self.log.warning("%s was killed; ending its work", self.task_id)
            raise SystemExit(KILLED)

    def wait_in_triggerer(
        self,
        app: str,
        trigger: type[StreamUpdateTrigger],
        timeout: float | None,
        poll_interval: float | None = None,
        begun: dict[str, Any] | None = None,
        **condition: Any,
    ) -> Any:
        """Defer to the triggerer for so many seconds at most (None: for ever), and continue in `execute_complete`.

        begun: what `execute_complete` is given besides the event
        condition: the trigger's own arguments
        """
        return self.defer(
            trigger=trigger(
                streamupdate_conn_id=self.streamupdate_conn_id,
                app=app,
                deadline=None if timeout is None else clock.wall() + timeout,
                poll_interval=self.hook.settings.poll_interval if poll_interval is None else poll_interval,
                **condition,
            ),
            method_name="execute_complete",
            kwargs=None if begun is None else {"begun": begun},
        )


class AppOperator(StreamUpdateOperator):
    """Base class of the operators that work on an app. app: its name (templated)"""

    template_fields: Sequence[str] = (*StreamUpdateOperator.template_fields, "app")

    def __init__(self, *, app: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app = app


class WaitingOperator(AppOperator):
    """Base class of the operators that may wait in the triggerer.

    poll_interval: seconds between polls; None: the connection's
    deferrable: wait in the triggerer
    """

    def __init__(
        self,
        *,
        poll_interval: float | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.poll_interval = poll_interval
        self.deferrable = deferrable

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Continue after the trigger has fired."""
        with airflow_errors(context):
            return self.result_of(value_of(event))

    @abstractmethod
    def result_of(self, value: Any) -> Any:
        """Return the task's result from what was waited for."""


def owner_of(ti: Any) -> str:
    """Return a token for this task of this run; it is the same on every try."""
    return f"airflow:{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"


def traceparent_of(ti: Any) -> str | None:
    """Return the span of this task, as W3C Trace Context writes it; None when Airflow keeps no traces.

    From Airflow 3.2 on its process has a current span; before, the scheduler gives it one, even when none are kept.
    """
    carrier: dict[str, str] = {}
    if get_current_span().is_recording():
        TraceContextTextMapPropagator().inject(carrier)
    elif conf.getboolean("traces", "otel_on", fallback=False):
        carrier = getattr(ti, "context_carrier", None) or {}
    return carrier.get("traceparent")
