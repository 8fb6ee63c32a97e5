"""This package's errors as Airflow's: the message unchanged, retried only when trying again can help."""

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
from .xcom import plain

# What passes by itself, or may pass on the next try. Everything else needs somebody to change something.
TRANSIENT = (
    errors.DriverError,
    errors.FencedError,
    errors.LeaseHeldError,
    errors.StorageError,
    errors.WaitTimeoutError,
)
ERROR_KEY = "error"  # XCom in which a failed task leaves its message, for the task that sums up


def as_airflow(error: StreamUpdateError) -> AirflowException:
    """AirflowException for what a retry may cure, AirflowFailException (never retried) for the rest."""
    kind = AirflowException if isinstance(error, TRANSIENT) else AirflowFailException
    return kind(str(error))


@contextmanager
def airflow_errors(context: Any = None) -> Iterator[None]:
    """Raise StreamUpdateError as Airflow's exceptions inside the block; with `context`, leave the message in XCom."""
    try:
        try:
            yield
        except StreamUpdateError as error:
            raise as_airflow(error) from error
    except AirflowException as error:
        if context is not None and not isinstance(error, (AirflowRescheduleException, AirflowSkipException)):
            context["ti"].xcom_push(key=ERROR_KEY, value=plain(str(error)))
        raise


def by_name(name: str, message: str) -> AirflowException:
    """The Airflow exception for an error that travelled as text in a trigger's event."""
    kind = getattr(errors, name, None)
    transient = isinstance(kind, type) and issubclass(kind, TRANSIENT)
    return AirflowException(message) if transient else AirflowFailException(message)
