from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test pulls the plug, and waiting for the disk would be most of their time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    """App `flights`, of which nothing is there yet."""
    return Registry(str(tmp_path)).app("flights")


@pytest.fixture
def client(tmp_path: Path) -> StreamUpdateClient:
    return StreamUpdateClient(str(tmp_path))
