"""Which Spark version this is, and how it differs from others."""

from __future__ import annotations

from types import ModuleType

from pyspark.sql import SparkSession

from ...core.errors import EnvironmentProblem
from .adapters import ADAPTERS


def check_version(spark: SparkSession) -> str:
    """Return Spark's version; EnvironmentProblem when it is not supported, or for a mixed environment."""
    import pyspark

    version = spark.version
    if version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise EnvironmentProblem(
            f"pyspark {pyspark.__version__} is driving Spark {version}: two installations are mixed "
            "(apache-airflow-providers-apache-spark brings pyspark-client, which overwrites pyspark's files); "
            "use an environment for Spark that does not hold Airflow"
        )
    adapter_of(spark)
    return version


def adapter_of(spark: SparkSession) -> ModuleType:
    """How this minor version of Spark differs from the others."""
    minor = ".".join(spark.version.split(".")[:2])
    if minor not in ADAPTERS:
        raise EnvironmentProblem(
            f"Spark {spark.version} is not supported (supported: {', '.join(ADAPTERS)}); "
            f"install pyspark {max(ADAPTERS)}"
        )
    return ADAPTERS[minor]
