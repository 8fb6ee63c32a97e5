"""spark-submit and Java, as far as they are looked at: spark-submit runs the stand-in for Spark
(tests/airflow/standin_spark_submit.py)."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
STANDIN = Path("tests/airflow/standin_spark_submit.py")  # below a repository


def spark_submit(folder: Path, repository: Path = REPOSITORY) -> Path:
    """Make ``bin/spark-submit`` below a folder, which runs the stand-in with the state library of a repository."""
    imports = f'PYTHONPATH="{repository}${{PYTHONPATH:+:$PYTHONPATH}}"'
    return _script(folder, "spark-submit", f'{imports} exec "{sys.executable}" "{repository / STANDIN}" "$@"')


def java_home(folder: Path) -> Path:
    """Make a JAVA_HOME of a folder: its ``bin/java`` says its version."""
    _script(folder, "java", "echo 'openjdk version \"17.0.12\" 2024-07-16' >&2")
    return folder


def _script(folder: Path, name: str, text: str) -> Path:
    path = folder / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
