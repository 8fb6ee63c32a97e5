"""Errors a user can act on: each message says what failed, why, and what to do."""

from __future__ import annotations

from .tracebacks import with_lost_cause, without_surroundings, without_tracebacks

# The minor versions with an adapter in streaming/spark_internals/version.py.
SPARK_VERSIONS = ("4.0", "4.1", "4.2", "4.3")
_MOST = 50_000  # characters of an error that are processed: it may quote anything
_SHOWN = 4_000  # characters of an error that are shown
CUT = "..."  # behind a text that was cut: `redaction.hide` looks there for the beginnings of secrets


class StreamUpdateError(Exception):
    """Base of every error this package raises on purpose.

    traceback: the whole one, of an application's own error in a driver; None: there is none
    """

    traceback: str | None = None


def text_of(error: BaseException) -> str:
    """Return an error's text, with the cause that Spark leaves out of it. pyspark has the JVM's stack in an attribute
    (CapturedException) and in the text only with spark.sql.pyspark.jvmStacktrace.enabled."""
    return with_lost_cause(str(error), str(getattr(error, "_stackTrace", "")))


def describe(error: BaseException) -> str:
    """An error in words: ours by its message, any other with its type; without Spark's plan and JVM stack traces, and
    of a Python traceback its last line."""
    text = str(error) if isinstance(error, StreamUpdateError) else f"{type(error).__name__}: {text_of(error)}"
    for rest in ("\nJVM stacktrace:", "\n=== Streaming Query ===", "\n\tat "):
        text = text.split(rest)[0]
    return cut(without_surroundings(without_tracebacks(cut(text, _MOST))).strip(), _SHOWN)


def cut(text: str, most: int) -> str:
    """Return the text, or its beginning with a mark that it was cut."""
    return text if len(text) <= most else f"{text[:most]}{CUT}"


class InvalidInputError(StreamUpdateError, ValueError):
    """A name, parameter or file that the user passed cannot be used."""


class ParameterWarning(UserWarning):
    """A parameter that was passed is read by no query function."""


class NotFoundError(StreamUpdateError, LookupError):
    """The app, deployment or snapshot does not exist under the root."""


class AlreadyExistsError(StreamUpdateError):
    """The name was used before (deployment ids and snapshot names are never reused)."""


class NotRunningError(StreamUpdateError):
    """The app has no running deployment."""


class AppCancelledError(StreamUpdateError):
    """Somebody cancelled the app meanwhile, so nothing of it is started."""


class AlreadyRunningError(StreamUpdateError):
    """The app has a running deployment, and the request needs a stopped one."""


class InUseError(StreamUpdateError):
    """The snapshot is the last one, or a deployment depends on it."""


class LeaseHeldError(StreamUpdateError):
    """Another process works on the app: an update, a supervisor that starts its driver, a delete."""


class CorruptError(StreamUpdateError):
    """A file under the root is truncated, altered or otherwise wrong."""


class NewerFormatError(StreamUpdateError):
    """A file under the root is of a newer format than this version of the package reads; the message names the version
    that does."""


class StorageError(StreamUpdateError):
    """The root cannot be reached or written."""


class NoRoomError(StorageError):
    """The request needs more bytes than are free; nothing was written."""


class ApplicationError(StreamUpdateError):
    """The application file cannot be run as a streaming app, or its code raised."""


class DriverError(StreamUpdateError):
    """A driver could not be started or died; the message ends with its last log lines."""


class EnvironmentProblem(StreamUpdateError):
    """Java, spark-submit or the Python environment is missing or mixed up."""


class WaitTimeoutError(StreamUpdateError, TimeoutError):
    """Something did not happen in time."""


class FencedError(StreamUpdateError):
    """This driver's epoch is over: another deployment (or a later start) holds the app."""


class RefusedError(StreamUpdateError):
    """The request cannot be done in this way; the reason is known before anything is touched."""


def failure_advice(app: str, back: bool = False) -> str:
    """Return what to do about a driver that failed. back: there is a version to go back to"""
    rollback = f", and streamupdate rollback {app} goes back to the version before" if back else ""
    return (
        "If its code is wrong, streamupdate update FIXED.py --strategy restart goes on with a corrected version"
        f"{rollback}; if the cause lies elsewhere (storage, a source, memory), mend that, and streamupdate restart "
        f"{app} starts the same version where it stopped"
    )
