"""Another process that works on a root, in the world of the test: it is killed, or waits, at a boundary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import attrs

from airflow_provider_streamupdate.control import app_lease
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.core import boundaries, clock
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from tests.simulation.world import World

from .conftest import Site

Work = Callable[[StreamUpdateClient], object]


def client_of(site: Site) -> StreamUpdateClient:
    """A client that starts drivers."""
    return StreamUpdateClient(site.client.root, SparkSubmit())


class _Tokens:
    """The leases that each process of a world holds (`app_lease._in_use`)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._of: defaultdict[int, set[str]] = defaultdict(set)

    def __contains__(self, token: str) -> bool:
        return token in self._of[self._world.own_pid()]

    def add(self, token: str) -> None:
        self._of[self._world.own_pid()].add(token)

    def discard(self, token: str) -> None:
        self._of[self._world.own_pid()].discard(token)


@attrs.define
class Another:
    """reached: whether it got to its boundary; released: whether it may go on; error: what it failed with"""

    reached: bool = False
    released: bool = False
    error: StreamUpdateError | None = None


@contextmanager
def held_at(site: Site, boundary: str, work: Work, dies: bool = False) -> Iterator[Another]:
    """Run `work` in another process until it gets to a boundary, and hold it there during the block, or kill it."""
    world, made = site.world, Another()
    assert world is not None

    def main() -> None:
        try:
            work(client_of(site))
        except StreamUpdateError as error:
            made.error = error

    def stop(name: str) -> None:
        if name != boundary or world.process() is not process or made.released:
            return
        made.reached = True
        if dies:
            world.at(0.0, lambda: world.kill(process))
        while not made.released:
            world.sleep(0.01)

    process = world.spawn("another", [world.process().machine], main)
    boundaries.watch(stop)
    with mock.patch.object(app_lease, "_in_use", _Tokens(world)), ExitStack() as after:
        after.callback(boundaries.watch, None)
        assert world.run(lambda: made.reached and (process.alive is not dies), 100), f"it is not at {boundary}"
        yield made
        made.released = True
        assert world.run(lambda: not process.alive, 600), "it does not end"


def killed_at(site: Site, boundary: str, work: Work) -> None:
    """Run `work` in another process, which is killed at a boundary."""
    with held_at(site, boundary, work, dies=True):
        clock.sleep(0.0)
