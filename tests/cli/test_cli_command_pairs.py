"""Two commands on one app: the first one is held at a named boundary, the other one comes then, from another process.
What becomes of them is a table, which docs/concurrent-commands.md has as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import RUNNING

from .another import Another, client_of, held_at, killed_at
from .conftest import Site

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concurrent-commands.md"
REFUSED, ENDS_IT, LEAVES_IT, BOTH = "refused", "ends it", "leaves it", "both"
COMMANDS = (
    "update",
    "rollback",
    "cancel",
    "suspend",
    "restart",
    "supervise",
    "gc",
    "promote",
    "standby on",
    "standby off",
    "delete-app",
)
# For each command that is at work, what becomes of one that comes then; for those not named here, USUAL.
USUAL = {**dict.fromkeys(COMMANDS, REFUSED), "cancel": ENDS_IT, "supervise": LEAVES_IT}
AT_WORK: dict[str, dict[str, str]] = {
    "update": {}, "rollback": {},
    "cancel": {
        "rollback": ENDS_IT,
        "cancel": BOTH,
        "restart": ENDS_IT,
        "gc": BOTH,
        "standby off": BOTH,
        "delete-app": ENDS_IT,
    },
    "suspend": {}, "restart": {}, "supervise": {}, "gc": {"cancel": BOTH}, "promote": {"cancel": BOTH},
    "standby on": {}, "standby off": {"cancel": BOTH}, "delete-app": {"cancel": REFUSED},
}  # fmt: skip
PAIRS = {first: {**USUAL, **others} for first, others in AT_WORK.items()}


@attrs.frozen
class First:
    """A command that is held at a boundary. before: what is done before it"""

    boundary: str
    work: Callable[[StreamUpdateClient], object]
    before: tuple[str, ...] = ()


FIRSTS = {
    "update": First("standby-noted", lambda client: None),  # see `first_of`
    "rollback": First("new-stopped", lambda client: client.rollback("alarm"), ("update",)),
    "cancel": First("cancelled", lambda client: client.cancel("alarm"), ("update",)),
    "suspend": First("rest-asked", lambda client: client.suspend("alarm")),
    "restart": First("epoch-claimed", lambda client: client.restart("alarm"), ("crash",)),
    "supervise": First("start-counted", lambda client: client.supervise(once=True), ("crash",)),
    "gc": First("removing", lambda client: client.collect("alarm")),
    "promote": First("promoted", lambda client: client.promote("alarm", "v1")),
    "standby on": First("driver-noted", lambda client: client.stand_by("alarm")),
    "standby off": First("standby-unwanted", lambda client: client.stand_down("alarm"), ("standby on",)),
    "delete-app": First("deletion-noted", lambda client: client.delete_app("alarm"), ("cancel",)),
}


def update(site: Site, version: str) -> UpdateOptions:
    application = Application(file=str(site.application(version)))
    return UpdateOptions(application=application, deployment=version, strategy="standby", submit_timeout=60)


def first_of(site: Site, name: str) -> First:
    """The first command of a pair, after what is done before it."""
    site.ok("submit", site.application("v1"), "--deployment", "v1")
    site.client.wait_healthy("alarm")
    steps: dict[str, Callable[[StreamUpdateClient], object]] = {
        "update": lambda client: client.update(update(site, "v2")),
        "standby on": lambda client: client.stand_by("alarm"),
        "cancel": lambda client: client.cancel("alarm"),
        "crash": lambda _: site.crash("v1"),
    }
    for step in FIRSTS[name].before:
        steps[step](client_of(site))
    return attrs.evolve(FIRSTS[name], work=steps["update"]) if name == "update" else FIRSTS[name]


def come(site: Site, command: str) -> str:
    """Have a command come, and return what became of it, as the table calls it."""
    app = site.app
    before = app.current()
    if command == "supervise":
        client_of(site).supervise(once=True)
        return LEAVES_IT if app.current() == before else ENDS_IT
    if command == "promote":
        try:
            site.client.promote("alarm", str(app.current_id()))
        except StreamUpdateError:
            return REFUSED
        return BOTH
    arguments: dict[str, tuple[str | Path, ...]] = {
        "update": ("update", site.application("v3"), "--deployment", "v3"),
        "standby on": ("standby", "on", "alarm"),
        "standby off": ("standby", "off", "alarm"),
        "delete-app": ("delete-app", "alarm", "--yes"),
    }
    result = site.run(*arguments.get(command, (command, "alarm")))
    if result.exit_code:
        assert app.current() == before, result.stderr
        return REFUSED
    return BOTH if app.current() == before else ENDS_IT


def without_drivers(site: Site) -> None:
    wait_for(lambda: site.alive() == [] or None, "the end of all drivers", 60)


@pytest.mark.parametrize("name", PAIRS)
def test_who_comes_then_and_does_not_win(site: Site, name: str) -> None:
    first = first_of(site, name)
    both = [then for then, result in PAIRS[name].items() if result == BOTH]
    with held_at(site, first.boundary, first.work) as held:
        if name == "cancel":
            without_drivers(site)  # they see it without a word
        for then, result in PAIRS[name].items():
            if result not in (ENDS_IT, BOTH):
                assert come(site, then) == result, then
        for then in both:
            before = site.app.cancellation()
            assert come(site, then) in (BOTH, ENDS_IT), then
            after = site.app.cancellation()
            assert after is not None if then == "cancel" else after == before
    assert held.error is None
    if name == "delete-app":
        assert site.client.apps() == []
    elif "cancel" in (name, *both):
        without_drivers(site)
        assert site.client.status("alarm").state == "cancelled"


def ended_by_cancel(site: Site, name: str, held: Another) -> None:
    app = site.app
    assert (held.error is None) is (name == "supervise"), "it did not notice"
    without_drivers(site)
    client_of(site).supervise(once=True)
    assert site.alive() == [] and app.cancellation() is not None
    assert [u.new for u in app.updates() if u.outcome is None] == []
    assert [r.number for r in app.rollbacks() if r.ended_at is None] == []


WINNERS = [(first, then) for first, row in PAIRS.items() for then, result in row.items() if result == ENDS_IT]


@pytest.mark.parametrize(("name", "then"), WINNERS, ids=lambda name: name.replace(" ", "-"))
def test_who_comes_then_and_wins(site: Site, name: str, then: str) -> None:
    first = first_of(site, name)
    with held_at(site, first.boundary, first.work) as held:
        if name == "cancel":
            without_drivers(site)
        assert come(site, then) == ENDS_IT
    app = site.app
    if then == "cancel":
        ended_by_cancel(site, name, held)
    elif then == "delete-app":
        assert held.error is not None and site.client.apps() == []
        assert not (site.folder / "root" / "alarm").exists()
    else:
        assert held.error is None and site.client.status("alarm").state == RUNNING
        assert site.alive() == [app.current_id()] and app.cancellation() is None


def test_who_cancels_dies_before_a_driver_was_told(site: Site) -> None:
    """An update under way has two drivers then; they end by themselves, and the command is completed by a rerun."""
    first = first_of(site, "update")
    with held_at(site, first.boundary, first.work) as held:
        killed_at(site, "cancelled", lambda client: client.cancel("alarm", asked_by="somebody"))
        without_drivers(site)
    assert held.error is not None
    site.ok("cancel", "alarm")
    record = site.record("v2")
    assert record.outcome == "cancelled" and "cancelled by somebody at" in str(record.reason)


def test_the_page_has_the_same_table() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines)
    found = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}
    assert found == PAIRS
