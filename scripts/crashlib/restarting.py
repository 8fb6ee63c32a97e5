"""What a user does about a dead driver: `streamupdate restart APP`.

python -m crashlib.restarting ROOT SPARK_SUBMIT APP
"""

from __future__ import annotations

import sys

from airflow_provider_streamupdate.core.errors import StreamUpdateError

from .task import SECONDS, client


def main(root: str, spark_submit: str, app: str) -> None:
    try:
        client(root, spark_submit).restart(app, timeout=SECONDS)
    except StreamUpdateError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
