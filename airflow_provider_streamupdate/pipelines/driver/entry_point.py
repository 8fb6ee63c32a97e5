"""The file that spark-submit is given: it starts the driver of a pipeline (command_line.py) out of --py-files."""

import sys

from airflow_provider_streamupdate.streaming import check_pyspark

if __name__ == "__main__":
    check_pyspark()  # before the import of what another pyspark lacks
    from airflow_provider_streamupdate.pipelines.driver.command_line import main

    sys.exit(main())
