"""Watching apps, and starting their lost and failed drivers again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ..assets import CRASH_LOOP, app_asset
from ..control.supervision.decision import Backoff
from ..control.supervision.supervise import GaveUp
from ..core.names import check_name
from ..hooks.metrics import count
from ..hooks.templated_values import seconds, text_list
from .base import StreamUpdateOperator


class StreamSuperviseOperator(StreamUpdateOperator):
    """Starts drivers again that are lost, failed or stopped, for as long as it runs.

    Apps that were cancelled, suspended or finished, that are being updated, or whose supervision is off are left alone.

    Returns the names of the apps that are in a crash loop since this run. For each there is an event of the asset alias
    ``streamupdate:crash-loop``, and the metric ``streamupdate.crash_loop`` counts one more. It ends early when it gives
    an app up, so that a task after it can tell somebody.

    apps: a list (or its JSON, or comma-separated text) of those to watch; None or empty: all under the root
    run_for: seconds (or a timedelta, or ISO 8601 text) until it ends
    interval: seconds between two checks
    attempts: starts in a row without a recovery, after which an app is left alone
    initial_backoff, max_backoff: seconds before the second start in a row, and at most
    reset_after: seconds that a driver must have run, and committed, to count as recovered
    """

    template_fields: Sequence[str] = (*StreamUpdateOperator.template_fields, "apps", "run_for", "interval", "attempts")
    ui_color = "#d5ecd9"

    def __init__(
        self,
        *,
        apps: Any = None,
        run_for: Any = 3600,
        interval: Any = 5,
        attempts: Any = 10,
        initial_backoff: float = 5.0,
        max_backoff: float = 300.0,
        reset_after: float = 600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"outlets": [CRASH_LOOP], **kwargs})
        self.apps = apps
        self.run_for = run_for
        self.interval = interval
        self.attempts = attempts
        self.initial_backoff = initial_backoff
        self.max_backoff = max_backoff
        self.reset_after = reset_after

    def execute(self, context: Any) -> list[str]:
        with self.step(context):
            apps = [check_name("app", app) for app in text_list(self.apps, "apps")]
            backoff = Backoff(
                initial=self.initial_backoff,
                most=self.max_backoff,
                attempts=int(self.attempts),
                reset_after=self.reset_after,
            )
            end, gave_up = threading.Event(), list[GaveUp]()

            def end_early(one: GaveUp) -> None:
                gave_up.append(one)
                end.set()

            over = threading.Timer(seconds(self.run_for, "run_for"), end.set)
            over.daemon = True
            over.start()
            try:
                self.client.supervise(
                    apps,
                    backoff,
                    seconds(self.interval, "interval"),
                    self.hook.settings.submit_timeout,
                    progress=self.log.info,
                    on_give_up=end_early,
                    end=end,
                )
            finally:
                over.cancel()
            for one in gave_up:
                self.log.error("app %s is in a crash loop: %s", one.app, one.reason)
                count("crash_loop", app=one.app)
                context["outlet_events"][CRASH_LOOP].add(app_asset(one.app), extra={"reason": one.reason})
            return [one.app for one in gave_up]
