"""An asset has an event when an app has to be updated to what a release file describes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from airflow_site import DAG_BAG, SYNC_BAG, Site, part_of_airflow

from airflow_provider_streamupdate.assets import release_asset
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.triggers.release import ReleaseTrigger

pytestmark = pytest.mark.processes


def test_the_asset_watches_the_file(tmp_path: Path) -> None:
    asset = release_asset(str(tmp_path / "release.json"), "other", 5.0)
    [watcher] = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path.endswith("triggers.release.ReleaseTrigger")
    assert arguments == {
        "release_file": str(tmp_path / "release.json"), "streamupdate_conn_id": "other", "poll_interval": 5.0
    }  # fmt: skip
    assert ReleaseTrigger(**arguments).serialize() == (path, arguments)
    with pytest.raises(InvalidInputError, match="must be an absolute path"):
        release_asset("release.json")


def test_airflow_keeps_the_watcher_of_a_dag_that_is_scheduled_on_it(tmp_path: Path, airflow_db: str) -> None:
    """A scheduler makes the trigger from what the DAG's file was read into."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.asset import AssetModel
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from sqlalchemy import select

    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "watching.py").write_text(
        "from airflow.sdk import DAG\nfrom airflow.providers.standard.operators.empty import EmptyOperator\n"
        "from airflow_provider_streamupdate.assets import release_asset\n"
        f"with DAG('watching', schedule=[release_asset('{tmp_path}/release.json')], is_paused_upon_creation=False):\n"
        "    EmptyOperator(task_id='t')\n"
    )
    bag = part_of_airflow(*DAG_BAG)(str(tmp_path / "dags"))
    assert not bag.import_errors
    DagBundlesManager().sync_bundles_to_db()
    for _ in range(2):  # of a DAG that was active before
        part_of_airflow(*SYNC_BAG)(bag, "dags-folder", None)
    with create_session() as session:
        [asset] = session.scalars(select(AssetModel).where(AssetModel.uri.like("file:%release.json")))
        [kept] = [t for t in session.scalars(select(Trigger)) if t.classpath.endswith("ReleaseTrigger")]
        assert [trigger.id for trigger in asset.triggers] == [kept.id]
        again = ReleaseTrigger(**kept.kwargs)
    assert again.release_file == f"{tmp_path}/release.json" and again.poll_interval == 30.0


async def follow(events: AsyncIterator[Any], steps: list[tuple[Callable[[], Any], bool]]) -> list[dict[str, Any]]:
    """Do the steps, one after the other, each of which an event follows, or none within many polls."""
    found: list[dict[str, Any]] = []
    pending: Any = None
    for do, follows in steps:
        await asyncio.to_thread(do)
        pending = pending or asyncio.ensure_future(anext(events))
        if follows:
            found.append(dict((await asyncio.wait_for(pending, 30)).payload))
            pending = None
        else:
            done, _ = await asyncio.wait([pending], timeout=0.5)
            assert not done, pending
    pending = pending and pending.cancel()
    return found


def test_each_new_content_has_one_event(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "release.json"

    def describe(version: str, **more: Any) -> None:
        site.application(version)
        described = tmp_path / "next.json"
        described.write_text(json.dumps({"app": "alarm", "application": f"{version}.py", **more}))
        described.rename(file)

    def bring_in(version: str) -> None:
        site.client.update(
            UpdateOptions(application=Application(file=site.application(version)), strategy="restart", verify_for=0.0)
        )

    found = asyncio.run(
        follow(
            ReleaseTrigger(str(file), poll_interval=0.05).run(),
            [
                (lambda: None, False),  # no file
                (lambda: file.write_text("{"), False),  # half of it
                (lambda: describe("v1"), False),  # never submitted
                (lambda: site.submit(), False),  # runs
                (lambda: describe("v2"), True),
                (lambda: bring_in("v2"), False),
                (lambda: describe("v2", agree=["events/rooms"]), False),  # runs already
                (lambda: describe("v3"), True),
                (lambda: None, False),  # nobody has brought it in yet
                (lambda: describe("v3", agree=["events/rooms"]), True),
            ],
        )
    )
    assert [event["application"] for event in found] == [str(tmp_path / f"{v}.py") for v in ("v2", "v3", "v3")]
    assert {event["app"] for event in found} == {"alarm"} and len({event["digest"] for event in found}) == 2
