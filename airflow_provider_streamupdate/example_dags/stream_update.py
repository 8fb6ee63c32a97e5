"""Update a running app by hand: for releases and hotfixes. Trigger it and fill in the form.

The connection `streamupdate_default` says where apps are kept and how Spark is started.
"""

from __future__ import annotations

from airflow.sdk import Param

from airflow_provider_streamupdate.control.update.option import APPLICATION
from airflow_provider_streamupdate.forms import SECRETS_BY_NAME, app_param, no_secrets, update_params, update_templates
from airflow_provider_streamupdate.update_dag import build_update_dag

# What has no section stands in the form's first group, the only one that is open at the start.
PARAMS = {
    "app": app_param('the app to update, as in StreamingApp("flight-windows")'),
    "application": Param(
        type="string",
        minLength=1,
        title="Application file",
        description="Path of the new version's Python file, as the workers see it, for example "
        "/apps/flight_windows/v2.py.",
    ),
    "parameters": Param(
        {},
        type=["null", "object"],
        **no_secrets(),
        title="Parameters",
        description="What changes of that which the query functions read as params, a JSON object of texts, for "
        'example {"max_files": "8"}. The others are those of the running version. ' + SECRETS_BY_NAME,
    ),
    "spark_conf": Param(
        {},
        type=["null", "object"],
        **no_secrets(),
        section=APPLICATION,
        title="Spark configuration",
        description='A JSON object, for example {"spark.sql.shuffle.partitions": "8"}. Wins over the connection\'s. '
        "Settings that are not given are those of the running version. " + SECRETS_BY_NAME,
    ),
    "py_files": Param(
        [],
        type=["null", "array"],
        items={"type": "string"},
        section=APPLICATION,
        title="Python files",
        description="More .py, .zip or .whl files, one per line, for example /apps/flight_windows/lookups.zip.",
    ),
    "script": Param(
        False,
        type="boolean",
        section=APPLICATION,
        title="Plain script",
        description="The application file is a plain PySpark script: it takes arguments and no parameters.",
    ),
    "script_arguments": Param(
        [],
        type=["null", "array"],
        items={"type": "string"},
        **no_secrets(),
        section=APPLICATION,
        title="Arguments of the script",
        description="One per line, for example --limit=5. Without any they are those of the running version. "
        + SECRETS_BY_NAME,
    ),
    **update_params(),
}

dag = build_update_dag(
    "stream_update",
    app="{{ params.app }}",
    application="{{ params.application }}",
    app_params="{{ params.parameters | tojson }}",
    conf="{{ params.spark_conf | tojson }}",
    py_files="{{ params.py_files | tojson }}",
    application_args="{{ (params.script_arguments or []) | tojson if params.script else '' }}",
    **update_templates(),
    dag_kwargs={
        "params": PARAMS,
        "doc_md": __doc__,
        "dag_display_name": "Update a streaming app",
        "is_paused_upon_creation": False,  # it does nothing unasked, and a run that is asked for must not wait
    },
)
