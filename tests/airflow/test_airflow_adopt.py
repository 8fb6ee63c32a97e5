"""StreamAdoptOperator, and a fork by StreamSubmitOperator, against a real root and the stand-in for Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_site import FakeTaskInstance, Site

from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.operators.adopt import StreamAdoptOperator
from tests.core.builders import CheckpointFiles

Context = dict[str, Any]


@pytest.fixture
def legacy(site: Site) -> str:
    """A checkpoint from elsewhere, after batch 0."""
    path = str(site.folder / "legacy")
    CheckpointFiles(Folder.open(path)).batch(0)
    return path


@pytest.mark.parametrize("as_json", [False, True])
def test_adopt_gives_the_snapshot_and_a_retry_the_same(
    site: Site, context: Context, legacy: str, as_json: bool
) -> None:
    given = json.dumps({"events": legacy}) if as_json else legacy

    def operator() -> StreamAdoptOperator:
        return StreamAdoptOperator(task_id="t", app="alarm", application=site.application(), checkpoints=given)

    taken = operator().execute(context)
    assert json.loads(json.dumps(taken))["batches"] == {"events": 0}
    assert (taken["name"], taken["kind"]) == ("adopted", "adopted")
    assert operator().execute({"ti": FakeTaskInstance(try_number=2)}) == taken
    with pytest.raises(AirflowFailException, match="already has a snapshot 'adopted'"):
        operator().execute(context)


def test_a_checkpoint_of_other_code_fails_for_good(site: Site, context: Context, legacy: str) -> None:
    application = site.application(FAIL="adopt")
    operator = StreamAdoptOperator(task_id="t", app="alarm", application=application, checkpoints=legacy)
    with pytest.raises(AirflowFailException, match="nothing was adopted"):
        operator.execute(context)
    assert site.client.apps() == []
