"""How many calls this process has made to storages: on an object store each is a request that is paid for."""

from __future__ import annotations

import threading

_lock = threading.Lock()
_made = 0


def count() -> None:
    """One more."""
    global _made
    with _lock:
        _made += 1


def made() -> int:
    """Since the process began."""
    return _made
