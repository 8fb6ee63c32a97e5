"""The command group ``streamupdate``: shared options, and how errors end a command."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from .. import __version__
from ..core.errors import InvalidInputError, StreamUpdateError
from ..core.redaction import hide
from .acceptance import ARGUMENTS
from .messages import FAILED, INTERRUPTED, USAGE, Failure
from .output import print_json
from .settings import shared

COMMAND = "streamupdate"


class Group(click.Group):
    """A group that ends with the documented exit codes, without a traceback for errors that a user can act on."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        argv = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False  # errors are shown here
        try:
            code = super().main(argv, prog_name or COMMAND, **extra)
        except click.Abort:
            code = _end(Failure("interrupted", "Interrupted", INTERRUPTED), argv)
        except click.ClickException as error:
            code = _end(error, argv)
        except StreamUpdateError as error:
            wrong_input = isinstance(error, InvalidInputError)
            code = _end(Failure.of(error, USAGE if wrong_input else FAILED), argv)
        with contextlib.suppress(OSError):  # a closed pipe (| head) is not a failure
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        given = list(args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[ARGUMENTS] = given
        return context

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(cmd, name)
        refuse_empty_options(cmd)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their use, not alphabetically."""
        return list(self.commands)


def refuse_empty_options(command: click.Command) -> None:
    """Have a command refuse options whose value is empty (``--root "$UNSET"``), which would count as not given."""
    for option in command.params:
        if isinstance(option, click.Option):
            option.callback = _refusing_empty(option.callback)
    for one in command.commands.values() if isinstance(command, click.Group) else ():
        refuse_empty_options(one)


def _refusing_empty(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if "" in (value if isinstance(value, tuple) else (value,)):
            raise click.BadParameter("it is empty; give a value, or leave the option out", ctx, param)
        return callback(ctx, param, value) if callback else value

    return check


def _end(error: click.ClickException, argv: Sequence[str]) -> int:
    error.message = hide(error.message)  # type: ignore[misc] # it may quote an address, a parameter or a log
    if "--json" in argv or "--format=json" in argv or ("--format", "json") in itertools.pairwise(argv):
        kind = error.kind if isinstance(error, Failure) else type(error).__name__
        document = {"error": {"type": kind, "message": error.message}}
        print_json({**document, **error.details} if isinstance(error, Failure) else document)
    else:
        error.show()
    return error.code if isinstance(error, Failure) else error.exit_code


@click.group(
    COMMAND,
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"""\b
Exit codes of all commands:
  0    done ({COMMAND} check: compatible; {COMMAND} rehearse: it went well)
  1    the request failed ({COMMAND} check: not compatible; {COMMAND} rehearse: it failed)
  2    wrong usage or unreadable input ({COMMAND} check, {COMMAND} rehearse: no verdict)
  130  interrupted

\b
Environment:
  STREAMUPDATE_ROOT          the same as --root
  STREAMUPDATE_SPARK_SUBMIT  the same as --spark-submit
  STREAMUPDATE_STORAGE_OPTIONS
                             a JSON object; --storage-option overrides it. Not visible in ps
  STREAMUPDATE_VERIFY_FOR    the same as --verify-for of an update

\b
Example:
  export STREAMUPDATE_ROOT=/data/streams
  {COMMAND} submit flight_windows/v1.py --set input=/data/in --set output=/data/out
  {COMMAND} check  flight_windows/v2.py --set input=/data/in --set output=/data/out
  {COMMAND} update flight_windows/v2.py --set input=/data/in --set output=/data/out
  {COMMAND} status flight-windows
""",
)
@shared
@click.version_option(__version__, prog_name=COMMAND)
def main() -> None:
    """Update running PySpark Structured Streaming apps without losing their state.

    --root, --storage-option, --spark-submit and --json may stand before or after the command. Results go to standard
    output, progress and errors to standard error. With --json, standard output is exactly one JSON document:
    {"error": {"type": ..., "message": ...}} when the command fails. Durations are seconds (90), 1h30m or ISO 8601
    (PT1H30M). Times are shown in UTC.
    """


refuse_empty_options(main)
