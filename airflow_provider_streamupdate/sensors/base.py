"""Base class of the sensors: poll in the worker or in the triggerer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSensorTimeout, conf
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from ..core import clock
from ..core.names import check_name
from ..hooks.errors import airflow_errors
from ..hooks.settings import DEFAULT_CONN_ID
from ..hooks.streamupdate import StreamUpdateHook
from ..triggers.base import StreamUpdateTrigger, value_of

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


class StreamSensor(BaseSensorOperator):
    """Base class of the sensors. The trigger alone defines the condition, so it is the same in both modes.

    app: the app
    streamupdate_conn_id: the `streamupdate` connection
    deferrable: wait in the triggerer
    timeout, poke_interval ...: as for every sensor
    """

    template_fields: Sequence[str] = ("streamupdate_conn_id", "app")

    def __init__(
        self,
        *,
        app: str,
        streamupdate_conn_id: str = DEFAULT_CONN_ID,
        poke_interval: Any = 5.0,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.app = app
        self.streamupdate_conn_id = streamupdate_conn_id
        self.deferrable = deferrable

    @cached_property
    def client(self) -> StreamUpdateClient:
        return StreamUpdateHook(self.streamupdate_conn_id).get_client(needs_root=True)

    @abstractmethod
    def trigger(self, **common: Any) -> StreamUpdateTrigger:
        """Return the trigger that checks the condition; `common` are the base trigger's arguments."""

    def result_of(self, value: Any) -> Any:
        """Return the task's result from the value of the condition."""
        return value

    def execute(self, context: Any) -> Any:
        with airflow_errors(context):
            check_name("app", self.app)
            if not self.deferrable:
                return self.result_of(super().execute(context))
            polled = self.poke(context)
            if polled.is_done:
                return self.result_of(polled.xcom_value)
            return self.defer(trigger=self._trigger(), method_name="execute_complete")

    def poke(self, context: Any) -> PokeReturnValue:
        trigger = self._trigger()
        with airflow_errors():
            value = trigger.poll(self.client)
            if value is None:
                self.log.info("app %s: waiting for %s", self.app, trigger.waiting_for(self.client))
        return PokeReturnValue(is_done=value is not None, xcom_value=value)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Continue after the trigger has fired."""
        with airflow_errors(context):
            return self.result_of(value_of(event, timed_out=AirflowSensorTimeout))

    def _trigger(self) -> StreamUpdateTrigger:
        return self.trigger(
            streamupdate_conn_id=self.streamupdate_conn_id,
            app=self.app,
            deadline=clock.wall() + self.timeout,
            poll_interval=self.poke_interval,
        )
