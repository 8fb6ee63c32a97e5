"""YARN as far as drivers meet it, made of files: an application is a folder with its tags and a process.

As ``spark-submit`` it submits what follows its options and returns, as ``spark-class`` it answers YARN's
ApplicationCLI. `install` puts both into a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

BEGIN = 'echo $$ > "$0/pid.new" && mv "$0/pid.new" "$0/pid" && exec "$@"'


def install(folder: Path) -> Path:
    """The path of spark-submit."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("spark-submit", "spark-class"):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} {folder}/applications "$@"\n')
        script.chmod(0o755)
    return folder / "spark-submit"


def submit(applications: Path, words: list[str]) -> None:
    tags = ""
    while words and words[0].startswith("--"):
        if words[1].startswith("spark.yarn.tags="):
            tags = words[1].partition("=")[2]
        words = words[2:]
    number = 1
    while True:
        folder = applications / f"application_1700000000000_{number:04d}"
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            number += 1
    (folder / "tags").write_text(tags)
    subprocess.Popen(["/bin/sh", "-c", BEGIN, str(folder), *words], stdin=subprocess.DEVNULL, start_new_session=True)


def lives(folder: Path) -> bool:
    try:
        pid = (folder / "pid").read_text().strip()
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def application(applications: Path, words: list[str]) -> None:
    if words[0] == "-kill":
        while lives(applications / words[1]):
            os.killpg(int((applications / words[1] / "pid").read_text()), signal.SIGKILL)
        print(f"Killed application {words[1]}")
    else:
        wanted = words[words.index("-appTags") + 1]
        print("Application-Id\tApplication-Name")
        for folder in sorted(applications.glob("application_*")):
            if wanted in (folder / "tags").read_text().split(",") and lives(folder):
                print(f"{folder.name}\tdriver")


if __name__ == "__main__":
    name, place, *rest = sys.argv[1:]
    if name == "spark-submit":
        submit(Path(place), rest)
    else:
        application(Path(place), rest[2:])
