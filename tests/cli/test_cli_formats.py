"""An app whose files a newer release wrote is left alone."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_streamupdate.control.waiting import wait_for

from .conftest import Site, document

APP = "alarm"


def application(site: Site, version: str, named: bool = False) -> str:
    return str(site.application(version, named, STATE=True, RELOADABLE=["threshold"]))


# The last one is read by the running driver, too, which ends: it cannot tell any more who may commit.
NEWER = ("deployments/v1/spec", "deployments/v1/launch", "deployments/v1/plan", "updates/v2", "lease/*", "rollbacks/1",
         "snapshots/before-v2/snapshot", "current")  # fmt: skip


def still(app: Path) -> dict[Path, bytes]:
    """All that no running driver writes by itself."""
    own = {"checkpoint", "history"}
    files = (p for p in app.rglob("*") if p.is_file() and own.isdisjoint(p.parts) and "status.json" not in p.name)
    return {p: p.read_bytes() for p in files if p.suffix != ".log" and p.name != "events.jsonl"}


def test_what_a_newer_version_has_written_is_told_before_anything_is_stopped(site: Site) -> None:
    five = ("--set", "threshold=5")
    site.ok("submit", application(site, "v1"), "--deployment", "v1", *five)
    site.ok("update", application(site, "v2"), "--deployment", "v2", "--strategy", "restart", *five)
    site.ok("rollback", APP)
    new = application(site, "v5", named=True)  # so that its app is known before it is planned
    top = site.folder / "root" / APP
    for name in NEWER:
        [path] = top.glob(f"{name}.json")
        whole = path.read_bytes()
        path.write_bytes(json.dumps({**json.loads(whole), "format": 2, "format_since": "0.9.0"}).encode())
        before = still(top)
        args = ("update", new, "--set", "threshold=7", "--deployment", "v5", "--json")
        if name.startswith("snapshots"):
            args += ("--strategy", "restart", "--snapshot", "before-v2")
        result = site.run(*args)
        assert result.exit_code == 1, name
        error = document(result)["error"]
        assert error["type"] == "NewerFormatError", (name, error)
        assert "use airflow-provider-streamupdate >= 0.9.0" in error["message"] and path.name in error["message"]
        assert name == "current" or still(top) == before, name
        if name == "current":
            wait_for(lambda: None if site.alive() else True, "the end of v1's driver", 60)
        path.write_bytes(whole)
        assert name == "current" or site.alive() == ["v1"], name
    assert "NewerFormatError" in str(site.app.status("v1"))
    site.ok("restart", APP)
    site.ok("update", new, "--set", "threshold=7", "--deployment", "v5")
