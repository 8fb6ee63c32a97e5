"""Update a running app by hand: for releases and hotfixes. Trigger it and fill in the form.

The connection `streamupdate_default` says where apps are kept and how Spark is started.
"""

from __future__ import annotations

from airflow.sdk import Param

from airflow_provider_streamupdate.control.update.strategies import STRATEGIES, summaries
from airflow_provider_streamupdate.core.registry.update import DEFAULT_STRATEGY
from airflow_provider_streamupdate.forms import suggested_apps
from airflow_provider_streamupdate.update_dag import build_update_dag

# The form's groups. What has no section stands in the first one, the only one that is open at the start.
APPLICATION, STATE, STEPS, PARALLEL_ONLY = "The application", "Its state", "The steps", "With strategy parallel"

PARAMS = {
    "app": Param(
        type="string",
        minLength=1,
        **suggested_apps(),
        title="App",
        description='Name of the app to update, as in StreamingApp("flight-windows"). The page Streams and '
        "`streamupdate list` show the names.",
    ),
    "application": Param(
        type="string",
        minLength=1,
        title="Application file",
        description="Path of the new version's Python file, as the workers see it, for example "
        "/apps/flight_windows/v2.py.",
    ),
    "deployment_id": Param(
        None,
        type=["null", "string"],
        section=APPLICATION,
        title="Deployment id",
        description="Id of the new deployment, never used before. Empty: made from the application's digest.",
    ),
    "parameters": Param(
        {},
        type=["null", "object"],
        title="Parameters",
        description="All that the query functions read as params, a JSON object of texts, for example "
        '{"input": "/data/in", "max_files": "8"}. Nothing is taken over from the old version.',
    ),
    "spark_conf": Param(
        {},
        type=["null", "object"],
        section=APPLICATION,
        title="Spark configuration",
        description='A JSON object, for example {"spark.sql.shuffle.partitions": "8"}. Wins over the connection\'s.',
    ),
    "py_files": Param(
        [],
        type=["null", "array"],
        items={"type": "string"},
        section=APPLICATION,
        title="Python files",
        description="More .py, .zip or .whl files, one a line, for example /apps/flight_windows/lookups.zip.",
    ),
    "from_snapshot": Param(
        None,
        type=["null", "string"],
        section=STATE,
        title="Start from snapshot",
        description="Empty: from the snapshot the old version is stopped with.",
    ),
    "agree": Param(
        [],
        type=["null", "array"],
        items={"type": "string"},
        section=STATE,
        title="Agreed losses",
        description="Names of the losses that are agreed to, one a line, as the compatibility report gives them, for "
        "example windows/daily.",
    ),
    "renames": Param(
        {},
        type=["null", "object"],
        section=STATE,
        title="Renames",
        description='Stages and sources that have new names, a JSON object, for example {"daily": "per_day"}.',
    ),
    "strategy": Param(
        DEFAULT_STRATEGY,
        type="string",
        enum=list(STRATEGIES),
        section=STEPS,
        title="Strategy",
        description=summaries(),
    ),
    "rehearse": Param(
        0,
        type="integer",
        minimum=0,
        section=STEPS,
        title="Rehearse",
        description="Batches of the new version to rehearse, on the snapshot above or the app's newest, before the old "
        "one is touched. 0: no rehearsal.",
    ),
    "check_only": Param(
        False,
        type="boolean",
        section=STEPS,
        title="Check only",
        description="Leave it at the compatibility check, and the rehearsal if there is one: nothing is updated.",
    ),
    "run_beside": Param(
        None,
        type=["null", "string"],
        section=PARALLEL_ONLY,
        examples=["PT10M", "PT1H"],
        title="Run beside",
        description="Both versions run at least so long, seconds or an ISO 8601 duration. "
        "Empty: until the new one has caught up.",
    ),
    "catch_up_timeout": Param(
        None,
        type=["null", "string"],
        section=PARALLEL_ONLY,
        examples=["PT10M", "PT2H"],
        title="Catch-up timeout",
        description="How long the new version may take to catch up after that. Empty: an hour.",
    ),
    "verify_for": Param(
        None,
        type=["null", "string"],
        section=STEPS,
        examples=["PT2M", "PT10M"],
        title="Verify for",
        description="How long the new version must have run, and be well at the end, before it is promoted: seconds or "
        "an ISO 8601 duration. Empty: 10 seconds. Two batches are asked for in any case, unless there is no input.",
    ),
    "drain_timeout": Param(
        "PT5M",
        type="string",
        section=STEPS,
        examples=["PT1M", "PT5M", "PT30M"],
        title="Drain timeout",
        description="How long the old version's last batch may take: seconds or an ISO 8601 duration.",
    ),
}

dag = build_update_dag(
    "stream_update",
    app="{{ params.app }}",
    application="{{ params.application }}",
    deployment_id="{{ params.deployment_id }}",
    app_params="{{ params.parameters | tojson }}",
    conf="{{ params.spark_conf | tojson }}",
    py_files="{{ params.py_files | tojson }}",
    from_snapshot="{{ params.from_snapshot }}",
    agree="{{ params.agree | tojson }}",
    renames="{{ params.renames | tojson }}",
    strategy="{{ params.strategy }}",
    rehearse="{{ params.rehearse }}",
    check_only="{{ params.check_only }}",
    run_beside="{{ params.run_beside }}",
    catch_up_timeout="{{ params.catch_up_timeout }}",
    verify_for="{{ params.verify_for }}",
    drain_timeout="{{ params.drain_timeout }}",
    dag_kwargs={
        "params": PARAMS,
        "doc_md": __doc__,
        "dag_display_name": "Update a streaming app",
        "is_paused_upon_creation": False,  # it does nothing unasked, and a run that is asked for must not wait
    },
)
