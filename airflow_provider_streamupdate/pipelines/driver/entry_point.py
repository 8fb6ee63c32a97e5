"""The file that spark-submit is given: it starts the driver of a pipeline (command_line.py) out of --py-files."""

import importlib.util
import sys

from airflow_provider_streamupdate.core.errors import EnvironmentProblem
from airflow_provider_streamupdate.streaming import check_pyspark

if __name__ == "__main__":
    check_pyspark()  # before the import of what another pyspark lacks
    if importlib.util.find_spec("pyspark.pipelines") is None:
        raise EnvironmentProblem(f"the pyspark of {sys.executable} has no pipelines: they need Spark 4.1 or later")
    from airflow_provider_streamupdate.pipelines.driver.command_line import main

    sys.exit(main())
