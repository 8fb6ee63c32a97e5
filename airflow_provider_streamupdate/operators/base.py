"""What the operators share: the client, Airflow's errors, and ending a kill without leaving a driver
behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from ..hooks.errors import airflow_errors
from ..hooks.settings import DEFAULT_CONN_ID
from ..hooks.streamupdate import StreamUpdateHook

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient

KILLED = 143  # what a process ended by SIGTERM exits with


class StreamUpdateOperator(BaseOperator):
    """Base class. streamupdate_conn_id: the `streamupdate` connection (templated)."""

    template_fields: Sequence[str] = ("streamupdate_conn_id",)
    ui_color = "#e7f0ec"
    needs_root = True  # False: it makes a root that is not there, or does without

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

    @contextmanager
    def step(self, context: Any) -> Iterator[None]:
        """Around the work of `execute`: this package's errors become Airflow's, and a kill ends the work."""
        self._under_way = True
        try:
            with airflow_errors(context):
                yield
        finally:
            self._under_way = False

    def on_kill(self) -> None:
        """End the work where it stands, so that its own clean-up runs.

        Airflow calls this inside a signal handler and would then let `execute` go on; SystemExit unwinds it
        (and counts as a failure that may be retried). After an execution timeout the work has been unwound
        already.
        """
        if self._under_way:
            self.log.warning("%s was killed; ending its work", self.task_id)
            raise SystemExit(KILLED)


def owner_of(ti: Any) -> str:
    """A token for this task of this run, the same on every try."""
    return f"airflow:{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"
