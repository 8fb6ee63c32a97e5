"""Spark's daemon of Python workers, which has loaded what each of them would import: they are forked from it. A worker
that is idle for a minute ends, and the next one took a second to begin (measured)."""

from __future__ import annotations

import gc
import importlib
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads before a fork

import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.sql.streaming  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    importlib.import_module(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    gc.freeze()
    manager()
