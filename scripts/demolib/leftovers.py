"""What still runs of a folder that is to be wiped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil


def leftovers(folder: Path) -> list[psutil.Process]:
    """Pythons and Javas that still run with a path of the folder in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = any(f"{folder}/" in argument for argument in process.cmdline())
            if ours and process.name().startswith(("java", "python")) and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return found


def end_leftovers(folder: Path, say: Callable[[str], None]) -> None:
    """Kill them, and say so."""
    left = leftovers(folder)
    for process in left:
        try:
            say(f"killing {process.pid}, which was left over: {' '.join(process.cmdline())[:200]}")
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=10)
