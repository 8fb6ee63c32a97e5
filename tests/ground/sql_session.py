"""A Spark of the tests' own, in a process of its own, that runs SQL: what becomes of a table is not an app's work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

_HERE = Path(__file__)


class SqlSession:
    """python: of an environment with pyspark. conf: of the session"""

    def __init__(self, python: Path, conf: dict[str, str], log: Path) -> None:
        self._log = log.open("w")
        self._process = subprocess.Popen(
            [str(python), str(_HERE), json.dumps(conf)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> SqlSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()

    def run(self, *statements: str) -> list[list[Any]]:
        """The rows of the last one. AssertionError with the error of one that fails."""
        answer: dict[str, Any] = {"rows": []}
        for statement in statements:
            assert self._process.stdin is not None and self._process.stdout is not None
            print(json.dumps(statement), file=self._process.stdin, flush=True)
            line = next((text for text in self._process.stdout if text.startswith("answer: ")), None)
            assert line is not None, f"the session has ended: {Path(self._log.name).read_text()[-2000:]}"
            answer = json.loads(line.removeprefix("answer: "))
            assert "error" not in answer, f"{statement}: {answer['error']}"
        rows: list[list[Any]] = answer["rows"]
        return rows


def _serve(conf: dict[str, str]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            answer = {"rows": [list(row) for row in spark.sql(json.loads(line)).collect()]}
        except Exception as error:
            answer = {"error": str(error)[:2000]}
        print("answer: " + json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
