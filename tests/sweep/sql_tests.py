"""The queries of Spark's own SQL tests, out of its test jar, which Maven fetches when the sweep runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sweep.corpus import Function
from tests.sweep.sql_text import tokens

_JAR = "org.apache.spark:spark-sql_2.13:4.1.0:jar:tests"  # the newest that there is of Spark 4
_SHA256 = "484f425e2cab0e3ad069d4bf2f567bf0077c95ef95dd52ebc75efcee33064c30"
_INPUTS = "sql-tests/inputs/"
_ROOT = Path(__file__).parents[2]


def sparks_test_jar() -> Path:
    """Return Spark's test jar; the test is skipped where it cannot be had."""
    folder = Path(os.environ.get("STREAMUPDATE_GROUND") or _ROOT / ".ground") / "sql-tests"
    _, name, version, _, kind = _JAR.split(":")
    jar = folder / f"{name}-{version}-{kind}.jar"
    if not jar.is_file():
        if shutil.which("mvn") is None:
            pytest.skip("mvn is not installed, which fetches Spark's test jar (Debian: apt-get install maven)")
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={_JAR}", f"-DoutputDirectory={folder}"]
        done = subprocess.run([*command, "-Dtransitive=false"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"Spark's test jar cannot be fetched: {done.stdout[:300]}")
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == _SHA256, f"{jar} is another one than was meant"
    return jar


def queries(jar: Path) -> list[Function]:
    """Return each file of tests as if it were a function: its queries of given values are the examples."""
    found = []
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(n for n in archive.namelist() if n.startswith(_INPUTS) and n.endswith(".sql")):
            examples = tuple(dict.fromkeys(_selects(archive.read(name).decode())))
            found.append(Function(f"sql test {name.removeprefix(_INPUTS)}", "", examples))
    return [function for function in found if function.examples]


def _selects(text: str) -> Iterator[str]:
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    for statement in re.split(r";\s*(?:\n|$)", plain):
        query = " ".join(statement.split())
        if re.match(r"(?i)SELECT\b", query) and not re.search(r"(?i)\bFROM\b(?! VALUES| \()", query):
            with contextlib.suppress(ValueError):  # of a few literals sql_text.py knows no tokens
                tokens(query)
                yield query
