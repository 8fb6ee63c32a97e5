"""Whatever tests, scripts and benchmarks import of the package, or of other tests, is there: many of them run seldom,
and mypy does not read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("airflow_provider_streamupdate", "tests")
FOLDERS = ("tests", "scripts", "benchmarks", "dags", "spark_apps")


def module(name: str) -> Path | None:
    """The file of a module, or the folder of a package without one; None when there is no such module."""
    path = ROOT.joinpath(*name.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py", path)
    return next((file for file in files if file.exists()), None)


@cache
def names(file: Path) -> set[str]:
    """What a module defines or imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())) if file.is_file() else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
    return found


def missing(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in PACKAGES:
            source = module(str(node.module))
            for alias in node.names:
                there = source is not None and alias.name in names(source)
                if not there and module(f"{node.module}.{alias.name}") is None:
                    yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.module} has no {alias.name}"


def test_every_imported_name_is_there() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 400
    assert not [problem for file in files for problem in missing(file)]
