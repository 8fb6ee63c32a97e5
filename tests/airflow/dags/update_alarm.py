"""The update DAG of the tests: short waits, no retries, and a notifier that keeps what it is told in the file NOTIFIED.
A file of its own, since a task runs what Airflow parsed."""

from __future__ import annotations

import json
import os
from typing import Any

from airflow.sdk import BaseNotifier, Param

from airflow_provider_streamupdate.notifications.streamupdate import StreamUpdateNotifier
from airflow_provider_streamupdate.update_dag import build_update_dag


class Filing(BaseNotifier):
    template_fields = ("subject", "text")

    def __init__(self) -> None:
        super().__init__()
        self.subject, self.text = "{{ stream_update.subject }}", "{{ stream_update.text }}"

    def notify(self, context: Any) -> None:
        with open(os.environ.get("NOTIFIED", os.devnull), "a") as file:
            file.write(json.dumps([self.subject, self.text]) + "\n")


dag = build_update_dag(
    "update_alarm",
    app="{{ params.app }}",
    application="{{ params.application }}",
    deployment_id="{{ params.deployment_id }}",
    from_snapshot="{{ params.from_snapshot }}",
    agree="{{ params.agree | tojson }}",
    strategy="{{ params.strategy }}",
    drain_timeout="{{ params.drain_timeout }}",
    submit_timeout=20,
    verify_timeout=3,
    default_args={"retries": 0},
    on_success_callback=StreamUpdateNotifier(to=Filing()),
    on_failure_callback=[StreamUpdateNotifier(to=Filing())],
    dag_kwargs={
        "params": {
            "app": "alarm", "application": Param(type="string"),
            "deployment_id": Param(None, type=["null", "string"]),
            "from_snapshot": Param(None, type=["null", "string"]), "agree": Param([], type="array"),
            "strategy": "standby", "drain_timeout": 20,
        }
    },
)  # fmt: skip
