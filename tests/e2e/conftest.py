"""The ground of the tests with real drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.ground import APPS, Ground


@pytest.fixture
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    """The module's own (GROUND), or the usual one."""
    made = getattr(request.module, "GROUND", Ground)(tmp_path)
    yield made
    made.end()


@pytest.fixture
def write_app(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write an application file: version 1 of motion-alarm with a line of it replaced."""

    def write(old: str, new: str) -> Path:
        text = (APPS / "motion_alarm" / "v1.py").read_text()
        assert old in text
        path = tmp_path / "changed.py"
        path.write_text(text.replace(old, new))
        return path

    return write
