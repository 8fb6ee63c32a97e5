from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.registry.application import Application, default_deployment_id


@pytest.fixture
def application(tmp_path: Path) -> Application:
    for name in ("app.py", "helper.py", "data.csv"):
        (tmp_path / name).write_text(f"# {name}\n")
    return Application(
        file=str(tmp_path / "app.py"),
        py_files=(str(tmp_path / "helper.py"),),
        files=(str(tmp_path / "data.csv"),),
        params={"input": "/in"},
        conf={"spark.x": "1"},
    )


def test_a_good_one_passes(application: Application) -> None:
    application.check()


@pytest.mark.parametrize(("file", "problem"), [("nix.py", "does not exist"), (".", "is a folder"), ("", "is a folder")])
def test_a_missing_file_is_told(tmp_path: Path, file: str, problem: str) -> None:
    with pytest.raises(ApplicationError, match=f"application file .* {problem}"):
        Application(file=str(tmp_path / file)).check()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("from pyspark import pipelines as dp\n@dp.table\ndef orders(): ...\n", True),
        ("import pyspark.pipelines as dp\n", True),
        ("from pyspark.pipelines import table\n", True),
        ("from . import pipelines\nfrom company.pyspark import pipelines\nimport pyspark\n", False),
        ("# from pyspark import pipelines\ntext = 'import pyspark.pipelines'\n", False),
    ],
)
def test_a_pipeline_s_file_is_told(tmp_path: Path, text: str, refused: bool) -> None:
    (tmp_path / "app.py").write_text(text)
    application = Application(file=str(tmp_path / "app.py"))
    if not refused:
        application.check()
        return
    with pytest.raises(ApplicationError, match=r"app.py is of a Spark Declarative Pipeline .* adopt its checkpoint"):
        application.check()


@pytest.mark.parametrize("text", [b"def broken(:\n", b"\xff\xfe", b"x = 1\0"])
def test_a_file_that_does_not_parse_is_told(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "app.py").write_bytes(text)
    with pytest.raises(ApplicationError, match=r"does not parse as Python: .*; fix it and try again"):
        Application(file=str(tmp_path / "app.py")).check()


@pytest.mark.parametrize("part", ["py_files", "files"])
def test_a_missing_extra_file_is_told(application: Application, part: str) -> None:
    with pytest.raises(ApplicationError, match=r"file /nix/a of application .*app\.py does not exist"):
        attrs.evolve(application, **{part: ("/nix/a",)}).check()


def test_a_parameter_that_is_no_text_is_told(application: Application) -> None:
    with pytest.raises(ApplicationError, match=r"parameter 'n'=7 of .* must have a name and a text value"):
        attrs.evolve(application, params={"n": 7}).check()


def test_the_digest_tells_whether_two_run_alike(application: Application, tmp_path: Path) -> None:
    digest = application.digest()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other_name.py").write_text("# app.py\n")
    assert attrs.evolve(application, file=str(elsewhere / "other_name.py")).digest() == digest, "not where it lies"
    changed = [
        attrs.evolve(application, params={"input": "/in2"}),
        attrs.evolve(application, conf={}),
        attrs.evolve(application, env_vars={"A": "1"}),
        attrs.evolve(application, master="local[4]"),
        attrs.evolve(application, py_files=()),
        attrs.evolve(application, files=()),
    ]
    digests = {a.digest() for a in changed}
    Path(application.file).write_text("# another\n")
    digests.add(application.digest())
    assert len(digests) == 7 and digest not in digests


def test_default_ids_are_short_and_unused() -> None:
    digest = "0123456789abcdef"
    assert default_deployment_id("a", digest, set()) == "01234567"
    assert default_deployment_id("a", digest, {"01234567", "01234567-2"}) == "01234567-3"
