from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_provider_streamupdate.state import lease
from airflow_provider_streamupdate.state.errors import LeaseHeldError
from airflow_provider_streamupdate.state.lease import Lease
from airflow_provider_streamupdate.state.storage import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.open(str(tmp_path / "flights"))


def race(folder: Folder, takers: int = 8) -> list[Lease]:
    """The leases of those who believe that they hold it."""
    barrier = threading.Barrier(takers)

    def take(number: int) -> Lease | None:
        barrier.wait()
        try:
            return lease.acquire(folder, f"owner-{number}")
        except LeaseHeldError:
            return None

    with ThreadPoolExecutor(takers) as pool:
        return [won for won in pool.map(take, range(takers)) if won]


def test_nobody_holds_it_at_first(folder: Folder) -> None:
    assert lease.read(folder) is None


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
    lease.acquire(folder, "v2")
    lease.release(folder, "v3")  # not its owner
    with pytest.raises(LeaseHeldError):
        lease.acquire(folder, "v3")
    lease.release(folder, "v2")
    assert lease.acquire(folder, "v3").number == 2
    assert folder.names("lease") == ["2.json"]


def test_its_owner_can_take_it_again_after_giving_it_back(folder: Folder) -> None:
    lease.acquire(folder, "v2")
    lease.release(folder, "v2")
    assert lease.acquire(folder, "v2").held


def test_an_expired_one_can_be_taken_and_is_lost_to_its_owner(folder: Folder) -> None:
    lease.acquire(folder, "v2", seconds=-1)
    taken = lease.acquire(folder, "v3")
    with pytest.raises(LeaseHeldError, match="v3 holds"):
        lease.acquire(folder, "v2")
    lease.release(folder, "v2")
    assert lease.read(folder) == taken and taken.held


@pytest.mark.parametrize("before", ["nothing", "expired", "released"])
def test_of_many_takers_one_wins(folder: Folder, before: str) -> None:
    for _ in range(5):
        folder.remove("lease")
        if before != "nothing":
            lease.acquire(folder, "old", seconds=-1 if before == "expired" else 60)
            lease.release(folder, "old")
        winners = race(folder)
        assert len(winners) == 1
        assert lease.read(folder) == winners[0]


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


def test_a_number_that_was_used_and_removed_meanwhile_gives_no_lease(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease.acquire(folder, "old", seconds=-1)
    create, interrupted = Folder.create, []

    def slow(self: Folder, path: str, data: bytes) -> bool:
        if path == "lease/2.json" and not interrupted:
            interrupted.append(path)
            lease.acquire(folder, "second")
            lease.release(folder, "second")
            lease.acquire(folder, "third")  # number 3; removes number 2
        return create(self, path, data)

    monkeypatch.setattr(Folder, "create", slow)
    with pytest.raises(LeaseHeldError, match="third holds"):
        lease.acquire(folder, "slower")
    assert folder.names("lease") == ["3.json"]
