"""Base classes of the operators that take an application, or the options of its update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..control.update.engine import UpdateEngine
from ..core.errors import ApplicationError
from ..core.registry.application import Application
from ..hooks.templated_values import optional_text, text_list, text_map
from ..hooks.update_options import APPLICATION_FIELDS, application_from, update_options
from .base import AppOperator, StreamUpdateOperator, owner_of, traceparent_of


class ApplicationOperator(StreamUpdateOperator):
    """Base class of the operators that take an application.

    Every argument is templated; mappings and lists may also be JSON text.

    application: path of the Python file that defines the `StreamingApp`, or of a plain script
    app: the app's name; when given, the file must define this app
    application_args: the arguments of a plain script, which is then run as app `app`; [] for one without. None: the
        file defines a `StreamingApp`
    seen_batch: of a script, what the sink of a query does with a batch id that it has seen, by query
    py_files, files: more files for the driver and the executors, as for spark-submit
    app_params: the ``params`` of the query functions (not Airflow's ``params``)
    conf: Spark configuration; it overrides the connection's
    env_vars: environment of the driver
    digest: when given, the application must have this digest, which an earlier task has checked
    """

    template_fields: Sequence[str] = (
        *StreamUpdateOperator.template_fields,
        "application",
        "app",
        "py_files",
        "files",
        "app_params",
        "conf",
        "env_vars",
        "digest",
        "application_args",
        "seen_batch",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "app_params": "json",
        "conf": "json",
        "env_vars": "json",
        "application_args": "json",
    }

    def __init__(
        self,
        *,
        application: str,
        app: str | None = None,
        py_files: Sequence[str] | str | None = None,
        files: Sequence[str] | str | None = None,
        app_params: Mapping[str, Any] | str | None = None,
        conf: Mapping[str, Any] | str | None = None,
        env_vars: Mapping[str, Any] | str | None = None,
        digest: str | None = None,
        application_args: Sequence[str] | str | None = None,
        seen_batch: Mapping[str, str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.application_args = application_args
        self.seen_batch = seen_batch
        self.app = app
        self.py_files = py_files
        self.files = files
        self.app_params = app_params
        self.conf = conf
        self.env_vars = env_vars
        self.digest = digest

    def described(self) -> Application:
        """Return the application, after the cheap checks: files exist, the code parses, the digest matches."""
        given = {name: getattr(self, name) for name in APPLICATION_FIELDS[1:]}
        application = application_from(self.application, given, self.app)
        application.check()
        expected = optional_text(self.digest)
        if expected and application.digest() != expected:
            raise ApplicationError(
                f"application {application.file} has changed since it was planned and checked "
                f"(digest {application.digest()[:8]}, was {expected[:8]}); run the update again from its first task"
            )
        return application

    @property
    def app_name(self) -> str | None:
        """The app's name, if given."""
        return optional_text(self.app)


class VersionOperator(ApplicationOperator):
    """Base class of the operators for a version that continues from saved state. These arguments are templated too.

    agree: names of the losses that are agreed to, as in the report (``query/stage``)
    renames: stages and sources with new names, ``{"old": "new"}``
    """

    template_fields = (*ApplicationOperator.template_fields, "deployment_id", "from_snapshot", "agree", "renames")

    def __init__(
        self,
        *,
        deployment_id: str | None = None,
        from_snapshot: str | None = None,
        agree: Sequence[str] | str = (),
        renames: Mapping[str, str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deployment_id = deployment_id
        self.from_snapshot = from_snapshot
        self.agree = agree
        self.renames = renames

    def version(self) -> dict[str, Any]:
        """Return these arguments for a request of the client."""
        return {
            "app": self.app_name,
            "deployment": optional_text(self.deployment_id),
            "snapshot": optional_text(self.from_snapshot),
            "agree": text_list(self.agree, "agree"),
            "renames": text_map(self.renames, "renames"),
        }


class UpdateTaskOperator(AppOperator):
    """Base class of the tasks that are a step of an update.

    app: the app's name
    options: the update's options: the arguments of `update_dag.stream_update`, by name, each templated
    """

    template_fields = (*AppOperator.template_fields, "options")
    template_fields_renderers: ClassVar[dict[str, str]] = {"options": "json"}

    def __init__(self, *, options: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.options = options

    def engine(self, context: Any) -> UpdateEngine:
        """Return the engine for these options. InvalidInputError for an invalid option."""
        ti = context["ti"]
        options = update_options(self.options, self.hook.settings, owner_of(ti), traceparent_of(ti), self.app)
        return UpdateEngine(self.client.context, options, self.log.info)


def check_app(expected: str | None, defined: str, file: str) -> None:
    """Raise ApplicationError when the file defines another app than the one asked for."""
    if expected and defined != expected:
        raise ApplicationError(
            f"application file {file} defines app {defined!r}, not {expected!r}; give the file of {expected!r} or "
            "correct the app's name"
        )
