"""A pytest plugin (`-p tests.missing_parts`) for suites whose parts are not there: each test file is skipped without
being imported, for the reason in STREAMUPDATE_MISSING."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest


class Skipped(pytest.Module):
    """A test file whose parts are missing."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        pytest.skip(os.environ["STREAMUPDATE_MISSING"], allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return Skipped.from_parent(parent, path=module_path)
