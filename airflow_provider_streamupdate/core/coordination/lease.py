"""The update lock of an app: one update at a time, and one process at a time that works on it.

Leases are numbered files ``lease/<n>.json``; the highest number counts. Taking over a lease is the exclusive creation
of the next number, so that two takers can never both win; only its holder replaces a file.

The *owner* is what the app is locked for (the deployment that is brought in): it keeps the app from the update's first
step to its last, whichever process works on it. The *holder* is the process that works on it now; it is None between
two steps. Whether a holder lives is not decided here: `acquire` is given a function for it.

Whether a lease has expired is decided without comparing two clocks (`elapsed.py`); `expires_at` is for people.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator

import attrs

from .. import clock
from ..errors import LeaseHeldError, StreamUpdateError
from ..names import numbers
from ..processes.elapsed import Uptime, written_ago
from ..processes.process_identity import ProcessIdentity
from ..processes.threads import repeating
from ..serde import from_json, to_json
from ..storage import Folder

RENEW_SECONDS = 5.0  # between two signs of life of a holder
DEFAULT_SECONDS = 1800.0  # an owner without a process keeps the app for so long after its last step


@attrs.frozen(kw_only=True)
class Lease:
    """The lease of an app."""

    number: int
    owner: str  # what the app is locked for; for an update, the id of the new deployment
    token: str
    expires_at: str = attrs.field(validator=clock.is_moment)
    holder: ProcessIdentity | None = None  # the process that works on it; None: between two steps
    renewed_at: str = attrs.field(default="", validator=clock.is_moment)  # the holder's last sign of life
    released: bool = False
    uptime: Uptime | None = None  # the same moment, since the holder's machine was booted
    work: str = ""  # what the holder does, in words, unless it is an update
    taken_at: str = attrs.field(default="", validator=clock.is_moment)

    @property
    def seconds(self) -> float:
        """The time for which it is held after its holder's last sign of life. Both times are of one clock."""
        if not self.renewed_at:
            return DEFAULT_SECONDS
        return (clock.parse(self.expires_at) - clock.parse(self.renewed_at)).total_seconds()


Judge = Callable[[Lease], bool]


def _always(_lease: Lease) -> bool:
    return True


def read(folder: Folder) -> Lease | None:
    """The newest lease, held or not."""
    taken = numbers(folder.names("lease"))
    if not taken:
        return None
    path = f"lease/{max(taken)}.json"
    text = folder.read(path)
    if text is None:
        return read(folder)  # removed since it was listed, because a newer one is there
    return from_json(text, Lease, folder.path(path))


def held(folder: Folder, lease: Lease | None) -> bool:
    """Return whether a lease is held. It may have expired while its holder lives (`acquire`)."""
    return lease is not None and not lease.released and not _over(folder, lease)


def held_for(folder: Folder, owner: str) -> bool:
    """Return whether the newest lease is held for this owner."""
    latest = read(folder)
    return latest is not None and latest.owner == owner and held(folder, latest)


def acquire(
    folder: Folder,
    owner: str,
    holder: ProcessIdentity | None = None,
    alive: Judge = _always,
    needed: Judge = _always,
    seconds: float = DEFAULT_SECONDS,
    work: str = "",
) -> Lease:
    """Take, take over or renew the lease; LeaseHeldError says who holds it and until when.

    The same owner takes it over once the holder has left it or is gone. Another owner takes it over when it was
    released, when it has expired and no holder lives, or at once when the holder is gone and its work needs no
    completion.

    alive: whether a lease's holder may still be at work; needed: whether a lease must be kept for its owner although
    its holder is gone (an update under way); work: see Lease
    """
    latest = read(folder)
    if latest and not latest.released and latest.owner == owner and _same(latest.holder, holder):
        if renewed := renew(folder, latest, seconds):
            return renewed
        latest = read(folder)
    if latest and not latest.released:
        _check_deserted(folder, latest, owner, alive, needed)
        if read(folder) != latest:  # whoever held it gave a sign of life, or another taker was faster
            return acquire(folder, owner, holder, alive, needed, seconds, work)
    number = latest.number + 1 if latest else 1
    lease = Lease(
        number=number,
        owner=owner,
        token=uuid.uuid4().hex,
        expires_at=clock.later(seconds),
        holder=holder,
        renewed_at=clock.now(),
        uptime=Uptime.now(),
        work=work,
        taken_at=clock.now(),
    )
    if not folder.create(f"lease/{number}.json", to_json(lease), nonce=lease.token):
        return acquire(folder, owner, holder, alive, needed, seconds, work)  # somebody was faster: look again
    if not _newest(folder, lease):
        # The number was free only because its holder had gone and a later one had removed it: it counts for nothing.
        folder.remove(f"lease/{number}.json")
        return acquire(folder, owner, holder, alive, needed, seconds, work)
    if number > 1:
        folder.remove(f"lease/{number - 1}.json")
    return lease


