"""The deployment that an old driver hands over to, and its progress as seen through storage."""

from __future__ import annotations

from .. import clock
from ..errors import FencedError, NotRunningError
from ..registry.deployment import FINISHED, RUNNING, STANDBY
from .watched_driver import Watched

POLL_SECONDS = 0.2  # between two checks of a deployment that seems silent


class Successor(Watched):
    """The deployment that continues in `epoch`."""

    def check_ready(self) -> None:
        """Raise NotRunningError when it is not standing by. If its last heartbeat seems old, by a clock that may be
        wrong, wait for the next one, for SILENT_SECONDS at most."""
        first = self.status()
        while True:
            status = self.status()
            why = self.death_of(status) if status is not None else "it has not started"
            if status is not None and status.state != STANDBY:
                why = why or f"it is {status.state}"
            if status is None or first is None or why is not None:
                raise NotRunningError(f"deployment {self.deployment} is not standing by in epoch {self.epoch}: {why}")
            if status.recent or status.pulse != first.pulse:
                return
            clock.sleep(POLL_SECONDS)

    def committed(self) -> bool:
        """Whether each of its queries has committed its own batch, or has found nothing to do.

        FencedError when the epoch after it has begun: another deployment may commit now.
        """
        current = self.app.current()
        if current is None or (current.deployment, current.epoch) != (self.deployment, self.epoch):
            holder = f"deployment {current.deployment} in epoch {current.epoch}" if current else "nobody"
            raise FencedError(f"{self.deployment} was replaced while it took over: {holder} may commit now")
        status = self.status()
        return (
            status is not None
            and status.state in (RUNNING, FINISHED)
            and bool(status.queries)
            and all(q.first_batch is not None or q.idle or status.state == FINISHED for q in status.queries.values())
        )

    def death(self) -> str | None:
        """Why it will never commit; None while it still may."""
        status = self.status()
        return "it has not started" if status is None else self.death_of(status)
