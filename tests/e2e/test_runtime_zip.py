"""The app author's API in an interpreter that has the runtime zip and pyspark, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

from airflow_provider_streamupdate.control.drivers import runtime
from tests.e2e.ground import SPARK_SUBMIT

CODE = """
import sys
from airflow_provider_streamupdate.streaming import StreamingApp, source, stage
import airflow_provider_streamupdate.streaming.agent.driver
print(sorted({m.split(".")[0] for m in sys.modules} & {"airflow", "attrs", "cattrs", "fsspec", "psutil", "click"}))
print(sys.modules["attrs"].__file__)
"""


def test_the_api_needs_pyspark_alone(tmp_path: Path) -> None:
    python = Path(SPARK_SUBMIT).parent / "python"
    where = "import os, pyspark, py4j; print(os.path.dirname(pyspark.__file__)); print(os.path.dirname(py4j.__file__))"
    for folder in subprocess.check_output([python, "-c", where], text=True).split():
        (tmp_path / Path(folder).name).symlink_to(folder)
    archive = runtime.build(tmp_path / "runtime.zip")
    path = f"import sys; sys.path[:0] = [{str(archive)!r}, {str(tmp_path)!r}]"
    # -S: without the environment's own libraries; -I: without PYTHONPATH
    done = subprocess.run([python, "-I", "-S", "-c", path + CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded, attrs = done.stdout.split("\n")[:2]
    assert loaded == "['attrs', 'cattrs', 'fsspec']"
    assert attrs.startswith(f"{archive}/_libraries/")
