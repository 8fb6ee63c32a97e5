"""What runs inside the Spark driver: the app author's API (`StreamingApp`, `stage`, `source`) and the agent.

Imports without Airflow, with pyspark alone: when this package travels as the runtime zip (``--py-files``), the few
pure-Python libraries it needs travel in the zip's ``_libraries`` folder, and are looked up last, so that versions
installed on the cluster win. The author's API comes when it is asked for, since parts of the package need no pyspark.
"""

from __future__ import annotations

import importlib
import sys
import zipimport
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import StreamingApp
    from .sources import source
    from .stages import stage
    from .tables import to_table

_loader = globals().get("__loader__")
if isinstance(_loader, zipimport.zipimporter):
    _libraries = f"{_loader.archive}/_libraries"
    if _libraries not in sys.path:
        sys.path.append(_libraries)

__all__ = ["StreamingApp", "source", "stage", "to_table"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_pyspark()
    module = {"StreamingApp": "app", "source": "sources", "stage": "stages", "to_table": "tables"}[name]
    return getattr(importlib.import_module(f".{module}", __name__), name)


def check_pyspark() -> None:
    """Raise EnvironmentProblem before the import of what another pyspark lacks, whose AttributeError says nothing."""
    import pyspark

    from ..core.errors import SPARK_VERSIONS

    if ".".join(pyspark.__version__.split(".")[:2]) not in SPARK_VERSIONS:
        from ..core.errors import EnvironmentProblem

        raise EnvironmentProblem(
            f"pyspark {pyspark.__version__} of {sys.executable} is not supported; supported are "
            f"{', '.join(SPARK_VERSIONS)}: install pyspark {SPARK_VERSIONS[-1]} into an environment of its own, and "
            "name its spark-submit (--spark-submit, STREAMUPDATE_SPARK_SUBMIT, or the connection's field)"
        )
