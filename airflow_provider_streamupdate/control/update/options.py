"""What an update is asked for."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ...core.names import check_name
from ...core.registry.application import Application
from ...core.registry.update import DEFAULT_STRATEGY, RUN_FOR_SECONDS
from ..operations.rehearse import check_batches

DRAIN_SECONDS = 300.0
SUBMIT_SECONDS = 300.0
CATCH_UP_SECONDS = 3600.0


@attrs.frozen(kw_only=True)
class UpdateOptions:
    """From the command line, from operators and from callers alike. InvalidInputError for what cannot be meant;
    ApplicationError for an application that cannot be read.

    application: the new version
    deployment: the id it gets; None: made from the application's digest
    snapshot: start from this one instead of a fresh one; the results since then are computed again
    agree: names of the losses that are agreed to
    renames: stages and sources that have new names, ``{"old": "new"}``
    strategy: how the new version takes the old one's place (strategies/)
    rehearse: so many batches first, on `snapshot` or the app's newest; 0: none
    run_beside: seconds both versions run at least, with a strategy that runs them side by side
    catch_up_timeout: seconds the new version may take to catch up after that; None: CATCH_UP_SECONDS
    drain_timeout: seconds for the old version's last batch
    submit_timeout: seconds until the new version must run, and until it must be healthy, each
    verify_for: seconds it must have run, and be well at the end, before it is promoted
    check_only: leave it at the check (and the rehearsal): nothing is written, stopped or started
    asked_by: for the record of a change in flight and of a rollback; None: this process's user and host
    """

    application: Application
    deployment: str | None = None
    snapshot: str | None = None
    agree: tuple[str, ...] = ()
    renames: Mapping[str, str] = attrs.field(factory=dict)
    strategy: str = DEFAULT_STRATEGY
    rehearse: int = 0
    run_beside: float | None = None
    catch_up_timeout: float | None = None
    drain_timeout: float = DRAIN_SECONDS
    submit_timeout: float = SUBMIT_SECONDS
    verify_for: float = RUN_FOR_SECONDS
    check_only: bool = False
    asked_by: str | None = None

    def __attrs_post_init__(self) -> None:
        self.application.check()
        if self.deployment is not None:
            check_name("deployment", self.deployment)
        if self.rehearse:
            check_batches(self.rehearse)
