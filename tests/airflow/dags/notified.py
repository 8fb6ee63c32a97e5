"""An update whose end is told to a notifier, which keeps what it is told in the file NOTIFIED."""

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
        with open(os.environ["NOTIFIED"], "a") as file:
            file.write(json.dumps([self.subject, self.text]) + "\n")


dag = build_update_dag(
    "notified",
    app="{{ params.app }}",
    application="{{ params.application }}",
    deployment_id="{{ params.deployment_id }}",
    submit_timeout=20,
    verify_timeout=3,
    default_args={"retries": 0},
    on_success_callback=StreamUpdateNotifier(to=Filing()),
    on_failure_callback=[StreamUpdateNotifier(to=Filing())],
    dag_kwargs={"params": {"app": "alarm", "application": Param(type="string"), "deployment_id": "v2"}},
)
