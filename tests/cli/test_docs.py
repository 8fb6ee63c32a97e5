"""The documentation keeps up with the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.state import deployment

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([^)#]+)\)", (DOCS / "index.md").read_text()))
    assert {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")} - linked == {"index.md"}


@pytest.mark.parametrize("name", main.commands)
def test_every_command_and_option_is_described(name: str) -> None:
    text = (DOCS / "cli.md").read_text()
    assert f"`{name}" in text
    for parameter in main.commands[name].params:
        for option in parameter.opts if isinstance(parameter, click.Option) else ():
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), option


@pytest.mark.parametrize("package", ["operators", "sensors"])
def test_every_operator_and_sensor_and_its_arguments_are_described(package: str) -> None:
    text = "\n".join(p.read_text() for p in (DOCS / package).glob("*.md"))
    described = 0
    for module in (REPOSITORY / "airflow_provider_streamupdate" / package).glob("*.py"):
        if module.stem in ("base", "application"):
            continue
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef):
                assert re.search(rf"^#+ {node.name}$", text, re.MULTILINE), node.name
                described += 1
                [init] = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"] or [None]
                for argument in init.args.kwonlyargs if init else ():
                    assert f"`{argument.arg}`" in text, f"{node.name}.{argument.arg}"
    assert described >= 2


def test_every_state_of_a_deployment_is_described() -> None:
    text = (DOCS / "concepts.md").read_text()
    states = {v for k, v in vars(deployment).items() if k.isupper() and isinstance(v, str)}
    assert len(states) == 10
    for state in {*states, "new"}:
        assert f"| `{state}` |" in text


def test_the_readme_is_short_and_opens_with_the_two_commands() -> None:
    lines = (REPOSITORY / "README.md").read_text().splitlines()
    assert len(lines) < 150
    assert "make demo" in "\n".join(lines[:20]) and "make test" in "\n".join(lines[:20])
