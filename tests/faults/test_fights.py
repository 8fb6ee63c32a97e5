"""An app's lease and its epochs, fought for by many processes (issue 18); on S3 and HDFS: tests/ground."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fights import fight


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_lease_has_one_holder_and_an_epoch_one_deployment(tmp_path: Path) -> None:
    fight(str(tmp_path / "root"), tmp_path).check(held=50, claimed=50)
