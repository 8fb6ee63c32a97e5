"""What the page reads in Airflow's database, by Airflow's own models: there is no public interface for it.

A release of Airflow that keeps these things elsewhere costs the page its runs, and says so, not the page.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from airflow import __version__
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger(__name__)
T = TypeVar("T")

_unread: dict[str, str] = {}  # why, by what was asked for


def of_runs(ask: Callable[[Any], T], otherwise: T) -> T:
    """Return what `ask` finds by the module `runs`; `otherwise` where this Airflow is not as that module knows it."""

    def read() -> T:
        from . import runs

        return ask(runs)

    return _read("the runs of its DAGs", read, otherwise)


def stored_connection_ids(conn_type: str) -> set[str]:
    """Return the ids of the connections of a type in the database."""

    def read() -> set[str]:
        from airflow.models.connection import Connection
        from airflow.utils.session import create_session

        with create_session() as session:
            return set(session.scalars(select(Connection.conn_id).where(Connection.conn_type == conn_type)))

    return _read("its connections", read, set[str]())


def connection(conn_id: str) -> Any:
    """Return a connection, wherever it is defined. AirflowNotFoundException without one; any error if it is broken."""
    from airflow.models.connection import Connection

    return Connection.get_connection_from_secrets(conn_id)


def unread() -> str | None:
    """Return what the page does not show, and why; None when nothing is missing."""
    if not _unread:
        return None
    what = "; ".join(f"{name} ({error})" for name, error in sorted(_unread.items()))
    return (
        f"this package does not know where Airflow {__version__} keeps {what}, so the page does not show them. "
        "Operators, DAGs and commands do not need them; upgrade airflow-provider-streamupdate"
    )


def _read(what: str, ask: Callable[[], T], otherwise: T) -> T:
    """Return the answer, or `otherwise` when Airflow's models are not as expected. That is logged once."""
    try:
        found = ask()
    except (ImportError, AttributeError, TypeError, SQLAlchemyError) as error:
        if what not in _unread:
            log.warning("Airflow %s: %s cannot be read", __version__, what, exc_info=True)
        _unread[what] = f"{type(error).__name__}: {error}".splitlines()[0]
        return otherwise
    _unread.pop(what, None)
    return found
