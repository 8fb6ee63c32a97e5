"""The update's process: what an Airflow task or `streamupdate update` runs, and runs again after a crash.

    python -m crashlib.task ROOT SPARK_SUBMIT FILE DEPLOYMENT STRATEGY PARAMS PLANS

A plan-only driver leaves nothing behind and takes as long as all the rest, so its answer (always that to the same
question: the versions differ in a parameter that is no part of the plan) is kept in the folder PLANS and given again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.operations.plan import Planned
from airflow_provider_streamupdate.control.update.engine import UpdateEngine
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies.parallel import Parallel
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.serde import from_json, to_json

from . import places

CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # a driver lives for a minute here
}
SECONDS = 300.0  # for any one thing that is waited for
RUN_SECONDS = 1.0  # a new version runs so long, and has committed two batches, before it is called healthy
AGREED = ("counts:fork",)  # the versions have sinks of their own


class Engine(UpdateEngine):
    """plans: where the answers of plan-only drivers are kept."""

    plans: Path

    def _plan_and_check(self, *args: Any) -> Planned:
        file = self.plans / "planned.json"
        if not file.exists():
            planned = super()._plan_and_check(*args)
            file.with_suffix(".part").write_bytes(to_json(planned))
            os.replace(file.with_suffix(".part"), file)
        return from_json(file.read_bytes(), Planned, str(file))


def client(root: str, spark_submit: str) -> StreamUpdateClient:
    """Of this process's place (places.py)."""
    conf = json.loads(os.environ.get(places.CONF, "{}"))
    master = os.environ.get(places.MASTER, "local[2]")
    return StreamUpdateClient(root, SparkSubmit(spark_submit, master=master, conf=conf))


def application(file: str, params: dict[str, str]) -> Application:
    return Application(file=file, params=params, conf=CONF)


def main(root: str, spark_submit: str, file: str, deployment: str, strategy: str, params: str, plans: str) -> None:
    version = application(file, json.loads(params))
    try:
        options = UpdateOptions(
            application=version,
            deployment=deployment,
            strategy=strategy,
            agree=AGREED if strategy == Parallel.name else (),
            submit_timeout=SECONDS,
            drain_timeout=SECONDS,
            verify_for=RUN_SECONDS,
        )
        engine = Engine(
            client(root, spark_submit).context, options, lambda line: print(line, file=sys.stderr, flush=True)
        )
        engine.plans = Path(plans)
        engine.update()
    except StreamUpdateError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
