"""A MkDocs hook: the pages are read on a code host as well, where a link may lead to a file of the repository. The site
does not hold those: there the link becomes its text."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]*)[^)]*\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """The page without its links out of docs/; one to a file that is not there stays, and ends the build."""

    def inside(link: re.Match[str]) -> str:
        path = normpath(PurePosixPath(page.file.src_uri).parent / link[2])
        leaves = path.startswith("../") and (Path(config.docs_dir) / path).exists()
        return link[1] if leaves else link[0]

    return _LINK.sub(inside, markdown)
