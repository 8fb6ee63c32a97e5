"""Turn this package's errors into Airflow's: same message without secrets; retried only when trying again can help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException

try:
    from airflow.sdk.exceptions import AirflowRescheduleException
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowRescheduleException

from ..core import errors
from ..core.errors import StreamUpdateError
from ..core.redaction import hide
from .xcom import plain

# Errors that may not occur on the next try. All others need a change by a person.
TRANSIENT = (
    errors.DriverError,
    errors.FencedError,
    errors.LeaseHeldError,
    errors.StorageError,
    errors.WaitTimeoutError,
)
ERROR_KEY = "error"  # XCom in which a failed task leaves its message, for the task that reports the outcome


def as_airflow(error: StreamUpdateError) -> AirflowException:
    """Return an AirflowException for an error that a retry may cure, else an AirflowFailException (never retried)."""
    kind = AirflowException if isinstance(error, TRANSIENT) else AirflowFailException
    return kind(str(error))


@contextmanager
def airflow_errors(context: Any = None) -> Iterator[None]:
    """Convert StreamUpdateErrors of the block into Airflow's exceptions; with `context`, put the message into XCom."""
    try:
        try:
            yield
        except StreamUpdateError as error:
            raise as_airflow(error) from error
    except AirflowException as error:
        if not isinstance(error, (AirflowRescheduleException, AirflowSkipException)):
            _hide_secrets(error)
            if context is not None:
                context["ti"].xcom_push(key=ERROR_KEY, value=plain(str(error)))
        raise


def _hide_secrets(error: BaseException | None) -> None:
    """Hide what looks like a secret in an error and in its causes: the task's log shows them all."""
    while error is not None:
        if (shown := hide(str(error))) != str(error):
            error.args = (shown,)
        error = error.__cause__ or error.__context__


def by_name(name: str, message: str) -> AirflowException:
    """Return the Airflow exception for an error that a trigger's event carries as text."""
    kind = getattr(errors, name, None)
    transient = isinstance(kind, type) and issubclass(kind, TRANSIENT)
    return AirflowException(message) if transient else AirflowFailException(message)
