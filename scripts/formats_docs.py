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

Every file under an app's folder is of one kind below. What this package writes as JSON says its format: `"format"` is the
version, `"format_since"` the first release that reads that version.

- **An older file is understood.** It is brought up to today's form when it is read, and written in today's form when it is
  written again. Nothing has to be converted.
- **A newer file is refused** with `NewerFormatError`, which names the release to use: `... was written by a newer version of this
  package (format 2; this one, 0.1.0, reads up to 1): use airflow-provider-streamupdate >= 0.3.0`. Whatever works on an app looks at
  its files before it takes the lease, so that nothing is stopped or written. Other apps under the root are not affected.
- **A driver stays at the release it was started with**, also when it is started again by a rollback (`runtime.zip`). Update
  Airflow and the command line first, and the apps by an update each when it suits you. A driver answers a command that it cannot
  read with the reason, and goes on.

A format gets a new version when an older reader would get it wrong. A new field that may be ignored, and has a default where it is
missing, needs none; what drivers read changes in that way only, where that is possible.

"""


def row(file: File) -> str:
    if file.format is None:
        return f"| `{file.path}` | {file.about} | | | {file.why} |"
    found = file.format
    reads = "1" if found.version == 1 else f"1 to {found.version}"
    return f"| `{file.path}` | {file.about} | {found.version} | {reads} | {'drivers, too' if file.drivers else ''} |"


def page() -> str:
    head = [
        "| file | what it tells | version | understood | read by drivers; or why it has no version |",
        "|---|---|---|---|---|",
    ]
    return HEAD + "\n".join([*head, *map(row, FILES), ""])


if __name__ == "__main__":
    PAGE.write_text(page())
