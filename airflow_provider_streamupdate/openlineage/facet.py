"""The run facet of this provider: what a task did to an app. Importing this needs OpenLineage's packages."""

from __future__ import annotations

import attrs
from airflow.providers.common.compat.openlineage.facet import RunFacet

FACET = "streamUpdate"  # its key among a run's facets
SCHEMA = "urn:airflow-provider-streamupdate:openlineage:StreamUpdateRunFacet-1"  # StreamUpdateRunFacet.json


@attrs.define(kw_only=True)
class StreamUpdateRunFacet(RunFacet):
    """app: the app's name; root: the URI under which apps are kept
    deployment: the one that the task was about; previous: the one before it
    snapshot: the one that the task took, or that the deployment starts from
    update: the id of the update that the task is a step of; strategy, step: the update's strategy, and its last step
    outcome: how the update ended (promoted, rolled-back, refused, superseded; none: it has not); reason: why so
    pauseSeconds: from the old version's last commit to the new one's first
    sparkVersion: of the deployment's plan
    unnamed: its sources and sinks that OpenLineage has no name for
    """

    app: str
    root: str | None = None
    deployment: str | None = None
    previous: str | None = None
    snapshot: str | None = None
    update: str | None = None
    strategy: str | None = None
    step: str | None = None
    outcome: str | None = None
    reason: str | None = None
    pauseSeconds: float | None = None
    sparkVersion: str | None = None
    unnamed: list[str] = attrs.field(factory=list)

    _additional_skip_redact = ("app", "deployment", "previous", "snapshot", "update", "strategy", "step", "outcome")

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA
