"""What drivers and updates say may quote what an app was given: no command shows it."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.cli.messages import echo
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.overview import app_document
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.plan.plan import SourcePlan
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import PROMOTED, Attempt, RollbackRecord, UpdateRecord
from tests.core.builders import app_plan, deploy, query_plan, set_status, status, write_json

from .conftest import Run

QUOTED = "cannot log in with hunter2-xyz at s3a://AK:hun/ter2@bucket/in"


@pytest.fixture
def app(root: Path) -> AppRegistry:
    """A failed driver, an update and a rollback, all of which quote the password."""
    made = Registry(str(root)).app("flights")
    deploy(
        made,
        application=Application(file="application/v1.py", params={"db_pass": "hunter2-xyz", "url": "x?pw=hunter2-xyz"}),
    )
    source = SourcePlan(
        name="s", named=True, format="own", location="s3a://AK:hun/ter2@b", options={"apikey": "hunter2"}
    )
    write_json(made, "deployments/v1/plan.json", app_plan(query_plan(sources=(source,))))
    died = {"error": QUOTED, "reason": QUOTED, "queries": {"q": QueryStatus(error=QUOTED)}}
    set_status(made, "v1", attrs.evolve(status("failed"), **died))
    now = clock.now()
    event = f'{{"format": 1, "event": "state", "state": "failed", "at": "{now}", "epoch": 1, "error": "{QUOTED}"}}\n'
    made.folder.write("deployments/v1/events.jsonl", event.encode())
    made.set_rollback(RollbackRecord(number=1, app="flights", left="v1", back_to="v0", started_at=now, reason=QUOTED))
    made.set_update(
        UpdateRecord(
            app="flights",
            old="v0",
            new="v1",
            started_at=now,
            step_times={"plan": now},
            outcome=PROMOTED,
            reason=QUOTED,
            verified=(QUOTED,),
            attempts=(Attempt(step="plan", began_at=now, ended_at=now, error=QUOTED),),
        )
    )
    return made


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("list",), True),
        (("status", "flights"), True),
        (("trace", "flights"), True),
        (("history", "flights"), True),
        (("history", "flights", "v1"), True),
        (("metrics",), False),
    ],
)
def test_no_command_shows_what_an_app_was_given(
    run: Run, app: AppRegistry, command: tuple[str, ...], told: bool, form: tuple[str, ...]
) -> None:
    result = run(*command, *(form if command != ("metrics",) else ()))
    said = result.stdout + result.stderr
    assert result.exit_code == 0 and "hunter2" not in said and "hun/ter2" not in said, said
    if told:
        assert "cannot log in with (hidden) at s3a://***@bucket/in" in " ".join(said.split())


def test_nor_does_the_page(root: Path, app: AppRegistry) -> None:
    """Airflow's masker, which comes after it, does not know what an app was given."""
    found = str(app_document(StreamUpdateClient(str(root)).context, "flights"))
    assert "hunter2" not in found and "hun/ter2" not in found and found.count("cannot log in with (hidden)") > 5


def test_what_is_said_beside_the_result_hides_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    echo("no apps under s3://u:hunter2@bucket/x", err=True)
    assert capsys.readouterr().err == "no apps under s3://***@bucket/x\n"


@pytest.mark.parametrize(
    "args",
    [
        *(("list", "--root", f"{scheme}://u:hunter2@localhost:1/x") for scheme in ("s3", "http", "ftp", "nosuch")),
        ("list", "--root", "/nosuch?password=hunter2"),
        ("list", "--storage-option", "secret:hunter2"),
        *(("submit", __file__, option, "password:hunter2") for option in ("--set", "--conf", "--env")),
        ("submit", __file__, "--env", "DB_PASSWORD hunter2"),
        ("submit", "https://u:hunter2@h/v1.py"),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_error_of_a_command_quotes_a_secret(run: Run, args: tuple[str, ...], form: tuple[str, ...]) -> None:
    result = run(*args, *form)
    assert result.exit_code and "hunter2" not in result.stdout + result.stderr
