"""Prints a digest of what the page's front end is built from. The one it was built from is in dist/sources.sha256."""

from __future__ import annotations

import hashlib
from pathlib import Path

WWW = Path(__file__).resolve().parents[1] / "airflow_provider_streamupdate" / "plugins" / "www"
FILES = (
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "public/**/*",
    "src/**/*",
)


def digest() -> str:
    """Of all files, with their names."""
    found = hashlib.sha256()
    for path in sorted({path for pattern in FILES for path in WWW.glob(pattern) if path.is_file()}):
        content = path.read_bytes()
        found.update(f"{path.relative_to(WWW).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


if __name__ == "__main__":
    print(digest())
