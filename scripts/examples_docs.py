"""Writes the examples of the docs from the system tests, which run them (tests/core/test_scripts.py compares).

A page says where its example is from, on the line before the block; the rest of the block is written here:

    <!-- example: howto_operator_stream_submit of tests/system/streamupdate/example_update.py -->

The block is what lies between `# [START howto_...]` and `# [END howto_...]` there, as in Airflow's providers. It is
kept in the page, too, because the pages are read on a code host as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

REPOSITORY = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"(<!-- example: (?P<name>\w+) of (?P<file>\S+) -->\n```python\n).*?(```\n)", re.DOTALL)
_MARK = re.compile(r" *# \[(START|END) (?P<name>\w+)\]\n")


def example(file: Path, name: str) -> str:
    """The lines between the marks of that name. ValueError when the file has not both of them, once."""
    text = file.read_text()
    found = re.findall(rf" *# \[START {name}\]\n(.*?) *# \[END {name}\]\n", text, re.DOTALL)
    if len(found) != 1:
        raise ValueError(f"{file} has {len(found)} examples named {name}, not one")
    return dedent(_MARK.sub("", found[0]))


def names(file: Path) -> set[str]:
    """The names of the examples in a file."""
    return {mark["name"] for mark in _MARK.finditer(file.read_text())}


def page(text: str, repository: Path = REPOSITORY) -> str:
    """A page, with its examples as they are now."""
    return _BLOCK.sub(lambda b: f"{b[1]}{example(repository / b['file'], b['name'])}{b[4]}", text)


def shown(text: str) -> set[str]:
    """The names of the examples that a page shows."""
    return {block["name"] for block in _BLOCK.finditer(text)}


def pages() -> Iterator[Path]:
    return (REPOSITORY / "docs").rglob("*.md")


if __name__ == "__main__":
    for path in pages():
        written = page(path.read_text())
        if written != path.read_text():
            path.write_text(written)
            print(f"wrote {path.relative_to(REPOSITORY)}", file=sys.stderr)
