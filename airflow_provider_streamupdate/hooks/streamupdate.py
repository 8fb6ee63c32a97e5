"""The hook of connection type `streamupdate`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowNotFoundException
from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret
from asgiref.sync import sync_to_async

from ..control.client import StreamUpdateClient
from ..core.errors import NotFoundError, StreamUpdateError
from ..get_provider_info import connection_type
from .launcher import ConnectionLauncher
from .settings import DEFAULT_CONN_ID, Settings

if TYPE_CHECKING:
    from airflow.sdk import Connection


class StreamUpdateHook(BaseHook):
    """The hook of a `streamupdate` connection: returns the client for the installation that it describes.

    streamupdate_conn_id: the connection; its form is described in docs/connection.md
    """

    conn_name_attr = "streamupdate_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "streamupdate"
    hook_name = "Stream Update"

    def __init__(self, streamupdate_conn_id: str = DEFAULT_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.streamupdate_conn_id = streamupdate_conn_id

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Return the form's own fields, for Airflow 3.1, which does not read them from the provider's info."""
        return _form_widgets()

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the form's hidden fields and placeholders; see get_connection_form_widgets."""
        return {key.replace("-", "_"): value for key, value in connection_type()["ui-field-behaviour"].items()}

    @cached_property
    def settings(self) -> Settings:
        """The connection's content; NotFoundError or InvalidInputError when it cannot be used."""
        try:
            connection = self.get_connection(self.streamupdate_conn_id)
        except AirflowNotFoundException as error:
            raise _undefined(self.streamupdate_conn_id) from error
        settings = Settings.from_extra(self.streamupdate_conn_id, connection.conn_type, connection.extra_dejson)
        mask_secret(settings.storage_options)  # JSON text inside the extra: not masked with it
        return settings

    def get_conn(self) -> StreamUpdateClient:
        """The client (the name Airflow expects)."""
        return self.get_client()

    def get_client(self, needs_root: bool = False) -> StreamUpdateClient:
        """Return a client on the connection's root that starts drivers through its Spark connection.

        StorageError when the root is needed and does not exist: it is mistyped, or nothing was submitted yet.
        """
        client = StreamUpdateClient(
            self.settings.root,
            launcher=self.get_launcher(),
            storage_options=self.settings.storage_options or None,
        )
        if needs_root:
            client.registry.folder.check_exists()
        return client

    def get_launcher(self) -> ConnectionLauncher:
        """Return the launcher of drivers. It reads the Spark connection only when it checks or starts."""
        return ConnectionLauncher(
            self.settings.spark_conn_id,
            spark_submit=self.settings.spark_submit,
            conf=self.settings.conf,
            env_vars=self.settings.env_vars,
            kubernetes_conn_id=self.settings.kubernetes_conn_id,
        )

    @classmethod
    async def async_client(cls, streamupdate_conn_id: str) -> StreamUpdateClient:
        """Return a client for a trigger. Reads the connection without blocking the event loop; starts no drivers."""
        from airflow.providers.common.compat.connection import get_async_connection

        try:
            connection: Connection = await get_async_connection(streamupdate_conn_id)
        except AirflowNotFoundException as error:
            raise _undefined(streamupdate_conn_id) from error
        settings = Settings.from_extra(streamupdate_conn_id, connection.conn_type, await _extra(connection))
        return StreamUpdateClient(settings.root, storage_options=settings.storage_options or None)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the root can be written and drivers can be started from this machine, and a message."""
        try:
            client = self.get_client()
            client.registry.folder.check_exists()
            client.registry.folder.check_writable()
            apps = client.apps()
            self.get_launcher().check()
        except StreamUpdateError as error:
            return False, str(error)
        return (
            True,
            f"root {self.settings.root} is writable and contains {len(apps)} app(s); Spark can be started",
        )


async def _extra(connection: Connection) -> dict[str, Any]:
    try:
        from airflow.providers.common.compat.connection import get_async_extra_dejson
    except ImportError:  # an older version of common.compat, the newest for Python 3.10
        return await sync_to_async(lambda: connection.extra_dejson)()
    return await get_async_extra_dejson(connection)


def _undefined(conn_id: str) -> NotFoundError:
    return NotFoundError(
        f"connection {conn_id} is not defined; create it in Admin > Connections with type Stream Update and a root URI"
    )


def _form_widgets() -> dict[str, Any]:
    """Return the form's fields by name. Airflow has WTForms and Flask-AppBuilder, or replacements, or shows no form."""
    from flask_appbuilder.fieldwidgets import BS3PasswordFieldWidget, BS3TextFieldWidget
    from wtforms import PasswordField, StringField

    def widget_of(field: dict[str, Any]) -> Any:
        schema = field["schema"]
        kind, widget = StringField, BS3TextFieldWidget
        if schema.get("format") == "password":
            kind, widget = PasswordField, BS3PasswordFieldWidget
        return kind(field["label"], description=field["description"], default=schema.get("default"), widget=widget())

    return {name: widget_of(field) for name, field in connection_type()["conn-fields"].items()}
