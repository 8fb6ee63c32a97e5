"""Every template of the docs, the DAGs and the docstrings renders without a logical date, as in a run by REST."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow_site import REPOSITORY, Site
from jinja2 import meta

pytestmark = pytest.mark.usefixtures("airflow_db")
TEMPLATE = re.compile(r"(?<!\{)\{\{(?:\{\{)? .+? \}\}(?:\}\})?")
# What the DAG's own task or the notifier adds to the context before it is rendered.
ADDED = {"app": {"stream_maintenance.py"}, "stream_update": {"notify.md", "streamupdate.py"}}
FOLDERS = {"docs": "*.md", "airflow_provider_streamupdate": "*.py", "tests/system/streamupdate": "*.py", "dags": "*.py"}


def files() -> Iterator[Path]:
    yield REPOSITORY / "README.md"
    for folder, pattern in FOLDERS.items():
        yield from sorted(p for p in (REPOSITORY / folder).rglob(pattern) if "node_modules" not in p.parts)


def templates(file: Path) -> list[str]:
    """Those of f-strings have twice as many braces, and fields."""
    found = TEMPLATE.findall(file.read_text(encoding="utf-8"))
    filled = [re.sub(r"(?<!\{)\{[^{}]+\}(?!\})", "x", text) if text.startswith("{{{{") else text for text in found]
    return [text.replace("{{{{", "{{").replace("}}}}", "}}") for text in filled]


SNAPSHOT_NAMES = [
    text
    for page in ("operators/stream-snapshot.md", "sensors/stream-snapshot.md")
    for text in re.findall(r'name="(nightly[^"]*)"', (REPOSITORY / "docs" / page).read_text())
]


def test_no_template_needs_a_logical_date(site: Site) -> None:
    """`ds_nodash` stood in two pages: an undefined name in a run that was started by REST."""
    run = site.run_dag("templates", "tests/airflow/dags", texts=SNAPSHOT_NAMES)
    told = run.xcom("render")
    assert run.state == "success" and told["logical_date"] == "None"
    assert len(told["texts"]) == 2 and all(re.fullmatch(r"nightly-20\d{6}T\d{6}", text) for text in told["texts"])
    assert "dag_run" in told["names"] and "ds_nodash" not in told["names"]
    environment, checked, wrong = DAG("any", schedule=None).get_template_env(), 0, list[str]()
    for file in files():
        for text in templates(file):
            unknown = meta.find_undeclared_variables(environment.parse(text)) - {*told["names"]}
            checked += 1
            wrong += [
                f"{file.relative_to(REPOSITORY)}: {text}" for name in unknown if file.name not in ADDED.get(name, ())
            ]
    assert wrong == [] and checked > 20
