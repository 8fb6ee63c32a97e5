"""The examples of the docs are those of the system tests (scripts/examples_docs.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))

import examples_docs  # noqa: E402

EXAMPLES = sorted((REPOSITORY / "tests" / "system" / "streamupdate").glob("example_*.py"))


def test_the_pages_have_the_examples_as_they_are_run() -> None:
    for page in examples_docs.pages():
        text = page.read_text()
        assert examples_docs.page(text) == text, f"{page} is out of date: run scripts/examples_docs.py"


def test_every_example_is_in_a_page() -> None:
    shown = {name for page in examples_docs.pages() for name in examples_docs.shown(page.read_text())}
    marked = {name for file in EXAMPLES for name in examples_docs.names(file)}
    assert len(EXAMPLES) >= 2 and marked == shown


def test_an_example_that_is_not_there_is_told(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text("    # [START howto_a]\n    a = 1\n    # [END howto_a]\n    # [START howto_b]\n")
    assert examples_docs.example(file, "howto_a") == "a = 1\n"
    page = f"<!-- example: howto_a of {file.name} -->\n```python\nold\n```\ntext\n```python\nkept\n```\n"
    assert examples_docs.page(page, tmp_path) == page.replace("old", "a = 1")
    for name in ("howto_b", "howto_c"):
        with pytest.raises(ValueError, match=f"has 0 examples named {name}"):
            examples_docs.example(file, name)
