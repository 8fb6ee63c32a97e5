"""What runs inside the Spark driver: the app author's API (`StreamingApp`, `stage`, `source`) and the agent.

Imports without Airflow, with pyspark alone: when this package travels as the runtime zip (``--py-files``), the few
pure-Python libraries it needs travel in the zip's ``_libraries`` folder, and are looked up last, so that versions
installed on the cluster win.
"""

from __future__ import annotations

import sys
import zipimport

_loader = globals().get("__loader__")
if isinstance(_loader, zipimport.zipimporter):
    _libraries = f"{_loader.archive}/_libraries"
    if _libraries not in sys.path:
        sys.path.append(_libraries)

from .app import StreamingApp  # noqa: E402  (the path above must be there first)
from .source import source  # noqa: E402
from .stage import stage  # noqa: E402

__all__ = ["StreamingApp", "source", "stage"]
