"""Bring the released version of an app into service, on a schedule. Does nothing while that version already runs.

The release is described by the Airflow Variable `streamupdate_release`, a JSON object, or by a file with the
same content (parameter `release_file`; paths in it may be relative to the file):

    {"app": "flight-windows", "application": "/apps/flight_windows/v2.py", "app_params": {"input":
    "/data/in"},
     "conf": {}, "py_files": [], "files": [], "env_vars": {}, "agree": [], "renames": {},
     "drain_timeout": "PT5M"}

The DAG compares the digests (code, files, conf, parameters, environment) of the release and of the running
deployment. The run is skipped when they are equal, when no release is described, when the app was stopped or an
update is under way, and when this same release was rolled back before (parameter `try_again` overrides that).
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, Variable, get_current_context, task

from airflow_provider_streamupdate.forms import refuse_unknown_conf
from airflow_provider_streamupdate.release import FIELDS
from airflow_provider_streamupdate.update_dag import stream_update

log = logging.getLogger(__name__)

with DAG(
    "stream_release",
    schedule=timedelta(minutes=15),
    catchup=False,
    max_active_runs=1,
    tags=["streamupdate"],
    doc_md=__doc__,
    dag_display_name="Release a streaming app",
    default_args={"pre_execute": refuse_unknown_conf},
    params={
        "release_file": Param(
            None,
            type=["null", "string"],
            title="Release file",
            description="Path of a JSON file, for example /apps/flight_windows/release.json. Empty: the Variable "
            "streamupdate_release. Either holds at least app and application, see this DAG's documentation.",
        ),
        "try_again": Param(
            False,
            type="boolean",
            title="Try again",
            description="Also bring in a release that was rolled back before.",
        ),
    },
) as dag:

    @task.short_circuit(multiple_outputs=True)
    def release() -> dict[str, Any]:
        """Return the release if it has to be brought in; else an empty dict, which skips the rest."""
        from airflow_provider_streamupdate.hooks.errors import airflow_errors
        from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook
        from airflow_provider_streamupdate.release import describe, read_release, release_needed

        params = get_current_context()["params"]
        with airflow_errors():
            if params["release_file"]:
                wanted = read_release(params["release_file"])
            elif described := Variable.get("streamupdate_release", default=None, deserialize_json=True):
                wanted = describe(described, where="Variable streamupdate_release")
            else:
                log.info("no release is described: Variable streamupdate_release is not set, no file is given")
                return {}
            needed, reason = release_needed(StreamUpdateHook().get_client(needs_root=True), wanted, params["try_again"])
        log.info("%s", reason)
        return wanted if needed else {}

    new = release()
    stream_update(reset=True, **{field: new[field] for field in FIELDS})  # a release says all that the version has
