"""The wheel beside an Airflow that is later than any that was there when it was made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest
from airflow_site import REPOSITORY
from packaging.requirements import Requirement

UV = REPOSITORY / ".uv" / "bin" / "uv"
LATER = "3.4.0"
LEFT_OUT = shutil.ignore_patterns(".*", "node_modules", "build", "*.egg-info", "__pycache__", "tests", "site")
pytestmark = pytest.mark.slow

SCRIPT = """
import importlib, json, pkgutil
import airflow, airflow_provider_streamupdate as package
from airflow.plugins_manager import ensure_plugins_loaded
from airflow.providers_manager import ProvidersManager
from airflow.sdk import task
modules = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
of_airflow = "hooks operators sensors triggers links notifications plugins decorators openlineage update_dag".split()
imported = [importlib.import_module(m).__name__ for m in modules if m.split(".")[1] in of_airflow]
ensure_plugins_loaded()
import airflow.plugins_manager as loaded
names = [p.name for p in loaded.plugins] if hasattr(loaded, "plugins") and loaded.plugins else [
    p.name for p in loaded._get_plugins()[0]]
manager = ProvidersManager()
info = manager.providers["airflow-provider-streamupdate"].data
print(json.dumps({
    "airflow": airflow.__version__, "file": package.__file__, "imported": len(imported), "plugins": names,
    "operators": [m for each in info["operators"] for m in each["python-modules"]],
    "hook": type(manager.hooks["streamupdate"]).__name__, "decorator": callable(task.stream_update),
}))
"""


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This environment's packages with an Airflow that says that it is later, and this package's wheel."""
    folder = tmp_path_factory.mktemp("later")
    [here] = [Path(p) for p in sys.path if (Path(p) / "airflow" / "__init__.py").exists()]
    site = folder / "site"
    editable = shutil.ignore_patterns("__editable__*", "airflow_provider_streamupdate*", "__pycache__")
    shutil.copytree(here, site, ignore=editable, symlinks=True)
    for name in ("apache_airflow", "apache_airflow_core"):
        [info] = site.glob(f"{name}-*.dist-info")
        old, metadata = info.name.split("-")[1].removesuffix(".dist-info"), info / "METADATA"
        metadata.write_text(metadata.read_text().replace(old, LATER))
        info.rename(site / f"{name}-{LATER}.dist-info")
    init = site / "airflow" / "__init__.py"
    init.write_text(re.sub(r'__version__ = "[^"]+"', f'__version__ = "{LATER}"', init.read_text()))
    shutil.copytree(REPOSITORY, folder / "source", ignore=LEFT_OUT)
    build = ("build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable)
    run(UV, *build, "--out-dir", folder, folder / "source")
    [wheel] = folder.glob("*.whl")
    run(UV, "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel)
    return site


def run(*command: Any, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        cwd="/",  # where this package is not
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_that_it_requires_is_bounded_below_that_airflow(later: Path) -> None:
    [info] = later.glob("airflow_provider_streamupdate-*.dist-info")
    required = [Requirement(text) for text in Distribution.at(info).requires or ()]
    assert len(required) > 10
    for requirement in (r for r in required if r.marker is None or r.marker.evaluate({"extra": ""})):
        [found] = {d.version for d in Distribution.discover(path=[str(later)], name=requirement.name)}
        assert requirement.specifier.contains(found), requirement


def test_it_is_imported_and_found_and_its_plugin_loaded(later: Path, tmp_path: Path) -> None:
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    environment = {
        "PYTHONPATH": str(later),
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
    }
    found = json.loads(run(python, "-S", "-c", SCRIPT, **environment).splitlines()[-1])
    assert found["airflow"] == LATER and Path(found["file"]).is_relative_to(later)
    assert "streamupdate" in found["plugins"]
    assert found["imported"] > 50 and found["decorator"] and found["hook"] != "NoneType"
    assert "airflow_provider_streamupdate.operators.whole_update" in found["operators"]
    listed = run(python, "-S", "-m", "airflow", "providers", "list", "--output", "json", **environment)
    assert "airflow-provider-streamupdate" in listed
