"""Base class of the triggers: poll the root until a condition holds, an error occurs, or the deadline passes."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import attrs
from airflow.triggers.base import BaseTrigger, TriggerEvent

from ..core import clock
from ..core.errors import StreamUpdateError, WaitTimeoutError
from ..core.redaction import hide
from ..hooks.errors import by_name
from ..hooks.streamupdate import StreamUpdateHook
from ..hooks.xcom import plain

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class StreamUpdateTrigger(BaseTrigger):
    """Base class of the triggers, which are attrs classes: their arguments are what Airflow stores of them.

    Its only event is a dict: ``{"status": "done", "value": ...}`` or
    ``{"status": "error", "error": <class name>, "message": ...}``; `value_of` turns it into the value or the exception.
    """

    streamupdate_conn_id: str  # the connection, read again wherever the trigger runs
    app: str  # the app to watch
    # Epoch seconds after which a WaitTimeoutError is reported (absolute, so that it survives a move to another
    # triggerer); None: never.
    deadline: float | None = None
    poll_interval: float = 2.0  # seconds between polls

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    @abstractmethod
    def poll(self, client: StreamUpdateClient) -> Any:
        """Return None while the condition does not hold, else the event's value. Blocking; called in a thread."""

    @abstractmethod
    def waiting_for(self, client: StreamUpdateClient) -> str:
        """Return the condition and the present state, for the log and for a timeout's message. Blocking."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = attrs.asdict(self, recurse=False, filter=lambda field, _: field.init)
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        event: dict[str, Any]
        try:
            value = await self._wait()
        except StreamUpdateError as error:
            event = {"status": "error", "error": type(error).__name__, "message": hide(str(error))}
        else:
            event = {"status": "done", "value": value}
        yield TriggerEvent(plain(event))

    async def _wait(self) -> Any:
        client = await StreamUpdateHook.async_client(self.streamupdate_conn_id)
        while (value := await asyncio.to_thread(self.poll, client)) is None:
            if self.deadline is not None and clock.wall() >= self.deadline:
                waited_for = await asyncio.to_thread(self.waiting_for, client)
                raise WaitTimeoutError(f"app {self.app}: timed out while waiting for {waited_for}")
            await asyncio.sleep(self.poll_interval)
        return value


def value_of(event: dict[str, Any], timed_out: type[Exception] | None = None) -> Any:
    """Return the value of a trigger's event, or raise its error as Airflow's; a timeout as `timed_out`, if given."""
    if event["status"] != "error":
        return event["value"]
    if timed_out and event["error"] == WaitTimeoutError.__name__:
        raise timed_out(event["message"])
    raise by_name(event["error"], event["message"])
