"""Who works here: the default for "asked by"."""

from __future__ import annotations

import getpass
import socket


def this_user() -> str:
    """Return this process's user and host."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
