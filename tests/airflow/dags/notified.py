"""An update whose end is told by mail."""

from __future__ import annotations

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import Param

from airflow_provider_streamupdate.notifications.streamupdate import StreamUpdateNotifier
from airflow_provider_streamupdate.update_dag import build_update_dag

mail = SmtpNotifier(
    to="on-call@example.org",
    from_email="airflow@example.org",
    subject="{{ stream_update.subject }}",
    html_content="{{ stream_update.text }}",
)
dag = build_update_dag(
    "notified",
    app="{{ params.app }}",
    application="{{ params.application }}",
    deployment_id="{{ params.deployment_id }}",
    submit_timeout=20,
    verify_timeout=3,
    default_args={"retries": 0},
    on_success_callback=StreamUpdateNotifier(to=mail),
    on_failure_callback=[StreamUpdateNotifier(to=mail)],
    dag_kwargs={"params": {"app": "alarm", "application": Param(type="string"), "deployment_id": "v2"}},
)
