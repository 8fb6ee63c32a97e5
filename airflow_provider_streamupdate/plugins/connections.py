"""The installations that the page shows: one per connection of type `streamupdate`.

The API server has no supervisor to ask for connections, as tasks have. It asks the secrets backends, and the database
for the list.
"""

from __future__ import annotations

import json
import os

import attrs
from airflow.configuration import conf
from airflow.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from ..control.client import StreamUpdateClient
from ..core.errors import InvalidInputError, NotFoundError, StreamUpdateError
from ..hooks.settings import DEFAULT_CONN_ID, Settings
from .airflow_database import connection, stored_connection_ids

CONN_TYPE = "streamupdate"
_ENVIRONMENT = "AIRFLOW_CONN_"


@attrs.frozen
class Installation:
    """A connection and its client, or the error that prevents one."""

    conn_id: str
    root: str | None = None
    client: StreamUpdateClient | None = None
    error: StreamUpdateError | None = None


class Installations:
    """All installations. A client is kept while its connection is unchanged, since it caches what it has read."""

    def __init__(self) -> None:
        self._clients: dict[str, tuple[str, StreamUpdateClient]] = {}

    def all(self) -> list[Installation]:
        """Return those of `[streamupdate] connections`, or all of the type; broken ones with their error."""
        return [self._installation(conn_id) for conn_id in connection_ids()]

    def client(self, conn_id: str) -> StreamUpdateClient:
        """Return a connection's client. NotFoundError if the page does not show it; its own error if it is broken."""
        if conn_id not in (known := connection_ids()):
            shown = ", ".join(known) or "none"
            raise NotFoundError(
                f"this page does not show connection {conn_id} (it shows: {shown}); use one of type streamupdate, or "
                "add it to [streamupdate] connections"
            )
        return self._client(conn_id)[1]

    def _installation(self, conn_id: str) -> Installation:
        try:
            settings, client = self._client(conn_id)
        except StreamUpdateError as error:
            return Installation(conn_id, error=error)
        return Installation(conn_id, settings.root, client)

    def _client(self, conn_id: str) -> tuple[Settings, StreamUpdateClient]:
        settings = _settings(conn_id)
        wanted = json.dumps(attrs.asdict(settings), sort_keys=True, default=str)
        known = self._clients.get(conn_id)
        if known is None or known[0] != wanted:
            known = wanted, StreamUpdateClient(settings.root, storage_options=settings.storage_options or None)
            self._clients[conn_id] = known
        return settings, known[1]


def connection_ids() -> list[str]:
    """Return the ids of the connections that the page shows, sorted."""
    if configured := conf.get("streamupdate", "connections", fallback="").strip():
        return sorted({name.strip() for name in configured.split(",") if name.strip()})
    found = stored_connection_ids(CONN_TYPE)
    named = {name.removeprefix(_ENVIRONMENT).lower() for name in os.environ if name.startswith(_ENVIRONMENT)}
    return sorted(found | {conn_id for conn_id in {*named, DEFAULT_CONN_ID} if _is_ours(conn_id)})


def _is_ours(conn_id: str) -> bool:
    try:
        return bool(connection(conn_id).conn_type == CONN_TYPE)
    except Exception:  # a connection of another type may raise anything
        return False


def _settings(conn_id: str) -> Settings:
    try:
        found = connection(conn_id)
        extra = found.extra_dejson
    except AirflowNotFoundException as error:
        raise NotFoundError(f"connection {conn_id} is not defined; create it in Admin > Connections") from error
    except Exception as error:  # a URI or JSON that does not parse, a key that does not decrypt
        raise InvalidInputError(
            f"connection {conn_id} cannot be read: {type(error).__name__}: {error}; correct it in Admin > Connections"
        ) from error
    settings = Settings.from_extra(conn_id, found.conn_type, extra)
    mask_secret(settings.storage_options)
    return settings
