"""The trigger that waits until a version beside the old one has caught up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..control.update.strategies.parallel import CatchUp
from .base import StreamUpdateTrigger

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class CaughtUpTrigger(StreamUpdateTrigger):
    """Fires when the new version may take over, or when one of the two versions died (an error). See the base class.

    It may take over when both have run side by side for `run_beside` and the new one has caught up. Meanwhile the
    trigger renews the lease for the update.
    """

    deployment: str  # the new version's
    run_beside: float  # seconds that both run at least
    catch_up_timeout: float | None  # seconds the new one may take after that; None: an hour
    _pursuit: CatchUp | None = attrs.field(init=False, default=None)

    def poll(self, client: StreamUpdateClient) -> str | None:
        return None if self._of(client).missing() else self.deployment

    def waiting_for(self, client: StreamUpdateClient) -> str:
        pursuit = self._of(client)
        return f"{self.deployment} to catch up: {pursuit.late(pursuit.missing())}"

    def _of(self, client: StreamUpdateClient) -> CatchUp:
        """Return one object for all polls: it remembers how far the old version was earlier."""
        if self._pursuit is None:
            asked = self.run_beside, self.catch_up_timeout
            self._pursuit = CatchUp(client.context, self.app, self.deployment, *asked)
        return self._pursuit
