"""The same update through a real Airflow, with the scheduler's default settings."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from feed import COMMIT_SECONDS, Feed
from spark_rows import APP, Managed

from airflow_provider_streamupdate.control.update.strategies.standby import Standby
from airflow_provider_streamupdate.control.waiting import wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
from demolib.airflow_server import AirflowServer

AIRFLOW, BESIDE_AIRFLOW = "airflow", "standby-airflow-up"
DAG = "stream_update"
UP_SECONDS = 300.0


class Scheduled(Managed):
    """An app of a root that an Airflow knows: updated by its DAG `stream_update`, and by the command line's code
    beside it, which meets the same machine."""

    def __init__(self, folder: Path, feed: Feed, spark_submit: str, master: str) -> None:
        home = folder / "airflow"
        self.airflow = AirflowServer(home, {"UP_TIMEOUT": f"{UP_SECONDS:.0f}"})
        self.airflow.start()
        try:
            wait_for(lambda: self.airflow.ready() or None, "Airflow", UP_SECONDS, 0.5)
            wait_for(lambda: self.airflow.has_dag(DAG) or None, f"DAG {DAG}", UP_SECONDS, 0.5)
            super().__init__(folder, feed, spark_submit, master, root=home / "streamupdate")
        except BaseException:
            self.airflow.stop()
            raise

    def update(self, row: str) -> float:
        if row == BESIDE_AIRFLOW:
            return super().update(Standby.name)
        self.number += 1
        conf = {
            "app": APP,
            "application": self.application().file,
            "deployment_id": self.deployment,
            "parameters": self.params(),
        }
        began = time.time()
        run = self.airflow.trigger(DAG, conf)

        def ended() -> str | None:
            state = self.airflow.run_state(DAG, run)
            return state if state in ("success", "failed") else None

        if wait_for(ended, f"the run of {DAG}", 2 * COMMIT_SECONDS, 0.5) != "success":
            failed = [t for t, s in self.airflow.task_states(DAG, run).items() if s == "failed"]
            logs = "\n".join(self.airflow.task_log(DAG, run, task) for task in failed)
            raise RuntimeError(f"the run of {DAG} failed in {', '.join(failed)}:\n{logs}")
        return self.updated(began)

    def end(self) -> None:
        try:
            super().end()
        finally:
            self.airflow.stop()
