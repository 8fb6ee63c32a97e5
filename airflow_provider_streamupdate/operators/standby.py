"""The step of an update that gets the new version ready while the old one works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..control import recording, updating
from ..control.holding import holding
from ..control.version import NewVersion
from ..hooks.values import seconds, text_list, text_map
from ..links.streamupdate import DriverLogLink, SparkUiLink
from ..state.update import PARALLEL, STANDBY
from .application import ApplicationOperator
from .steps import link_driver, stop_driver


class StreamUpdateStandbyOperator(ApplicationOperator):
    """Starts the new version's driver beside the old one and returns once it stands by to take over: it has planned,
    has restored what the old one has committed into a scratch folder, and has run batches without rows. With strategy
    parallel it runs its queries instead, from the snapshot, which is taken for that unless it is a given one.

    Nothing of the old version is touched. Does nothing when the update's strategy is another, or when the new version
    took over before. A retry finds the driver of an earlier try. A task killed on the way stops that driver.

    application ...: see ApplicationOperator; `app` is required
    deployment_id: the update's
    snapshot: the name that what the old version ends with is to get; with strategy parallel, what the new one starts
        from
    agree: names of the losses that are agreed to
    renames: stages and sources that have new names, ``{"old": "new"}``
    timeout: seconds (or a timedelta, or ISO 8601 text) until it must stand by; None: the connection's submit timeout
    """

    template_fields = (
        *ApplicationOperator.template_fields,
        "deployment_id",
        "snapshot",
        "agree",
        "renames",
        "timeout",
    )
    operator_extra_links = (SparkUiLink(), DriverLogLink())
    ui_color = "#d5ecd9"

    def __init__(
        self,
        *,
        app: str,
        deployment_id: str,
        snapshot: str,
        agree: Sequence[str] | str = (),
        renames: Mapping[str, str] | str | None = None,
        timeout: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(app=app, **kwargs)
        self.deployment_id = deployment_id
        self.snapshot = snapshot
        self.agree = agree
        self.renames = renames
        self.timeout = timeout

    def execute(self, context: Any) -> None:
        with self.step(context):
            timeout = self.hook.settings.submit_timeout if self.timeout is None else seconds(self.timeout, "timeout")
            registry = self.client.registry.existing(str(self.app_name))
            with holding(registry, self.deployment_id):
                record = recording.begin(self.client, registry.name, self.deployment_id)
                if record.strategy not in (STANDBY, PARALLEL):
                    self.log.info(
                        "the strategy is %s: the new version is started when the old one has ended", record.strategy
                    )
                    return
                try:
                    version = NewVersion(
                        application=self.described(),
                        deployment=self.deployment_id,
                        snapshot=self.snapshot,
                        fresh=self.snapshot == updating.stop_snapshot(self.deployment_id),
                        agree=text_list(self.agree, "agree"),
                        renames=text_map(self.renames, "renames"),
                    )
                    updating.stand_by(self.client, record, version, timeout, self.log.info)
                except BaseException as error:
                    if not isinstance(error, Exception):  # killed, or an execution timeout: nobody else cleans up
                        stop_driver(self.client, registry.name, self.deployment_id, self.log)
                    raise
                finally:  # a driver that died has a log as well
                    link_driver(context, self.client, registry.name, self.deployment_id)
