"""What setup.cfg cannot say: the README of the wheel, whose links lead to the repository wherever it is read, and the
project's addresses. Both need the repository's address, which is not written down here:

    REPOSITORY_URL=https://...   else the address of the clone's `origin`, when that is one for a browser

Without one, links into the repository become their text, and there are no addresses.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
BRANCH = "HEAD"  # a code host's name for its default branch
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def repository() -> str | None:
    """The address, without a slash or `.git` at the end."""
    url = os.environ.get("REPOSITORY_URL") or _origin()
    return url.removesuffix("/").removesuffix(".git") if url.startswith(("https://", "http://")) else None


def _origin() -> str:
    if not (ROOT / ".git").exists():  # a source distribution, perhaps inside another repository
        return ""
    try:
        asked = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return asked.stdout.strip()


def described(readme: str, url: str | None) -> str:
    """The README with absolute links."""

    def absolute(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        if url is None:
            return text
        return f"{image}[{text}]({url}/{'raw' if image else 'blob'}/{BRANCH}/{target})"

    return LINK.sub(absolute, readme)


def addresses(url: str | None) -> dict[str, str]:
    if url is None:
        return {}
    docs, changes = f"{url}/blob/{BRANCH}/docs/index.md", f"{url}/blob/{BRANCH}/CHANGELOG.md"
    return {"Homepage": url, "Source": url, "Documentation": docs, "Changelog": changes, "Issues": f"{url}/issues"}


address = repository()
setup(
    long_description=described((ROOT / "README.md").read_text(encoding="utf-8"), address),
    project_urls=addresses(address),
)
