"""The notifier of this provider: it tells, through any other notifier, what became of an app."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseNotifier

from ..core.names import check_name
from ..hooks.settings import DEFAULT_CONN_ID
from ..hooks.streamupdate import StreamUpdateHook
from ..hooks.templated_values import optional_text
from .report import Report, report_of

KEY = "stream_update"  # the name by which templates of the other notifiers have the report
_BEGINS = "StreamUpdateBeginOperator"  # its XComs name the app and the update of a run


class StreamUpdateNotifier(BaseNotifier):
    """Tells what became of an app: how its update ended and why, what runs now, what to do, and where to look.

    Use it as a callback of a DAG or a task, for success or failure. It writes the report into the log, and calls the
    notifiers `to`, of any provider, whose templates have it as ``stream_update``::

        StreamUpdateNotifier(to=SlackNotifier(text="{{ stream_update.text }}"))

    ``stream_update`` has ``subject``, ``text`` and the fields of `notifications.report.Report`. When the app cannot be
    read, the others are called all the same, with that as ``problem``.

    to: a notifier, or several; each is called, and the first one's error is raised
    app: the app (templated); None: the one that this run's update, or the callback's task, is about
    deployment_id: the id of the update (templated); None: the one that this run began
    streamupdate_conn_id: the connection (templated)
    """

    template_fields: Sequence[str] = ("app", "deployment_id", "streamupdate_conn_id")

    def __init__(
        self,
        *,
        to: BaseNotifier | Sequence[BaseNotifier] = (),
        app: str | None = None,
        deployment_id: str | None = None,
        streamupdate_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to = [to] if isinstance(to, BaseNotifier) else list(to)
        self.app = app
        self.deployment_id = deployment_id
        self.streamupdate_conn_id = streamupdate_conn_id

    def notify(self, context: Any) -> None:
        report = self.report(context)
        self.log.info("%s", report.text)
        errors = []
        for notifier in self.to:
            try:
                notifier({**context, KEY: report.to_dict()})
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def report(self, context: Any) -> Report:
        """Return the report for a callback's context. It has a problem where the app cannot be read."""
        links, app = _links(context), optional_text(self.app)
        try:
            begun = _begun(context)
            app = app or begun.get("app") or self._app_of_a_task(context)
            check_name("app", app)
            client = StreamUpdateHook(self.streamupdate_conn_id).get_client()
        except Exception as error:  # also what Airflow and Jinja raise: somebody must hear of the run
            return Report(app=app or _dag_id(context), problem=f"{error}", links=links)
        return report_of(client, str(app), optional_text(self.deployment_id) or begun.get("deployment"), links)

    def _app_of_a_task(self, context: Any) -> str | None:
        """Return the app of the callback's task, otherwise of the first task that has one, rendered."""
        dag, task = context.get("dag"), context.get("task")
        for each in (task, *(dag.tasks if dag is not None else ())):
            if isinstance(app := getattr(each, "app", None), str):
                return optional_text(self.render_template(app, context))
        return None


def _begun(context: Any) -> dict[str, str]:
    """Return the app and the update of the task that began one in this run; empty when none did."""
    dag, ti = context.get("dag"), context.get("ti")
    if dag is None or ti is None:
        return {}
    begins = [task.task_id for task in dag.tasks if task.task_type == _BEGINS]
    pulled = ({key: ti.xcom_pull(task_ids=begin, key=key) for key in ("app", "deployment")} for begin in begins)
    return next((found for found in pulled if found["app"]), {})


def _dag_id(context: Any) -> str:
    """Return the name for a run whose app is not known."""
    return str(getattr(context.get("dag"), "dag_id", "an app"))


def _links(context: Any) -> dict[str, str]:
    base, dag, run = conf.get("api", "base_url", fallback=""), context.get("dag"), context.get("run_id")
    if not base or dag is None or not run:
        return {}
    return {"Run": f"{base.rstrip('/')}/dags/{dag.dag_id}/runs/{quote(str(run))}/plugin/streaming-app-run"}
