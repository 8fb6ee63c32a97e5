"""The page's built files are committed: they must be of the sources beside them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from airflow_site import REPOSITORY

WWW = REPOSITORY / "airflow_provider_streamupdate" / "plugins" / "www"
DIST = WWW / "dist"


def test_what_is_built_is_of_these_sources() -> None:
    digest = runpy.run_path(str(REPOSITORY / "scripts" / "www_digest.py"))["digest"]
    built = (DIST / "sources.sha256").read_text().strip()
    assert built == digest(), "the sources changed since the last build: run make www and commit what it writes"


def test_the_page_refers_to_files_that_are_there_and_to_no_other_site() -> None:
    page = (DIST / "index.html").read_text()
    referred = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(referred) >= 3
    assert all((DIST / path).is_file() for path in referred), referred
    assert "<script>" not in page and "<style" not in page, "its policy allows none"


def test_the_sources_never_write_markup_from_values() -> None:
    for source in (WWW / "src").rglob("*.ts*"):
        text = source.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "document.write"):
            assert word not in text, f"{Path(source).name}: {word}"
