"""The options that define an application: its file, --set, --conf, --master, --py-files, --files, --env."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..core.errors import StreamUpdateError
from .messages import FAILED, USAGE, Failure, echo
from .option_types import KeyValue

if TYPE_CHECKING:
    from ..core.registry.application import Application, Script

pairs = KeyValue()


seen_batch_option = click.option(
    "--seen-batch",
    type=pairs,
    multiple=True,
    metavar="QUERY=HOW",
    help="Of a script: what the query's sink does with a batch id that it has seen; repeatable.",
)


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
        @click.argument("script_arguments", metavar="[-- ARGUMENTS...]", nargs=-1)
        @click.option("--set", "params", type=pairs, multiple=True, help="A parameter of the app; repeatable.")
        @click.option("--app", "script_app", metavar="NAME", help="APP_FILE is a plain script: the app of this name.")
        @seen_batch_option
        @driver_options
        @click.option("--strict", is_flag=True, help="Fail on a parameter that no query function reads.")
        @functools.wraps(function)
        def wrapper(*args: Any, strict: bool, app_file: str, params: Sequence[tuple[str, str]], **given: Any) -> Any:
            application = script_or_app(app_file, given, dict(params))
            with parameters(strict):
                return function(*args, application=application, **given)

        return wrapper

    return decorate


def script_or_app(file: str, given: dict[str, Any], params: dict[str, str]) -> Application:
    """Return the application of a command's arguments, after the cheap checks: a script of app `script_app`, or a file
    that defines its app where that is None."""
    from ..core.registry.application import Script

    app, arguments = given.pop("script_app"), given.pop("script_arguments")
    seen_batch = dict(given.pop("seen_batch"))
    if app is None and (arguments or seen_batch):
        raise click.UsageError(
            f"{shlex.join(arguments) or '--seen-batch'} is of a plain script: name its app, too (--app NAME)"
        )
    folder = os.getcwd()  # of its relative paths
    script = None if app is None else Script(app=app, arguments=arguments, seen_batch=seen_batch, folder=folder)
    if not file:
        raise click.UsageError("APP_FILE is empty; give the path of a .py file")
    application = make_application(_absolute(file), given, params, script)  # the driver has another working directory
    try:
        application.check()
    except StreamUpdateError as error:
        raise Failure.of(error, USAGE) from error
    return application


@contextlib.contextmanager
def parameters(strict: bool) -> Iterator[None]:
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


def make_application(
    file: str, given: dict[str, Any], params: dict[str, str] | None = None, script: Script | None = None
) -> Application:
    """Take the driver's options out of a command's arguments, and return the application that they describe."""
    from ..core.registry.application import Application

    return Application(
        file=os.path.realpath(file) if script else file,  # its modules lie beside what a link leads to
        script=script,
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
