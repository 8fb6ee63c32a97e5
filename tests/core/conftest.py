from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test pulls the plug, and waiting for the disk would be most of their time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
