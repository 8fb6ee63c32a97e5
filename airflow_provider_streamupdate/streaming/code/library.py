"""Values of Python's library that pickle does not take, and that are the same in each process all the same."""

from __future__ import annotations

import struct
import sys
import threading
import weakref
from typing import Any

from .report import Where
from .walk import Walk

_STREAMS = ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__")


def describe_library(walk: Walk, value: Any, where: Where) -> Any:
    """None when it is none of them. What a subclass of the app's adds is described beside it (objects.py)."""
    if isinstance(value, struct.Struct):
        return "struct", value.format
    if isinstance(value, threading.local):  # what importing the module has put into it: a worker has the same
        return "values of a thread", walk.of(dict(vars(value)), where)
    if isinstance(value, threading.Thread):  # it is known by numbers of its process; what it has done is not told
        return walk.report.cannot(where, "a thread may have done anything, at any time")
    if type(value) is weakref.WeakSet:
        return "weak set", walk.unordered(list(value), where)
    if type(value) in (weakref.WeakValueDictionary, weakref.WeakKeyDictionary):
        return type(value).__name__, walk.of(dict(value.items()), where)
    if (type(value).__module__, type(value).__name__) == ("_ctypes", "CField"):  # what it is of is in _fields_
        return "field of a structure", value.offset, value.size
    for name in _STREAMS:
        if value is getattr(sys, name, None):
            return "stream", name.strip("_")
    return None
