"""What this package uses of Airflow beyond its public interface: each is named here, with what happens without it."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from airflow_site import REPOSITORY, Site
from starlette.testclient import TestClient

PACKAGE = REPOSITORY / "airflow_provider_streamupdate"
# airflow.sdk and what Airflow documents as its public interface besides: exceptions, the base classes of
# triggers and plugins, the interface of auth managers, the configuration.
PUBLIC = (
    *("airflow.sdk", "airflow.providers", "airflow.exceptions", "airflow.triggers.base", "airflow.plugins_manager"),
    *("airflow.api_fastapi.auth.managers", "airflow.api_fastapi.app", "airflow.configuration", "airflow"),
)
PAGE_SAYS_SO = "the page says what it does not show"
NO_PAGE = "the page answers 503 and says why"
PRIVATE = {  # module: (what, by whom, without it)
    "airflow.models.dag": ("DagModel", "plugins/runs.py", PAGE_SAYS_SO),
    "airflow.models.dagrun": ("DagRun", "plugins/runs.py", PAGE_SAYS_SO),
    "airflow.models.taskinstance": ("TaskInstance", "plugins/runs.py", PAGE_SAYS_SO),
    "airflow.models.xcom": ("XComModel", "plugins/runs.py", PAGE_SAYS_SO),
    "airflow.utils.session": ("create_session", "plugins/runs.py plugins/airflow_database.py", PAGE_SAYS_SO),
    "airflow.models.connection": ("Connection", "plugins/airflow_database.py", PAGE_SAYS_SO),
    "airflow.api_fastapi.core_api.security": ("get_user requires_access_dag", "plugins/guard.py", NO_PAGE),
    "airflow.stats": ("Stats", "hooks/metrics.py", "Airflow 3.1's, asked for second; a metric less, logged"),
}


def imports() -> Iterator[tuple[str, str, str]]:
    """Yield (module of Airflow, name, file) of what is neither public nor only for type checkers."""
    for path in [*PACKAGE.rglob("*.py"), *(REPOSITORY / "dags").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) and not node.level else ""
            for name in names:
                of = module or (name if isinstance(node, ast.Import) else "")
                if of.split(".")[0] == "airflow" and not any(
                    of == public or (public != "airflow" and of.startswith(f"{public}.")) for public in PUBLIC
                ):
                    yield of, name, str(path.relative_to(PACKAGE))


def test_nothing_else_of_airflow_is_private() -> None:
    named = {(m, name, f) for m, (names, files, _) in PRIVATE.items() for name in names.split() for f in files.split()}
    assert set(imports()) == named


@pytest.mark.parametrize(("module", "names"), [(module, names.split()) for module, (names, *_) in PRIVATE.items()])
def test_this_airflow_has_them(module: str, names: list[str]) -> None:
    found = pytest.importorskip(module)
    assert [name for name in names if not hasattr(found, name)] == []


def test_the_spark_provider_builds_a_command() -> None:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    for private in ("_build_spark_submit_command", "_resolve_should_track_driver_status"):
        assert callable(getattr(SparkSubmitHook, private))


@pytest.fixture
def without() -> Iterator[Any]:
    """Make modules impossible to import, and this package's page be imported anew."""
    real = builtins.__import__

    for module in PRIVATE:  # Airflow itself has them
        with contextlib.suppress(ImportError):
            importlib.import_module(module)

    def leave_out(*modules: str) -> None:
        def look(name: str, *args: Any, **kwargs: Any) -> Any:
            if name in modules:
                raise ImportError(f"No module named {name!r}")
            return real(name, *args, **kwargs)

        for name in [name for name in sys.modules if name.startswith("airflow_provider_streamupdate.plugins.")]:
            patch.delitem(sys.modules, name)
            patch.delattr(sys.modules["airflow_provider_streamupdate.plugins"], name.rpartition(".")[2], False)
        patch.setattr(builtins, "__import__", look)

    with pytest.MonkeyPatch.context() as patch:  # undone before `site` ends its drivers
        yield leave_out


MODELS = [module for module, (_, _, without) in PRIVATE.items() if without is PAGE_SAYS_SO]


@pytest.mark.parametrize("module", MODELS)
def test_a_page_without_airflows_models(airflow_db: str, site: Site, without: Any, module: str) -> None:
    without(module)
    from airflow_provider_streamupdate.plugins import airflow_database, connections

    assert isinstance(connections.connection_ids(), list)
    assert airflow_database.of_runs(lambda runs: runs.missing(["x"]), ["nothing"]) in (["nothing"], ["x"])
    assert module in str(airflow_database.unread())
    assert "Airflow" in str(airflow_database.unread())


def test_a_page_that_cannot_ask_who_may_see_it(without: Any) -> None:
    without("airflow.api_fastapi.core_api.security")
    from airflow_provider_streamupdate.plugins.streaming_apps import LazyApplication

    answer = TestClient(LazyApplication()).get("/api/apps")
    assert answer.status_code == 503
    assert "does not know Airflow" in answer.text
    assert "core_api.security" in answer.text
