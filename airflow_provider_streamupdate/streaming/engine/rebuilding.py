"""Changing reloadable parameters in the driver: the queries are built again in the same session and checked, before
they replace the running ones."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.plan.plan import AppPlan
from ...core.registry.in_flight import ChangeRequest, check_parameters, check_plans
from ...core.registry.registry import AppRegistry
from .. import spark_internals
from ..planning.planner import App, plan_app
from ..restore.restorer import check_restorable
from ..restore.saved_state import SavedState

Built = tuple[Mapping[str, DataStreamWriter], AppPlan]


class Rebuilding:
    """Builds the queries of a running deployment with other parameters."""

    def __init__(self, app: App, spark: SparkSession, registry: AppRegistry, deployment: str) -> None:
        self._app = app
        self._spark = spark
        self._registry = registry
        self._deployment = deployment
        self._settings: dict[str, str] = {}

    def build(self, request: ChangeRequest) -> Built:
        """Return the queries with the request's parameters, and their plan. RefusedError, with the session unchanged,
        when they cannot continue on the committed checkpoint unchanged."""
        spec = self._registry.spec(self._deployment)
        check_parameters(spec.application.params, request.params, self._app.reloadable)
        self._settings = dict(self._spark.conf.getAll)
        spark_internals.activate(self._spark)  # this is the thread of the commands
        try:
            return self._build(request)
        except BaseException:
            self.put_back()
            raise

    def put_back(self) -> None:
        """Restore the session's configuration from before the last build: query functions may change it, which would
        affect the old queries."""
        now = dict(self._spark.conf.getAll)
        for key in now.keys() - self._settings.keys():
            self._spark.conf.unset(key)
        for key, value in self._settings.items():
            if now.get(key) != value:
                self._spark.conf.set(key, value)

    def _build(self, request: ChangeRequest) -> Built:
        app = self._app
        writers = app.build(self._spark, request.params)
        saved = SavedState.find(self._registry, f"deployment:{self._deployment}")
        plan = plan_app(self._spark, app.declarations(), writers, saved.recorded())
        report = saved.compare(plan, request.agree)
        check_plans(saved.plan, plan, report)
        with tempfile.TemporaryDirectory(prefix="streamupdate-change-") as scratch:
            report = check_restorable(saved, report, plan, writers, Path(scratch))
        check_plans(saved.plan, plan, report)
        return writers, plan
