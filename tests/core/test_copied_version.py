"""What a copy of a version (a hot standby's, a comparison's) keeps of what that version agreed to."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_streamupdate.control.drivers.drivers import Drivers
from airflow_provider_streamupdate.control.operations.version import store_copy
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.serde import to_json

from .builders import app_plan, query_plan, spec, stage_plan


def test_a_copy_keeps_no_agreement_to_the_change_that_made_its_version(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("")
    registry, plan = Registry(str(tmp_path / "root")).app("flights"), app_plan(query_plan(stage_plan()))
    agreed = ("windows:fork", "windows/seen=not needed")  # of the update that brought v2 in
    application = Application(file="application/app.py")
    registry.folder.write("deployments/v2/application/app.py", b"")
    registry.create_deployment(spec("v2", agree=agreed, application=application))
    registry.folder.write("deployments/v2/plan.json", to_json(plan))
    drivers = Drivers(registry, None, str(tmp_path / "root"), {})
    copy = store_copy(registry, drivers, "v2", "v2-standby-1", owner="hot standby of v2")
    assert copy.agree == () and copy.digest == registry.spec("v2").digest
    assert compare(plan, plan, "v2", copy.agree).compatible  # its driver compares so, and refuses other names
