"""`streaming.testing`: what a user's pytest says of versions of an app is what a real update does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.errors import ApplicationError, NotFoundError
from airflow_provider_streamupdate.streaming.testing import LocalApp

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "guides" / "test-an-app.md"
APP = """
from pyspark.sql import functions as F
from airflow_provider_streamupdate.streaming import StreamingApp, source, stage
import rates
app = StreamingApp("sales")
@app.query("sales", seen_batch="replaces")
def sales(spark, params):
    spark.conf.set("spark.sql.shuffle.partitions", params.get("partitions", "2"))
    rows = source("in", spark.readStream.schema("k string, a long").json(params["in"]))
    keyed = rows.select("k", (F.col("a") * rates.RATE).alias("a"))
    def write(batch, number):
        raise AssertionError("a test calls no sink")
    return stage("totals", keyed.groupBy("k").agg(AGGREGATES)).writeStream.outputMode("update").foreachBatch(write)
if __name__ == "__main__":
    app.main()
"""


def version(folder: Path, aggregates: str, rate: int = 1) -> Path:
    folder.mkdir()
    (folder / "rates.py").write_text(f"RATE = {rate}\n")
    file = folder / "app.py"
    file.write_text(APP.replace("AGGREGATES", aggregates))
    return file


@pytest.fixture
def app(spark, tmp_path: Path) -> LocalApp:
    made = LocalApp(spark, tmp_path / "app")
    made.write("in", [{"k": "a", "a": 1}, {"k": "b", "a": 2}])
    return made


@pytest.mark.slow  # a Spark of its own
def test_the_page_s_example_passes(tmp_path: Path) -> None:
    """As a user runs it: the files of the page, and pytest."""
    text = PAGE.read_text()
    blocks = re.findall(r"^`([\w/]+\.py)`.*?\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == ["orders/v1.py", "orders/v2.py", "tests/test_orders.py"]
    for name, code in blocks:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "2 passed" in done.stdout


def test_state_goes_on_through_versions_and_each_has_the_modules_beside_it(app: LocalApp, tmp_path: Path) -> None:
    one = version(tmp_path / "one", 'F.sum("a").alias("total")')
    rows = app.start(one)
    assert sorted((r["k"], r["total"]) for r in rows["sales"]) == [("a", 1), ("b", 2)]
    app.write("in", [{"k": "a", "a": 10}])
    again = app.update(one)
    assert again.report.compatible and again.rows == {"sales": [{"k": "a", "total": 11}]}
    app.write("in", [{"k": "a", "a": 100}])
    other = app.update(version(tmp_path / "two", 'F.sum("a").alias("total")', rate=3))
    assert "rates" not in sys.modules
    if other.report.compatible:
        assert other.rows == {"sales": [{"k": "a", "total": 311}]}
    else:
        assert any("sales/totals" in problem for problem in other.report.problems)


def test_a_loss_needs_agreement_as_in_a_real_update(app: LocalApp, tmp_path: Path) -> None:
    app.start(version(tmp_path / "one", 'F.sum("a").alias("total")'))
    gone = tmp_path / "one" / "gone.py"
    totals = 'stage("totals", keyed.groupBy("k").agg(F.sum("a").alias("total")))'
    gone.write_text((tmp_path / "one" / "app.py").read_text().replace(totals, "keyed"))
    refused = app.update(gone)
    assert not refused.report.compatible and refused.rows == {}
    assert any("--agree sales/totals" in problem for problem in refused.report.problems)
    app.write("in", [{"k": "c", "a": 5}])
    agreed = app.update(gone, agree=["sales/totals"])
    assert agreed.verdict("sales/totals") == "ignored" and agreed.rows == {"sales": [{"k": "c", "a": 5}]}
    with pytest.raises(NotFoundError, match=r"the report has no 'nix'; it has .*sales/totals"):
        agreed.verdict("nix")


def test_what_is_no_app_and_an_update_without_a_first_version_are_told(app: LocalApp, tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with pytest.raises(NotFoundError, match="call start"):
        app.update(empty)
    main = sys.modules["__main__"]
    with pytest.raises(ApplicationError, match="calls main\\(\\) of 0 apps"):
        app.start(empty)
    assert sys.modules["__main__"] is main and str(tmp_path) not in sys.path
