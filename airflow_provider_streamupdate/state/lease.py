"""The update lock of an app: one update at a time.

Leases are numbered files ``lease/<n>.json``; the highest number counts. Taking over an expired or released lease is
the exclusive creation of the next number, so that two takers can never both win; only its holder replaces a file.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import attrs

from . import clock
from .errors import LeaseHeldError
from .serde import from_json, to_json
from .storage import Folder

DEFAULT_SECONDS = 1800.0  # longer than any one step of an update; every step renews it


@attrs.frozen(kw_only=True)
class Lease:
    """owner: who holds it (the id of the deployment being brought in, for an update)"""

    number: int
    owner: str
    token: str
    expires_at: str
    released: bool = False

    @property
    def held(self) -> bool:
        return not self.released and clock.age(self.expires_at) < 0


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


def acquire(folder: Folder, owner: str, seconds: float = DEFAULT_SECONDS) -> Lease:
    """Take, take over or renew the lease; LeaseHeldError says who holds it and until when."""
    latest = read(folder)
    if latest and latest.held and latest.owner == owner:
        renewed = attrs.evolve(latest, expires_at=_in(seconds))
        folder.write(f"lease/{latest.number}.json", to_json(renewed))
        newest = read(folder)
        if newest and newest.token == renewed.token:
            return renewed
        latest = newest
    if latest and latest.held:
        raise LeaseHeldError(
            f"an update of {folder.base.rsplit('/', 1)[-1]} is under way: {latest.owner} holds the lease until "
            f"{latest.expires_at}; wait for it, or run that update again to end it"
        )
    number = latest.number + 1 if latest else 1
    lease = Lease(number=number, owner=owner, token=uuid.uuid4().hex, expires_at=_in(seconds))
    if not folder.create(f"lease/{number}.json", to_json(lease)):
        return acquire(folder, owner, seconds)  # somebody was faster: look again
    newest = read(folder)
    if newest is None or newest.token != lease.token:
        # The number was free only because its holder had gone and a later one had removed it: it counts for nothing.
        folder.remove(f"lease/{number}.json")
        return acquire(folder, owner, seconds)
    if number > 1:
        folder.remove(f"lease/{number - 1}.json")
    return lease


def release(folder: Folder, owner: str) -> None:
    """Give the lease back; nothing when `owner` does not hold it."""
    latest = read(folder)
    if latest and latest.owner == owner and not latest.released:
        folder.write(f"lease/{latest.number}.json", to_json(attrs.evolve(latest, released=True)))


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
