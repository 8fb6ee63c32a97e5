"""A supervisor's process: `streamupdate supervise`, in a hurry.

    python -m crashlib.watcher ROOT SPARK_SUBMIT LOOKS

The file LOOKS says how often it has looked at the app.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from airflow_provider_streamupdate.control.supervision.decision import Backoff
from airflow_provider_streamupdate.core.processes.threads import Alarm

from .task import SECONDS, client

INTERVAL_SECONDS = 0.3
# It never gives up: what a case does to the app is no crash loop.
HURRY = Backoff(initial=0.3, most=0.3, attempts=1000, reset_after=1.0)


class Looks(Alarm):
    """The event that ends a supervisor, which waits for it between two looks."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file, self._count = file, 0

    def wait(self, timeout: float | None = None) -> bool:
        self._count += 1
        part = self._file.with_suffix(".part")
        part.write_text(str(self._count))
        os.replace(part, self._file)
        return super().wait(timeout)


def main(root: str, spark_submit: str, looks: str) -> None:
    end = Looks(Path(looks))
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    client(root, spark_submit).supervise(
        backoff=HURRY,
        interval=INTERVAL_SECONDS,
        timeout=SECONDS,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
        end=end,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
