"""The roles of a driver: how it comes to run its deployment's queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ....core.registry.deployment import DriverRole
from ..context import DriverContext
from .hot_standby import HotStandby
from .role import Role
from .standby import Parallel, Standby
from .witness import Witness


def role_of(name: str, batches: int = 0, compare_with: str | None = None) -> Callable[[DriverContext], Role]:
    """Return what makes the role with this name for a driver.

    batches: a standby follows the running deployment from so many of its last batches on; 0: it does not
    compare_with: the deployment with whose rows a witness compares its own
    """
    roles: dict[DriverRole, Callable[[DriverContext], Role]] = {
        DriverRole.RUN: Role,
        DriverRole.STANDBY: partial(Standby, batches=batches),
        DriverRole.HOT_STANDBY: HotStandby,
        DriverRole.WITNESS: partial(Witness, batches=batches, new=str(compare_with)),
        DriverRole.PARALLEL: Parallel,
    }
    return roles[DriverRole(name)]
