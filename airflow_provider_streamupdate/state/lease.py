"""The update lock of an app: one update at a time, and one process at a time that works on it.

Leases are numbered files ``lease/<n>.json``; the highest number counts. Taking over a lease is the exclusive creation
of the next number, so that two takers can never both win; only its holder replaces a file.

The *owner* is what the app is locked for (the deployment that is brought in): it keeps the app from the update's first
step to its last, whichever process works on it. The *holder* is the process that works on it now; it is None between
two steps. Whether a holder lives cannot be told from here: `acquire` is given a function for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import attrs

from . import clock
from .errors import LeaseHeldError
from .serde import from_json, to_json
from .storage import Folder

DEFAULT_SECONDS = 1800.0  # an owner without a process keeps the app for so long after its last step


@attrs.frozen(kw_only=True)
class Holder:
    """A process. `started`: its start time, seconds since the epoch; it tells a process from a later one of its pid."""

    host: str
    pid: int
    started: float | None = None


@attrs.frozen(kw_only=True)
class Lease:
    """owner: what for (the id of the deployment being brought in, for an update); holder: who works on it now;
    renewed_at: the holder's last sign of life"""

    number: int
    owner: str
    token: str
    expires_at: str
    holder: Holder | None = None
    renewed_at: str = ""
    released: bool = False

    @property
    def held(self) -> bool:
        return not self.released and clock.age(self.expires_at) < 0


Judge = Callable[[Lease], bool]


def _always(_lease: Lease) -> bool:
    return True


def read(folder: Folder) -> Lease | None:
    """The newest lease, held or not."""
    numbers = [int(n[:-5]) for n in folder.names("lease") if n.endswith(".json") and n[:-5].isdigit()]
    if not numbers:
        return None
    path = f"lease/{max(numbers)}.json"
    text = folder.read(path)
    if text is None:
        return read(folder)  # removed since it was listed, because a newer one is there
    return from_json(text, Lease, folder.path(path))


def acquire(
    folder: Folder,
    owner: str,
    holder: Holder | None = None,
    alive: Judge = _always,
    needed: Judge = _always,
    seconds: float = DEFAULT_SECONDS,
) -> Lease:
    """Take, take over or renew the lease; LeaseHeldError says who holds it and until when.

    The same owner takes it over once the holder has left it or is gone. Another owner does when it was released or has
    expired, or at once when the holder is gone and what it was doing needs no end.

    alive: whether a lease's holder may still be at work; needed: whether a lease must be kept for its owner although
    its holder is gone (an update under way)
    """
    latest = read(folder)
    if latest and latest.held and (latest.owner, latest.holder) == (owner, holder):
        if renewed := renew(folder, latest, seconds):
            return renewed
        latest = read(folder)
    if latest and latest.held:
        _check_deserted(folder, latest, owner, alive, needed)
    number = latest.number + 1 if latest else 1
    lease = Lease(
        number=number,
        owner=owner,
        token=uuid.uuid4().hex,
        expires_at=_in(seconds),
        holder=holder,
        renewed_at=clock.now(),
    )
    if not folder.create(f"lease/{number}.json", to_json(lease)):
        return acquire(folder, owner, holder, alive, needed, seconds)  # somebody was faster: look again
    if not _newest(folder, lease):
        # The number was free only because its holder had gone and a later one had removed it: it counts for nothing.
        folder.remove(f"lease/{number}.json")
        return acquire(folder, owner, holder, alive, needed, seconds)
    if number > 1:
        folder.remove(f"lease/{number - 1}.json")
    return lease


def renew(folder: Folder, lease: Lease, seconds: float = DEFAULT_SECONDS) -> Lease | None:
    """The holder's sign of life: the lease again, for `seconds` from now; None when somebody else has taken it over."""
    renewed = attrs.evolve(lease, expires_at=_in(seconds), renewed_at=clock.now())
    return renewed if _replace(folder, renewed) else None


def leave(folder: Folder, lease: Lease) -> None:
    """Its holder has done its part: the owner keeps the lease, and any process may go on with it."""
    _replace(folder, attrs.evolve(lease, holder=None, expires_at=_in(DEFAULT_SECONDS)))


def release(folder: Folder, lease: Lease) -> None:
    """Give the lease back; nothing when somebody else has taken it over."""
    _replace(folder, attrs.evolve(lease, released=True))


def _check_deserted(folder: Folder, latest: Lease, owner: str, alive: Judge, needed: Judge) -> None:
    """LeaseHeldError unless `owner` may take over a lease that is held."""
    app, holder = folder.base.rsplit("/", 1)[-1], latest.holder
    if latest.owner == owner:
        if holder is not None and alive(latest):
            raise LeaseHeldError(
                f"an update of {app} is under way: process {holder.pid} on {holder.host} works on {owner} and holds "
                "the lease; wait for it, or end that process and try again"
            )
    elif holder is None or needed(latest) or alive(latest):
        raise LeaseHeldError(
            f"an update of {app} is under way: {latest.owner} holds the lease until {latest.expires_at}"
            + (f" (process {holder.pid} on {holder.host})" if holder else "")
            + "; wait for it, or run that update again to end it"
        )


def _replace(folder: Folder, lease: Lease) -> bool:
    """Write a lease that is still the newest; False when it is not."""
    if not _newest(folder, lease):
        return False
    folder.write(f"lease/{lease.number}.json", to_json(lease))
    if _newest(folder, lease):
        return True
    folder.remove(f"lease/{lease.number}.json")  # taken over meanwhile: the next number is there
    return False


def _newest(folder: Folder, lease: Lease) -> bool:
    latest = read(folder)
    return latest is not None and latest.token == lease.token


def _in(seconds: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
