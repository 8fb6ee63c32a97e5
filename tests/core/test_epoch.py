"""The claim of a driver's epoch on an object store whose answer got lost (tests/core/test_lost_replies.py)."""

from __future__ import annotations

import uuid

from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.core.storage.backends.fsspec_store import FsspecStore
from airflow_provider_streamupdate.streaming.agent.epoch import Epoch
from tests.core.test_lost_replies import Repeating


def test_a_driver_is_the_one_of_its_epoch() -> None:
    store = Repeating(skip_instance_cache=True)
    app = AppRegistry("app", Folder(FsspecStore(store), f"/{uuid.uuid4().hex}/app"))
    spec = DeploymentSpec(
        app="app", deployment="v1", application=Application(file="v1.py"), digest="d", submitted_at="2026-11-24"
    )
    epoch = Epoch(app, spec, 1, standby=False, beside=False)
    store.lost = 1
    assert epoch.claim()
    assert not epoch.claim()  # a second driver, even of the same process
