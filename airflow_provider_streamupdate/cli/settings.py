"""The options that all commands take: where the registry is, and the output's format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .option_types import KeyValue

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient
    from ..control.operations.context import Context

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """The values of the shared options.

    root: the registry's folder or URI; storage_options: what fsspec needs to reach it; as_json: print JSON
    """

    root: str | None = None
    spark_submit: str | None = None
    storage_options: dict[str, Any] = field(default_factory=dict)
    as_json: bool = False

    def client(self, needs_root: bool = True) -> StreamUpdateClient:
        """Return a client that can start drivers. UsageError when no root is given.

        StorageError when the root does not exist, unless the command creates it or can work without (`needs_root`).
        """
        from ..control.client import StreamUpdateClient
        from ..control.drivers.launcher import SparkSubmit

        client = StreamUpdateClient(self._root(), SparkSubmit(self.spark_submit), self.options)
        if needs_root:
            client.registry.folder.check_exists()
        return client

    def client_of(self, app: str) -> StreamUpdateClient:
        """Return a client for requests on one app; NotFoundError when there is no such app."""
        client = self.client()
        client.registry.existing(app)
        return client

    def context(self, needs_root: bool = True) -> Context:
        """Return a context for read-only operations, which import much faster than the client. See `client`."""
        from ..control.operations.context import Context

        context = Context.of(self._root(), None, self.options)
        if needs_root:
            context.registry.folder.check_exists()
        return context

    @property
    def options(self) -> dict[str, Any]:
        """The storage options of the command line and of the environment; the former win, key by key."""
        from ..core.storage.options import from_environment

        return {**from_environment(), **self.storage_options}

    def _root(self) -> str:
        if not self.root:
            raise click.UsageError("no root is given; use --root or set STREAMUPDATE_ROOT")
        return self.root


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def shared(function: F) -> F:
    """Add the options that may stand before or after a command; one after the command overrides one before it."""
    options = (
        _option("--root", metavar="URI", envvar="STREAMUPDATE_ROOT", help="Folder or URI that holds all apps."),
        _option(
            "--spark-submit",
            metavar="PATH",
            envvar="STREAMUPDATE_SPARK_SUBMIT",
            help="spark-submit to start drivers with (else SPARK_HOME/bin, then PATH).",
        ),
        _option(
            "--storage-option",
            "storage_options",
            type=KeyValue(),
            multiple=True,
            help="An option of the root's file system (fsspec); repeatable. A value that is JSON is read as JSON. "
            "Put secrets into STREAMUPDATE_STORAGE_OPTIONS instead.",
        ),
        _option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _option(*names: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*names, expose_value=False, callback=_keep, **attributes)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    settings = ctx.ensure_object(Settings)
    name = str(param.name)
    if not value:
        return
    from_environment = ctx.get_parameter_source(name) is click.core.ParameterSource.ENVIRONMENT
    if from_environment and getattr(settings, name):
        return  # given before the command, which overrides the environment
    if name == "storage_options":
        settings.storage_options |= {key: _value(text) for key, text in value}
    else:
        setattr(settings, name, value)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
