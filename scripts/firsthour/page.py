"""The section of docs/getting-started.md that is run: its steps, the commands of each, and what they must end with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "getting-started.md"
SECTION = "In your own installation"
_EXPECTED = re.compile(r"\s+# exit code (\d+): (.+)$")
_REMARK = re.compile(r"\s{2,}# .*$")


class Command(NamedTuple):
    """A line of a code block. code: what it must exit with; words: what it must say."""

    line: str
    code: int = 0
    words: str = ""


class Step(NamedTuple):
    """What is below a heading of the section. program: the Python code that is to be saved, if there is any."""

    title: str
    commands: tuple[Command, ...]
    program: str | None


def steps(page: Path = PAGE) -> list[Step]:
    """In the order of the page."""
    section = page.read_text(encoding="utf-8").split(f"\n## {SECTION}\n")[1].split("\n## ")[0]
    return [_step(part) for part in section.split("\n### ")[1:]]


def _step(part: str) -> Step:
    title = part.partition("\n")[0].strip()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    commands = [command(line) for kind, text in blocks if kind == "bash" for line in text.splitlines() if line.strip()]
    [program] = [text for kind, text in blocks if kind == "python"] or [None]
    return Step(title, tuple(commands), program)


def command(line: str) -> Command:
    """With what the remark at its end expects; another remark is for people."""
    if match := _EXPECTED.search(line):
        return Command(line[: match.start()], int(match[1]), match[2].strip())
    return Command(_REMARK.sub("", line))
