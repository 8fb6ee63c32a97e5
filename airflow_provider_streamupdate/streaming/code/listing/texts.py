"""What code that looks at texts finds of a function: lines, and the file it is written in."""

from __future__ import annotations

import functools
import hashlib
import linecache
import os
import types
from typing import Any


def lines_of(code: types.CodeType) -> tuple[Any, ...]:
    """The name of its file, the lines of its instructions, and what stands there: what a traceback has of it."""
    numbers = tuple(line for *_, line in code.co_lines())
    texts = {n: linecache.getline(code.co_filename, n) for n in numbers if n is not None}
    return os.path.basename(code.co_filename), numbers, sorted(texts.items())


@functools.lru_cache(maxsize=1000)
def source_file(path: str | None) -> str | None:
    """A digest of a file with all comments: inspect.getsource and linecache give them."""
    lines = linecache.getlines(path) if path else []
    return hashlib.sha256("".join(lines).encode("utf8", "surrogatepass")).hexdigest() if lines else None
