"""The sections of docs/getting-started.md that are run: their steps, and how the commands of each must end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "getting-started.md"
SECTION = "In your own installation"
SCRIPT = "A script of your own"
_EXPECTED = re.compile(r"\s+# exit code (\d+): (.+)$")
_SAVED = re.compile(r"Save it as `(\w+\.py)`")
_REMARK = re.compile(r"\s{2,}# .*$")


class Command(NamedTuple):
    """A line of a code block. code: what it must exit with; words: what it must say."""

    line: str
    code: int = 0
    words: str = ""


class Step(NamedTuple):
    """What is below a heading. program: the Python code that is to be saved, and file: as what, if there is any."""

    title: str
    commands: tuple[Command, ...]
    program: str | None
    file: str | None


def steps(page: Path = PAGE) -> list[Step]:
    """In the order of the page; the script comes when all is installed."""
    text = page.read_text(encoding="utf-8")
    script, section = (text.split(f"\n## {title}\n")[1].split("\n## ")[0] for title in (SCRIPT, SECTION))
    install, *others = (_step(part) for part in section.split("\n### ")[1:])
    return [install, _step(f"{SCRIPT}\n{script}"), *others]


def _step(part: str) -> Step:
    title = part.partition("\n")[0].strip()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    commands = [command(line) for kind, text in blocks if kind == "bash" for line in text.splitlines() if line.strip()]
    [program] = [text for kind, text in blocks if kind == "python"] or [None]
    file = _SAVED.search(part)
    return Step(title, tuple(commands), program, file[1] if file else None)


def command(line: str) -> Command:
    """With what the remark at its end expects; another remark is for people."""
    if match := _EXPECTED.search(line):
        return Command(line[: match.start()], int(match[1]), match[2].strip())
    return Command(_REMARK.sub("", line))
