"""The file that spark-submit is given: it starts the driver of a pipeline (driver.py) out of --py-files."""

import sys

from airflow_provider_streamupdate.streaming.pipelines.driver import main

if __name__ == "__main__":
    sys.exit(main())
