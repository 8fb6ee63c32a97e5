"""Compare the jars in a folder with their locked SHA-256 checksums, or lock them.

    python scripts/locked_jars.py FOLDER LOCK          exit code 1 when a jar is not the locked one, or not locked
    python scripts/locked_jars.py FOLDER LOCK --write  add the folder's jars to the lock

The lock has lines as sha256sum writes them: a checksum, two spaces, a file name. Maven compares a jar only with the
checksum that the same repository gives; the lock tells when a repository gives another jar under the same version.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def checksums(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir()) if p.is_file()}


def locked(lock: Path) -> dict[str, str]:
    lines = lock.read_text().splitlines() if lock.exists() else []
    return {name: checksum for checksum, name in (line.split("  ", 1) for line in lines)}


def problems(found: dict[str, str], known: dict[str, str]) -> list[str]:
    """What is wrong with these jars, a line each."""
    told = []
    for name, checksum in found.items():
        if name not in known:
            told.append(f"{name} has no locked checksum: add it with scripts/lock.sh jars, and review the change")
        elif checksum != known[name]:
            told.append(
                f"{name} is not the jar that was locked (SHA-256 {checksum}, locked {known[name]}): find out which of "
                "the two is right before it is used"
            )
    return told


def main(arguments: list[str]) -> int:
    folder, lock = Path(arguments[0]), Path(arguments[1])
    found, known = checksums(folder), locked(lock)
    if arguments[2:] == ["--write"]:
        lock.write_text("".join(f"{checksum}  {name}\n" for name, checksum in sorted({**known, **found}.items())))
        return 0
    told = problems(found, known)
    for line in told:
        print(f"ground: error: {line}", file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
