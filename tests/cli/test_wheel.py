"""What a user gets who installs the wheel that this source tree makes, and the DAGs that init-dags copies out of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate import __version__

from .conftest import Run, document

ROOT = Path(__file__).resolve().parents[2]
DAGS = sorted(path.name for path in (ROOT / "dags").glob("*.py"))
URL = "https://example.org/somebody/streamupdate"


@attrs.frozen
class Wheel:
    """The names in it, and its metadata."""

    names: list[str]
    metadata: Message

    @property
    def links(self) -> list[str]:
        return re.findall(r"\]\(([^)\s]+)\)", str(self.metadata.get_payload()))


def build(folder: Path, url: str) -> Wheel:
    source = folder / "source"
    kept = shutil.ignore_patterns(".*", "node_modules", "build", "*.egg-info", "__pycache__", "tests", "site")
    shutil.copytree(ROOT, source, ignore=kept, symlinks=True)
    code = "from setuptools import build_meta; print(build_meta.build_wheel('../made'))"
    (folder / "made").mkdir()
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=source,
        env={**os.environ, "REPOSITORY_URL": url},
        capture_output=True,
        text=True,
        check=True,
    )
    with zipfile.ZipFile(folder / "made" / made.stdout.split()[-1]) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        return Wheel(names, message_from_bytes(archive.read(metadata)))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    return build(tmp_path_factory.mktemp("wheel"), f"{URL}.git")


def test_it_holds_types_dags_and_the_page(wheel: Wheel) -> None:
    for name in ("py.typed", *(f"example_dags/{dag}" for dag in DAGS), "plugins/www/dist/index.html"):
        assert f"airflow_provider_streamupdate/{name}" in wheel.names, name
    assert not [name for name in wheel.names if name.startswith(("dags/", "tests/")) or "/www/src/" in name]
    assert "setup.py" not in wheel.names


def test_it_says_where_the_project_is(wheel: Wheel) -> None:
    urls = dict(url.split(", ", 1) for url in wheel.metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Source", "Documentation", "Changelog", "Issues"}
    assert urls["Homepage"] == URL and urls["Documentation"] == f"{URL}/blob/HEAD/docs/index.md"
    for url in (urls["Documentation"], urls["Changelog"]):
        assert (ROOT / url.removeprefix(f"{URL}/blob/HEAD/")).is_file()


def test_its_version_is_the_package_s(wheel: Wheel) -> None:
    assert wheel.metadata["Version"] == __version__
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_links_of_its_description_lead_to_the_repository(wheel: Wheel) -> None:
    """Where an index shows it, there is no docs/ beside it."""
    assert wheel.metadata["Description-Content-Type"] == "text/markdown"
    assert len(wheel.links) > 20
    for link in wheel.links:
        assert link.startswith(("https://", "http://", "#")), link
        if link.startswith(URL):
            assert (ROOT / re.sub(r"^/(blob|raw)/HEAD/", "", link.removeprefix(URL)).partition("#")[0]).exists(), link
    assert f"![Pause of an update against the size of its state, beside Flink]({URL}/raw/HEAD/docs/" in (
        str(wheel.metadata.get_payload())
    )


def test_the_dags_are_copied_and_a_second_time_unchanged(run: Run, tmp_path: Path) -> None:
    first = run("init-dags", str(tmp_path))
    assert first.exit_code == 0 and first.stdout == f"wrote {', '.join(DAGS)} into {tmp_path}\n"
    for name in DAGS:
        assert (tmp_path / name).read_bytes() == (ROOT / "dags" / name).read_bytes()
    assert document(run("init-dags", str(tmp_path), "--json"))["written"] == []


def test_what_was_changed_is_left_alone(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / DAGS[0]
    mine.write_text("# mine\n")
    refused = run("init-dags", str(tmp_path))
    assert (
        refused.exit_code == 1
        and f"{mine}: differs from the DAGs of this package; nothing was written. Move it out of the folder"
        in " ".join(refused.stderr.split())
    )
    assert [path.name for path in tmp_path.glob("*.py")] == [mine.name] and mine.read_text() == "# mine\n"
    assert run("init-dags", str(tmp_path), "--force").exit_code == 0
    assert mine.read_bytes() == (ROOT / "dags" / mine.name).read_bytes()


@pytest.mark.parametrize("given", ["nowhere", "file", ""])
def test_a_folder_that_is_not_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    refused = run("init-dags", given)
    assert refused.exit_code == 2 and f"there is no folder {given!r}" in refused.stderr
    assert not list(tmp_path.glob("*.py"))


def test_a_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    folder = Path("/proc/self/task") if os.geteuid() == 0 else tmp_path  # root may write to any other
    if folder == tmp_path:
        tmp_path.chmod(0o555)
    elif not folder.is_dir():
        pytest.skip("root may write to every folder here")
    refused = run("init-dags", str(folder))
    tmp_path.chmod(0o755)
    assert refused.exit_code == 1 and f"the DAGs cannot be copied into {folder}: " in refused.stderr


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_folder_where_a_dag_would_be(run: Run, tmp_path: Path, force: list[str]) -> None:
    (tmp_path / DAGS[-1]).mkdir()
    refused = run("init-dags", str(tmp_path), *force)
    assert refused.exit_code == 1 and f"Is a directory: '{tmp_path / DAGS[-1]}'" in " ".join(refused.stderr.split())
    assert [path.name for path in tmp_path.glob("*.py")] == [DAGS[-1]]
