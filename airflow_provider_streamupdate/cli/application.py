"""The options that define an application: its file, --set, --conf, --master, --py-files, --files, --env."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..core.errors import StreamUpdateError
from .messages import FAILED, USAGE, Failure, echo
from .option_types import KeyValue

if TYPE_CHECKING:
    from ..core.registry.application import Application

pairs = KeyValue()


def driver_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options of its driver that are not the application's own."""
    options = (
        click.option("--conf", type=pairs, multiple=True, help="A Spark setting; repeatable."),
        click.option("--master", help="Spark master, e.g. local[2] (else what spark-submit is configured for)."),
        click.option(
            "--py-files", multiple=True, metavar="FILES", help="More .py, .zip or .whl files, comma-separated."
        ),
        click.option("--files", multiple=True, metavar="FILES", help="Data files for the executors, comma-separated."),
        click.option("--env", "env_vars", type=pairs, multiple=True, help="An environment variable of the driver."),
    )
    return functools.reduce(lambda made, option: option(made), reversed(options), function)


def application_options(file: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a command to get an `application` in place of these options, after the cheap checks of its files.

    file: the parameter that names the application file, as ``app_file``
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @file
        @click.option("--set", "params", type=pairs, multiple=True, help="A parameter of the app; repeatable.")
        @driver_options
        @click.option("--strict", is_flag=True, help="Fail on a parameter that no query function reads.")
        @functools.wraps(function)
        def wrapper(*args: Any, strict: bool, app_file: str, params: Sequence[tuple[str, str]], **given: Any) -> Any:
            if not app_file:
                raise click.UsageError("APP_FILE is empty; give the path of a .py file")
            # absolute: the driver has another working directory
            application = make_application(_absolute(app_file), given, dict(params))
            try:
                application.check()
            except StreamUpdateError as error:
                raise Failure.of(error, USAGE) from error
            with _parameters(strict):
                return function(*args, application=application, **given)

        return wrapper

    return decorate


@contextlib.contextmanager
def _parameters(strict: bool) -> Iterator[None]:
    """Report parameters that no query function reads on standard error; with `strict`, raise a Failure instead."""
    from ..core.errors import ParameterWarning

    def show_warning(message: Warning | str, *rest: Any, **more: Any) -> None:
        echo(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "always", ParameterWarning)
        warnings.showwarning = show_warning
        try:
            yield
        except ParameterWarning as error:
            raise Failure(f"{error}; nothing was started (--strict)", type(error).__name__, FAILED) from error


application_argument = application_options(click.argument("app_file", metavar="APP_FILE"))


def make_application(file: str, given: dict[str, Any], params: dict[str, str] | None = None) -> Application:
    """Take the driver's options out of a command's arguments, and return the application that they describe."""
    from ..core.registry.application import Application

    return Application(
        file=file,
        py_files=_absolute_paths(given.pop("py_files")),
        files=_absolute_paths(given.pop("files")),
        params=params or {},
        conf=dict(given.pop("conf")),
        master=given.pop("master"),
        env_vars=dict(given.pop("env_vars")),
    )


def _absolute_paths(given: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of texts that hold one or several, comma-separated."""
    return tuple(_absolute(path) for text in given for path in text.split(",") if path)


def _absolute(path: str) -> str:
    if "://" in path:
        return path  # refused, as an address that can be recognised
    return os.path.abspath(os.path.expanduser(path))