def renew(folder: Folder, lease: Lease, seconds: float = DEFAULT_SECONDS) -> Lease | None:
    """The holder's sign of life: renew the lease for `seconds` from now; None when another process has taken it
    over."""
    renewed = attrs.evolve(lease, expires_at=clock.later(seconds), renewed_at=clock.now(), uptime=Uptime.now())
    return renewed if _replace(folder, renewed) else None


@contextlib.contextmanager
def renewing(folder: Folder, lease: Lease) -> Iterator[None]:
    """Renew the lease every RENEW_SECONDS inside the block. The block's next step finds out when it is lost."""
    with repeating(RENEW_SECONDS, lambda: renew(folder, lease, lease.seconds), StreamUpdateError):
        yield


def leave(folder: Folder, lease: Lease) -> None:
    """End the holder's part: the owner keeps the lease, and any process may continue with it."""
    left = attrs.evolve(
        lease, holder=None, expires_at=clock.later(DEFAULT_SECONDS), renewed_at=clock.now(), uptime=Uptime.now()
    )
    _replace(folder, left)


def release(folder: Folder, lease: Lease) -> None:
    """Give the lease back; do nothing when another owner has taken it over."""
    _replace(folder, attrs.evolve(lease, released=True))


def _check_deserted(folder: Folder, latest: Lease, owner: str, alive: Judge, needed: Judge) -> None:
    """LeaseHeldError unless `owner` may take over a lease that is held."""
    app, holder = folder.base.rsplit("/", 1)[-1], latest.holder
    if latest.owner == owner or _over(folder, latest):
        if holder is not None and alive(latest):
            if latest.work:
                raise LeaseHeldError(_at_work(app, latest))
            raise LeaseHeldError(
                f"an update of {app} is under way: process {holder.pid} on {holder.host} works on {latest.owner} and "
                "holds the lease; wait for it, or end that process and try again"
            )
    # Asked again after the wait for a sign of life: an update may have begun meanwhile.
    elif needed(latest) or (holder is not None and (alive(latest) or needed(latest))):
        raise LeaseHeldError(refusal(app, latest))


def refusal(app: str, latest: Lease) -> str:
    """Say why another owner does not get the lease."""
    holder, way_out = latest.holder, f"run that update again to complete it, or streamupdate rollback {app}"
    if holder is not None and holder.lives() is False:
        return (
            f"the update of {app} to {latest.owner} was interrupted: process {holder.pid} on {holder.host} is gone, "
            f"its last sign of life was at {latest.renewed_at}; it keeps the lease until {latest.expires_at}; {way_out}"
        )
    if holder is not None and latest.work:
        return _at_work(app, latest)
    who = f"process {holder.pid} on {holder.host}" if holder else f"no process since {latest.renewed_at}"
    return (
        f"an update of {app} is under way: {latest.owner} holds the lease until {latest.expires_at} ({who}); "
        f"wait for it, or {'end that process; then ' if holder and holder.lives() else ''}{way_out}"
    )


def _at_work(app: str, held: Lease) -> str:
    """Say what a process that is not at an update does with the app."""
    assert held.holder is not None
    since = clock.format_timestamp(held.taken_at or held.renewed_at or held.expires_at)
    return (
        f"app {app} is in use since {since}: {held.work} (process {held.holder.pid} on {held.holder.host}); wait "
        f"until that is done (streamupdate status {app} shows the driver), then run this again"
    )


def _over(folder: Folder, lease: Lease) -> bool:
    """Whether the lease has expired without a sign of life. Where the two processes do not share a machine's boot, this
    machine's clock alone is not trusted."""
    ago = lease.uptime.ago() if lease.uptime else None
    if ago is not None:
        return ago >= lease.seconds
    return clock.age(lease.expires_at) >= 0 and written_ago(folder, f"lease/{lease.number}.json") >= lease.seconds


def _same(one: ProcessIdentity | None, other: ProcessIdentity | None) -> bool:
    return one == other or (one is not None and one.same(other))


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
