"""Spark's JVM internals have one door: the package streaming/spark_internals, entered by what it exports."""

from __future__ import annotations

import ast
from pathlib import Path

import airflow_provider_streamupdate

PACKAGE = Path(airflow_provider_streamupdate.__file__).parent
DOOR = PACKAGE / "streaming" / "spark_internals"
INSIDE = {"_jvm", "_jdf", "_jsc", "_jspark", "_jsparkSession", "_jwrite", "_jsq", "_gateway", "_jc"}


def test_nothing_else_touches_the_jvm_or_looks_behind_the_door() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if DOOR not in file.parents]
    assert len(files) > 100
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            assert not (isinstance(node, ast.Attribute) and node.attr in INSIDE), (file, node.lineno)
            if isinstance(node, ast.ImportFrom):
                assert "spark_internals." not in (node.module or ""), (file, node.lineno)
