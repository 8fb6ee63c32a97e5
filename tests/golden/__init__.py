"""Golden checkpoints: small ones that Spark itself wrote, of each store, format and kind of stage.

`app` is the app they are of. ``python -m tests.golden FOLDER`` writes those of the Spark it runs with; make golden does
so for all versions, into tests/data/golden.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry

FOLDER = Path(__file__).parents[1] / "data" / "golden"
NAME = "golden"
DEPLOYMENT = "d1"

# Store provider's class, changelogs, checkpoint format.
_STATE = "org.apache.spark.sql.execution.streaming.state."
STORES = {
    "hdfs": (f"{_STATE}HDFSBackedStateStoreProvider", False, 1),
    "rocksdb": (f"{_STATE}RocksDBStateStoreProvider", False, 1),
    "changelog": (f"{_STATE}RocksDBStateStoreProvider", True, 1),
    "rocksdb-v2": (f"{_STATE}RocksDBStateStoreProvider", False, 2),
    "changelog-v2": (f"{_STATE}RocksDBStateStoreProvider", True, 2),
}
SPARKS = ("4.0", "4.1", "4.2", "4.3")


def pack(root: Path, target: Path) -> None:
    """Everything under a root, without the hidden files a local disk has beside a checkpoint's."""
    with tarfile.open(target, "w:xz") as archive:
        for path in sorted(root.rglob("*")):
            relative = path.relative_to(root)
            if path.is_file() and not any(part.startswith(".") for part in relative.parts):
                archive.add(path, str(relative))


def kept(folder: Path = FOLDER) -> list[tuple[str, str]]:
    """The Spark versions and stores there are archives of."""
    return [(v, s) for v in SPARKS for s in STORES if (folder / f"spark-{v}-{s}.tar.xz").exists()]


def unpack(spark: str, store: str, root: Path, folder: Path = FOLDER) -> AppRegistry:
    """The app with its one deployment, under a new root."""
    with tarfile.open(folder / f"spark-{spark}-{store}.tar.xz") as archive:
        archive.extractall(root, filter="data")
    return Registry(str(root)).app(NAME)
