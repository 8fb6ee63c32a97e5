"""A fence keeps every later batch of a checkpoint from beginning, whatever its driver does meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.fence import fence, unfence
from airflow_provider_streamupdate.core.storage import Folder


@pytest.mark.parametrize("meanwhile", [[], [3], [3, 4, 5]], ids=["nothing", "the next batch", "more than are kept"])
def test_it_blocks_the_batch_after_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: list[int]
) -> None:
    checkpoint = Checkpoint(Folder.open(str(tmp_path)))
    for batch in range(3):
        checkpoint.folder.write(f"offsets/{batch}", b"v1\n{}\n1")
    create, calls = Folder.create, []

    def slow(folder: Folder, relative: str, data: bytes, nonce: str | None = None) -> bool:
        calls.append(relative)
        for batch in meanwhile if len(calls) == 1 else ():
            folder.write(f"offsets/{batch}", b"v1\n{}\n1")
            folder.remove(f"offsets/{batch - 2}")
        return create(folder, relative, data, nonce)

    monkeypatch.setattr(Folder, "create", slow)
    assert fence(checkpoint) == 3 + len(meanwhile) == checkpoint.fenced()
    assert checkpoint.logged_batch() == 2 + len(meanwhile)
    unfence(checkpoint)
    assert checkpoint.fenced() is None
