"""Of real checkpoints of every store, format and Spark version, an export takes exactly what Spark would load.

What that is, is worked out here another way: by what the file's own format says, starting from the commit log.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.core.storage import Folder
from tests.golden import DEPLOYMENT, FOLDER, SPARKS, STORES, kept, unpack

from .test_listed import bucket


def test_the_archives_are_small_and_all_there() -> None:
    assert {(spark, store) for spark in SPARKS for store in STORES} == set(kept())
    assert len(list(FOLDER.glob("spark-*"))) == len(kept())
    assert sum(p.stat().st_size for p in FOLDER.iterdir()) < 1_500_000


@pytest.mark.parametrize(("spark", "store"), kept())
def test_an_export_takes_what_spark_would_load(spark: str, store: str, tmp_path: Path) -> None:
    app = unpack(spark, store, tmp_path)
    plan = app.plan(DEPLOYMENT)
    assert plan is not None and plan.spark_version.startswith(f"{spark}.")
    for query in plan.queries:
        folder = app.checkpoint(DEPLOYMENT, query.name)
        exported = Checkpoint(folder).export(carry_in_flight=True, source_order=query.source_order)
        files = {f.path for f in exported.files}
        batch = exported.batch
        assert batch >= 3 and exported.in_flight in (None, batch + 1)
        assert exported.state_format == STORES[store][2]
        assert {"metadata", f"offsets/{batch}", f"offsets/{batch - 1}", f"commits/{batch}"} <= files
        # Spark's own description of an operator is made anew by a restore.
        state = {f for f in files if f.startswith("state/") and not {"_metadata", "_stateSchema"} & set(f.split("/"))}
        assert state == _state(plan, query.name, folder, batch)
        assert all(folder.size(f.path) == f.size for f in exported.files)
        there = bucket(folder)
        for in_flight in (False, True):  # what one listing of a bucket tells is what asking for each folder tells
            assert Checkpoint(there).export(in_flight) == Checkpoint(folder).export(in_flight)


def _state(plan: AppPlan, query: str, folder: Folder, batch: int) -> set[str]:
    """All files a restart loads state from."""
    top = Path(folder.base)
    ids = json.loads((top / f"commits/{batch}").read_text().split("\n")[1]).get("stateUniqueIds")
    found = set()
    stages = plan.query(query)
    assert stages is not None and len(stages.stages) == 1
    [stage] = stages.stages
    for partition in (p for p in (top / "state/0").iterdir() if p.name.isdigit()):
        for number, store in enumerate(stage.stores):
            where = partition if store == "default" else partition / store
            name = str(batch + 1) + (f"_{ids['0'][int(partition.name)][number]}" if ids else "")
            found |= {str((where / file).relative_to(top)) for file in _chain(where, name)}
    return found


def _chain(folder: Path, name: str) -> set[str]:
    """From the file of a version back to the first full one, or to the beginning."""
    version = int(name.split("_")[0])
    if version == 0:
        return set()
    for full in (f"{name}.zip", f"{name}.snapshot"):
        if (folder / full).exists():
            return {full, *_sums(folder, full), *_named_by(folder / full)}
    [change] = [c for c in (f"{name}.changelog", f"{name}.delta") if (folder / c).exists()]
    # Nothing failed while these were written, so of each older version there is one id.
    [before] = {p.stem for p in folder.glob(f"{version - 1}[._]*") if not p.name.endswith(".crc")} or {"0"}
    return {change, *_sums(folder, change), *_chain(folder, before)}


def _sums(folder: Path, name: str) -> set[str]:
    return {f"{name}.crc"} if (folder / f"{name}.crc").exists() else set()


def _named_by(full: Path) -> set[str]:
    if full.suffix != ".zip":
        return set()
    with zipfile.ZipFile(full) as archive:
        metadata = json.loads(archive.read("metadata").decode().split("\n", 1)[1])
    return {f"SSTs/{f['dfsSstFileName']}" for f in metadata["sstFiles"]}
