"""What Airflow learns about this provider (entry point `apache_airflow_provider`)."""

from __future__ import annotations

from typing import Any

from . import __version__

_NAME = "Stream Update"
_PACKAGE = "airflow_provider_streamupdate"
_OPERATORS = (
    "plan check rehearse submit snapshot cancel restart supervise rollback promote update whole_update adopt pipeline"
)
# Airflow folds up all groups of a connection's form but the one that it knows by this name; what has no section of its
# own is in one that is folded up.
OPEN_GROUP = "standardFields"
# The how-to guides, as paths below docs/.
GUIDES = (
    "getting-started",
    "update-dag",
    *(
        f"guides/{name}"
        for name in (
            *("release", "hotfix", "roll-back", "reprocess", "blue-green", "follow", "hot-standby", "adopt", "migrate"),
            *("resize", "free-space", "faster-starts", "monitoring", "notify", "lineage", "pipelines"),
            *("scheduled-runs", "test-an-app", "upgrade", "yarn"),
        )
    ),
    *(
        f"operators/stream-{name}"
        for name in (
            *("plan", "compatibility-check", "rehearse", "submit", "snapshot", "cancel", "restart", "supervise"),
            *("rollback", "promote", "adopt", "pipeline"),
            *("update-begin", "update-step", "update-rollback", "update-end", "whole-update"),
        )
    ),
    "sensors/stream-health",
    "sensors/stream-snapshot",
)


def get_provider_info() -> dict[str, Any]:
    """The provider's description, of the form airflow's provider_info.schema.json asks for."""
    return {
        "package-name": "airflow-provider-streamupdate",
        "name": _NAME,
        "description": "Update running PySpark Structured Streaming applications without losing their state.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://spark.apache.org/docs/latest/streaming/index.html",
                "how-to-guide": [f"/docs/{guide}.md" for guide in GUIDES],
                "tags": ["software"],
            }
        ],
        "hooks": _modules("hooks", "streamupdate"),
        "operators": _modules("operators", _OPERATORS),
        "sensors": _modules("sensors", "health snapshot"),
        "triggers": _modules("triggers", "snapshot cancel health parallel driver release"),
        "extra-links": [
            f"{_PACKAGE}.links.streamupdate.{link}"
            for link in ("SparkUiLink", "DriverLogLink", "CompatibilityReportLink")
        ],
        "task-decorators": [
            {"class-name": f"{_PACKAGE}.decorators.stream_update.stream_update_task", "name": "stream_update"}
        ],
        "plugins": [{"name": "streamupdate", "plugin-class": f"{_PACKAGE}.plugins.streaming_apps.StreamingAppsPlugin"}],
        "notifications": [f"{_PACKAGE}.notifications.streamupdate.StreamUpdateNotifier"],
        "asset-uris": [
            {
                "schemes": ["streamupdate"],
                "handler": f"{_PACKAGE}.assets.sanitize_uri",
                "factory": f"{_PACKAGE}.assets.create_asset",
                "to_openlineage_converter": f"{_PACKAGE}.assets.convert_asset_to_openlineage",
            }
        ],
        "connection-types": [connection_type()],
        "config": {"streamupdate": {"description": "The page Streaming apps in the UI.", "options": _options()}},
    }


def _options() -> dict[str, Any]:
    return {
        "update_dag_id": _option(
            "The DAG whose permissions count: who may read it may see the page, who may edit it may act. The page "
            "starts updates with it.",
            "stream_update",
        ),
        "rollback_dag_id": _option("The DAG that the page rolls back with.", "stream_rollback"),
        "restart_dag_id": _option("The DAG that the page starts dead drivers again with.", "stream_restart"),
        "connections": _option(
            "Ids of the connections whose apps the page shows, separated by commas. Empty: all of type streamupdate in "
            "the database and the environment, and streamupdate_default.",
            "",
        ),
        "apps": _option(
            "Names of apps that the forms of the DAGs suggest, separated by commas. Others may be entered, too.", ""
        ),
    }


def _option(description: str, default: str) -> dict[str, Any]:
    return {"description": description, "version_added": "0.1.0", "type": "string", "example": None, "default": default}


def _modules(folder: str, names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _NAME, "python-modules": [f"{_PACKAGE}.{folder}.{name}" for name in names.split()]}]


def connection_type() -> dict[str, Any]:
    """The connection's form, which Airflow reads from here, or (3.1) asks the hook for."""
    return {
        "connection-type": "streamupdate",
        "hook-class-name": f"{_PACKAGE}.hooks.streamupdate.StreamUpdateHook",
        "hook-name": _NAME,
        "ui-field-behaviour": {
            "hidden-fields": ["host", "schema", "login", "password", "port", "extra"],
            "relabeling": {},
            "placeholders": {
                "root": "/data/streamupdate or s3://bucket/streamupdate",
                "spark_conn_id": "spark_default",
                "kubernetes_conn_id": "kubernetes_default",
                "spark_submit": "/opt/spark/bin/spark-submit",
                "storage_options": '{"key": "...", "secret": "..."}',
                "defaults": '{"conf": {"spark.sql.shuffle.partitions": "4"}, "drain_timeout": "PT5M"}',
            },
        },
        "conn-fields": {
            "root": {
                "label": "Root URI",
                "description": "Where apps, deployments and snapshots are kept: a path or any fsspec URI, for example "
                "/data/streams or s3://bucket/streams. Drivers must reach it too.",
                # no "null": the form marks it as required, and does not save without it
                "schema": {"type": "string", "minLength": 1, "section": OPEN_GROUP},
            },
            "spark_conn_id": _field(
                "Spark connection",
                "Id of the Spark connection drivers are submitted through.",
                "spark_default",
                section=OPEN_GROUP,
            ),
            "kubernetes_conn_id": _field(
                "Kubernetes connection",
                "Id of a connection of type kubernetes, by which the cluster of a k8s:// master is reached. Empty: as "
                "kubectl reaches it, by KUBECONFIG or the service account of the pod.",
            ),
            "spark_submit": _field(
                "spark-submit",
                "Path of the spark-submit to use, of an environment apart from Airflow's. Empty: "
                "STREAMUPDATE_SPARK_SUBMIT, SPARK_HOME, then PATH.",
                section=OPEN_GROUP,
            ),
            "storage_options": {
                "label": "Storage options",
                "description": "JSON object with what fsspec needs to reach the root, for example "
                '{"key": "...", "secret": "..."}.',
                "schema": {"type": ["string", "null"], "format": "password"},
            },
            "defaults": _field(
                "Defaults",
                "JSON object with any of conf, env_vars (of every driver), drain_timeout, submit_timeout, "
                'poll_interval (seconds or ISO 8601), for example {"drain_timeout": "PT5M"}.',
            ),
        },
    }


def _field(label: str, description: str, default: str | None = None, section: str | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["string", "null"]}
    if section is not None:
        schema["section"] = section
    if default is not None:
        schema["default"] = default
    return {"label": label, "description": description, "schema": schema}
