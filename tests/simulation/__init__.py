"""The control side and the drivers' real lifecycle in one process, over a simulated machine: virtual time, seeded
faults, and invariants that are checked after every step."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "airflow"))  # the stand-in for spark-submit runs as a script there
