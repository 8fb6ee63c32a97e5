"""Python's garbage collector, put off."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Nothing looks for circles of objects that nobody needs any more. A plan's trees are some 100,000 objects without
    any: while they are made the collector looks through them again and again, and through all that a driver holds
    about once a plan (*measured*: a tenth of a check)."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()
