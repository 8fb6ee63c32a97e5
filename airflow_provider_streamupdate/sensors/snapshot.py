"""The sensor that waits until a snapshot exists."""

from __future__ import annotations

from typing import Any

from ..core.names import check_name
from ..hooks.errors import airflow_errors
from ..triggers.snapshot import SnapshotExistsTrigger
from .base import StreamSensor


class StreamSnapshotSensor(StreamSensor):
    """Waits until a snapshot exists, whichever process takes it. Returns it as plain data, without its list of files.

    app ...: see StreamSensor
    name: the snapshot's name
    verify: also verify its files by checksum; a damaged file fails the task
    """

    template_fields = (*StreamSensor.template_fields, "name")
    ui_color = "#dfeaf8"

    def __init__(self, *, name: str, verify: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.verify = verify

    def execute(self, context: Any) -> Any:
        with airflow_errors(context):
            check_name("snapshot", self.name)
        return super().execute(context)

    def trigger(self, **common: Any) -> SnapshotExistsTrigger:
        return SnapshotExistsTrigger(name=self.name, verify=self.verify, **common)
