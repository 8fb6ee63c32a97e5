"""The lease of an app: one owner at a time, and one process that works for it."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.coordination.lease import Judge, Lease
from airflow_provider_streamupdate.core.errors import LeaseHeldError
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.storage import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.open(str(tmp_path / "flights"))


def test_another_owner_is_told_who_holds_it(folder: Folder) -> None:
    held = lease.acquire(folder, "v2")
    with pytest.raises(LeaseHeldError, match=rf"an update of flights is under way: v2 holds .* {held.expires_at[:10]}"):
        lease.acquire(folder, "v3")
    assert lease.read(folder) == held


def test_the_owner_renews_it(folder: Folder) -> None:
    first = lease.acquire(folder, "v2", seconds=60)
    again = lease.acquire(folder, "v2", seconds=6000)
    assert (again.number, again.token) == (first.number, first.token)
    assert again.expires_at > first.expires_at
    assert lease.read(folder) == again


def test_a_released_one_can_be_taken(folder: Folder) -> None:
    held = lease.acquire(folder, "v2")
    lease.release(folder, attrs.evolve(held, token="another's"))
    with pytest.raises(LeaseHeldError):
        lease.acquire(folder, "v3")
    lease.release(folder, held)
    assert lease.acquire(folder, "v3").number == 2
    assert folder.names("lease") == ["2.json"]


def test_an_expired_one_can_be_taken_and_is_lost_to_its_owner(folder: Folder) -> None:
    lost = lease.acquire(folder, "v2", seconds=-1)
    taken = lease.acquire(folder, "v3")
    with pytest.raises(LeaseHeldError, match="v3 holds"):
        lease.acquire(folder, "v2")
    assert lease.renew(folder, lost) is None
    lease.leave(folder, lost)
    lease.release(folder, lost)
    assert lease.read(folder) == taken and lease.held(folder, taken)
    assert folder.names("lease") == ["2.json"]


# The process that works on it

ME, OTHER = ProcessIdentity(host="here", pid=1), ProcessIdentity(host="here", pid=2)


def living(*holders: ProcessIdentity) -> Judge:
    return lambda held: held.holder in holders


def idle(_held: Lease) -> bool:
    return False


def test_a_second_process_of_the_same_owner_is_told_who_works(folder: Folder) -> None:
    held = lease.acquire(folder, "v2", ME)
    with pytest.raises(LeaseHeldError, match="process 1 on here works on v2 and holds the lease; wait for it"):
        lease.acquire(folder, "v2", OTHER, alive=living(ME))
    assert lease.read(folder) == held


def test_the_same_owner_goes_on_when_the_process_is_gone(folder: Folder) -> None:
    lost = lease.acquire(folder, "v2", ME)
    taken = lease.acquire(folder, "v2", OTHER, alive=living(OTHER))
    assert (taken.owner, taken.holder, taken.number) == ("v2", OTHER, 2)
    assert lease.renew(folder, lost) is None
    with pytest.raises(LeaseHeldError, match="process 2 on here works on v2"):
        lease.acquire(folder, "v2", ME, alive=living(OTHER))
    assert lease.read(folder) == taken


def test_a_sign_of_life_during_the_wait_counts(folder: Folder) -> None:
    held, asked = lease.acquire(folder, "v2", ME), []

    def alive(_held: Lease) -> bool:
        asked.append(lease.renew(folder, held))
        return len(asked) > 1

    with pytest.raises(LeaseHeldError, match="process 1 on here works on v2"):
        lease.acquire(folder, "v2", OTHER, alive=alive)


def test_the_same_owner_goes_on_when_the_process_has_left(folder: Folder) -> None:
    lease.leave(folder, lease.acquire(folder, "v2", ME))
    with pytest.raises(LeaseHeldError, match="v2 holds the lease until"):  # it is the owner's all the same
        lease.acquire(folder, "v3", OTHER)
    assert lease.acquire(folder, "v2", OTHER, alive=living(ME, OTHER)).holder == OTHER


def test_a_rollback_is_offered_after_the_process_that_it_would_be_refused_for(folder: Folder) -> None:
    ways = "run that update again to complete it, or streamupdate rollback"
    lease.acquire(folder, "v2", ProcessIdentity.own())
    with pytest.raises(LeaseHeldError, match=f"wait for it, or end that process; then {ways}"):
        lease.acquire(folder, "v3", OTHER)
    lease.acquire(folder, "v2", ME, alive=living())
    with pytest.raises(LeaseHeldError, match=f"wait for it, or {ways}"):
        lease.acquire(folder, "v3", OTHER)


def test_what_a_dead_process_left_can_be_taken_at_once_unless_it_is_needed(folder: Folder) -> None:
    lease.acquire(folder, "delete s1", ME)
    with pytest.raises(LeaseHeldError, match=r"delete s1 holds the lease until .* \(process 1 on here\)"):
        lease.acquire(folder, "v3", OTHER, alive=living(), needed=lambda held: held.owner == "delete s1")
    with pytest.raises(LeaseHeldError, match="delete s1 holds"):
        lease.acquire(folder, "v3", OTHER, alive=living(ME), needed=idle)
    assert lease.acquire(folder, "v3", OTHER, alive=living(), needed=idle).owner == "v3"


def test_a_lease_that_is_taken_over_between_listing_and_reading_is_no_free_one(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease.acquire(folder, "old", seconds=-1)
    read, interrupted = Folder.read, []

    def slow(self: Folder, path: str) -> bytes | None:
        if path == "lease/1.json" and not interrupted:
            interrupted.append(path)
            lease.acquire(folder, "faster")  # number 2; removes number 1
        return read(self, path)

    monkeypatch.setattr(Folder, "read", slow)
    with pytest.raises(LeaseHeldError, match="faster holds"):
        lease.acquire(folder, "slower")


def test_of_two_takers_the_faster_wins(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    create, interrupted = Folder.create, []

    def slow(self: Folder, path: str, data: bytes, nonce: str | None = None) -> bool:
        if not interrupted:
            interrupted.append(path)
            lease.acquire(folder, "faster")
        return create(self, path, data, nonce)

    monkeypatch.setattr(Folder, "create", slow)
    with pytest.raises(LeaseHeldError, match="faster holds"):
        lease.acquire(folder, "slower")


def test_a_number_that_was_used_and_removed_meanwhile_gives_no_lease(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease.acquire(folder, "old", seconds=-1)
    create, interrupted = Folder.create, []

    def slow(self: Folder, path: str, data: bytes, nonce: str | None = None) -> bool:
        if path == "lease/2.json" and not interrupted:
            interrupted.append(path)
            lease.release(folder, lease.acquire(folder, "second"))
            lease.acquire(folder, "third")  # number 3; removes number 2
        return create(self, path, data, nonce)

    monkeypatch.setattr(Folder, "create", slow)
    with pytest.raises(LeaseHeldError, match="third holds"):
        lease.acquire(folder, "slower")
    assert folder.names("lease") == ["3.json"]
