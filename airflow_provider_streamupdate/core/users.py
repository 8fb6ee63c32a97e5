"""Users of this machine by name. One without an entry in the list of users (``docker run -u 12345``, OpenShift) has a
number only."""

from __future__ import annotations

import getpass
import grp
import os
import pwd
import socket


def this_user() -> str:
    """Return the name of this process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # before Python 3.13, and since
        return str(os.getuid())


def user_and_host() -> str:
    """Return this process's user and host: the default for "asked by"."""
    return f"{this_user()}@{socket.gethostname()}"


def user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
