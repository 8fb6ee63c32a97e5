"""The size of the state of a query's stages, as Spark reports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FILES = "rocksdbSstFileSize"  # RocksDBStateStoreProvider.CUSTOM_METRIC_SST_FILE_SIZE: bytes of all its SST files


def state_bytes(progress: Mapping[str, Any]) -> int | None:
    """Bytes of all stages in a progress report (StreamingQueryProgress.json): of RocksDB's files where its provider
    tells them, else ``memoryUsedBytes``. None without a stage."""
    operators = progress.get("stateOperators") or ()
    if not operators:
        return None
    return sum(int((o.get("customMetrics") or {}).get(_FILES) or o.get("memoryUsedBytes") or 0) for o in operators)
