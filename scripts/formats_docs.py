#!/usr/bin/env python
# ruff: noqa: E501 (prose and tables)
"""Write docs/reference/formats.md from the table of formats (core/formats.py). A test compares the two.

.venv/bin/python scripts/formats_docs.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from airflow_provider_streamupdate.core.formats import FILES, File

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "formats.md"

HEAD = """\
<!-- Written by scripts/formats_docs.py from airflow_provider_streamupdate/core/formats.py: change that. -->
# Reference: files and their formats

Every file under an app's folder is of one kind below. What this package writes as JSON has its version (`"format"`) and the first release
that reads it (`"format_since"`).

- **An older file is understood**, and written in today's form when it is written again.
- **A newer file is refused** with `NewerFormatError`, which names the release to use. This happens before the lease is taken: nothing is
  stopped or written. Other apps are not affected.
- **A driver stays at the release it was started with** (`runtime.zip`), also after a rollback. Update Airflow and the command line first. A
  driver answers a command that it cannot read with the reason, and goes on.

A format gets a new version when an older reader would get it wrong; a field that may be ignored needs none.

"""


def row(file: File) -> str:
    if file.format is None:
        return f"| `{file.path}` | {file.about} | | {file.why} |"
    return f"| `{file.path}` | {file.about} | {file.format.version} | {'drivers, too' if file.drivers else ''} |"


def page() -> str:
    head = [
        "| file | what it tells | version | read by drivers; or why it has no version |",
        "|---|---|---|---|",
    ]
    return HEAD + "\n".join([*head, *map(row, FILES), ""])


if __name__ == "__main__":
    PAGE.write_text(page())
