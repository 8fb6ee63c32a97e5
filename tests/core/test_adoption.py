"""Which folder is the checkpoint that is to be adopted."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.snapshots.adoption import find_checkpoint


def test_the_folder_of_a_pipeline_s_flow_names_its_newest_checkpoint(tmp_path: Path) -> None:
    flow = tmp_path / "_checkpoints" / "spark_catalog" / "default" / "orders" / "orders"
    for version in ("9", "10"):
        (flow / version / "offsets").mkdir(parents=True)
        (flow / version / "metadata").write_text("{}")
    with pytest.raises(InvalidInputError, match=r"Spark Declarative Pipeline.* give the one in use, .*/orders/10$"):
        find_checkpoint(str(flow))


def test_numbered_files_are_no_checkpoints(tmp_path: Path) -> None:
    """The offsets of a checkpoint, given in its place."""
    (tmp_path / "0").write_text("v1\n{}\n")
    with pytest.raises(InvalidInputError, match="is not a checkpoint: it has no metadata and no offsets"):
        find_checkpoint(str(tmp_path))


def test_an_empty_folder_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is not a checkpoint: it has no metadata and no offsets"):
        find_checkpoint(str(tmp_path))
