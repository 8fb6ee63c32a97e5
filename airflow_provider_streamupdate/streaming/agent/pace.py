"""How often a driver does what it does again and again."""

from __future__ import annotations

import attrs

from ...core.registry.deployment import HEARTBEAT_SECONDS


@attrs.frozen(kw_only=True)
class Pace:
    """The intervals of a driver's recurring actions, in seconds.

    commands: between looks for commands, and at a successor
    standby: between looks, while standing by, whether its epoch has begun; a part of the pause
    heartbeat: between heartbeats, with a look whether its epoch is over
    takeover: a successor that has not committed after this time is given up

    Where each look at the storage is a request that is paid for, a running driver slows down:
    idle_after: without a command for this time; until then it is as fast as elsewhere, as an update needs it
    idle_commands, idle_heartbeat: in place of `commands` and `heartbeat` then
    """

    commands: float = 0.2
    standby: float = 0.02
    heartbeat: float = HEARTBEAT_SECONDS
    takeover: float = 300.0
    idle_after: float = 120.0
    idle_commands: float = 5.0
    idle_heartbeat: float = 10.0
