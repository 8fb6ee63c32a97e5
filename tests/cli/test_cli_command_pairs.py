"""Two commands on one app: the first one is held at a named boundary, the other one comes then, in another process.
What becomes of them is a table, which docs/concurrent-commands.md has as well."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import boundaries
from airflow_provider_streamupdate.core.boundaries import KILL, WAIT
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import RUNNING

from .conftest import Site
from .test_cli_each_boundary import Marks, ended, forked

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
    "update": {},
    "rollback": {},
    "cancel": {
        "rollback": ENDS_IT,
        "cancel": BOTH,
        "restart": ENDS_IT,
        "gc": BOTH,
        "standby off": BOTH,
        "delete-app": ENDS_IT,
    },
    "suspend": {},
    "restart": {},
    "supervise": {},
    "gc": {"cancel": BOTH},
    "promote": {"cancel": BOTH},
    "standby on": {},
    "standby off": {"cancel": BOTH},
    "delete-app": {"cancel": REFUSED},
}
PAIRS = {first: {**USUAL, **others} for first, others in AT_WORK.items()}


def client_of(site: Site) -> StreamUpdateClient:
    return StreamUpdateClient(site.client.root, SparkSubmit())


def update(site: Site, version: str) -> UpdateOptions:
    application = Application(file=str(site.application(version)))
    return UpdateOptions(application=application, deployment=version, strategy="standby", submit_timeout=60)


@attrs.frozen
class First:
    """A command that is held at a boundary. before: what is done before it"""

    boundary: str
    work: Callable[[Site], object]
    before: tuple[str, ...] = ()


FIRSTS = {
    "update": First("standby-noted", lambda site: client_of(site).update(update(site, "v2"))),
    "rollback": First("new-stopped", lambda site: client_of(site).rollback("alarm"), ("update",)),
    "cancel": First("cancelled", lambda site: client_of(site).cancel("alarm"), ("update",)),
    "suspend": First("rest-asked", lambda site: client_of(site).suspend("alarm")),
    "restart": First("epoch-claimed", lambda site: client_of(site).restart("alarm"), ("crash",)),
    "supervise": First("start-counted", lambda site: client_of(site).supervise(once=True), ("crash",)),
    "gc": First("removing", lambda site: client_of(site).collect("alarm")),
    "promote": First("promoted", lambda site: client_of(site).promote("alarm", "v1")),
    "standby on": First("driver-noted", lambda site: client_of(site).stand_by("alarm")),
    "standby off": First("standby-unwanted", lambda site: client_of(site).stand_down("alarm"), ("standby",)),
    "delete-app": First("deletion-noted", lambda site: client_of(site).delete_app("alarm"), ("cancel",)),
}


def come(site: Site, command: str) -> str:
    """Have a command come, and return what became of it, as the table calls it."""
    app = site.client.registry.app("alarm")
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


def prepare(site: Site, first: First) -> None:
    assert site.run("submit", site.application("v1"), "--deployment", "v1").exit_code == 0
    site.client.wait_healthy("alarm")
    for step in first.before:
        if step == "update":
            client_of(site).update(update(site, "v2"))
        elif step == "standby":
            client_of(site).stand_by("alarm")
        elif step == "cancel":
            client_of(site).cancel("alarm")
        else:
            site.crash("v1")


def hold(site: Site, marks: Marks, first: First) -> int:
    """Run the first command in a process of its own until it gets to its boundary; return the process's id."""
    marks.arm(first.boundary, WAIT)

    def work() -> None:
        boundaries._folder = str(marks.folder)  # of this process only: the drivers are not held
        first.work(site)

    process = forked(work)
    wait_for(lambda: marks.reached(first.boundary) or None, first.boundary, 100, 0.01)
    return process


def let_go(marks: Marks, first: First) -> None:
    (marks.folder / "go" / first.boundary).touch()


def without_drivers(site: Site) -> None:
    wait_for(lambda: site.alive() == [] or None, "the end of all drivers", 60)


WINNERS = [(first, then) for first, row in PAIRS.items() for then, result in row.items() if result == ENDS_IT]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_who_comes_then_and_does_not_win(site: Site, tmp_path: Path, name: str) -> None:
    first, marks = FIRSTS[name], Marks(tmp_path / "boundaries")
    prepare(site, first)
    process = hold(site, marks, first)
    if name == "cancel":
        without_drivers(site)  # they see it without a word
    for then, result in PAIRS[name].items():
        if result not in (ENDS_IT, BOTH):
            assert come(site, then) == result, then
    for then in (then for then, result in PAIRS[name].items() if result == BOTH):
        before = site.client.registry.app("alarm").cancellation()
        assert come(site, then) in (BOTH, ENDS_IT), then
        assert then != "cancel" or site.client.registry.app("alarm").cancellation() is not None
        assert then == "cancel" or site.client.registry.app("alarm").cancellation() == before
    let_go(marks, first)
    assert ended(process) == 0
    if name == "delete-app":
        assert site.client.apps() == []
    elif "cancel" in (name, *(then for then, result in PAIRS[name].items() if result == BOTH)):
        without_drivers(site)
        assert site.client.status("alarm").state == "cancelled"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "then"), WINNERS, ids=lambda name: name.replace(" ", "-"))
def test_who_comes_then_and_wins(site: Site, tmp_path: Path, name: str, then: str) -> None:
    first, marks = FIRSTS[name], Marks(tmp_path / "boundaries")
    prepare(site, first)
    process = hold(site, marks, first)
    if name == "cancel":
        without_drivers(site)
    assert come(site, then) == ENDS_IT
    let_go(marks, first)
    code = ended(process)
    app = site.client.registry.app("alarm")
    if then == "cancel":
        assert code == (0 if name == "supervise" else 1), "it did not notice"
        without_drivers(site)
        client_of(site).supervise(once=True)
        assert site.alive() == [] and app.cancellation() is not None
        assert [u.new for u in app.updates() if u.outcome is None] == []
        assert [r.number for r in app.rollbacks() if r.ended_at is None] == []
    elif then == "delete-app":
        assert code == 1 and site.client.apps() == []
        assert not (site.folder / "root" / "alarm").exists()
    else:
        assert code == 0 and site.client.status("alarm").state == RUNNING
        assert site.alive() == [app.current_id()] and app.cancellation() is None


@pytest.mark.slow
def test_who_cancels_dies_before_a_driver_was_told(site: Site, tmp_path: Path) -> None:
    """An update under way has two drivers then; they end by themselves, and the command is completed by a rerun."""
    first, marks = FIRSTS["update"], Marks(tmp_path / "boundaries")
    prepare(site, first)
    updating = hold(site, marks, first)
    marks.arm("cancelled", KILL)

    def cancel() -> None:
        boundaries._folder = str(marks.folder)
        client_of(site).cancel("alarm", asked_by="somebody")

    assert ended(forked(cancel)) == -signal.SIGKILL
    without_drivers(site)
    let_go(marks, first)
    assert ended(updating) == 1
    assert site.run("cancel", "alarm").exit_code == 0
    record = site.client.registry.app("alarm").update("v2")
    assert record is not None and record.outcome == "cancelled" and "cancelled by somebody at" in str(record.reason)


def test_the_page_has_the_same_table() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines)
    found = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}
    assert found == PAIRS


def test_the_page_says_what_the_words_mean() -> None:
    words = set(re.findall(r"^- \*\*(.+?)\*\*:", PAGE.read_text(), re.MULTILINE))
    assert words == {REFUSED, ENDS_IT, LEAVES_IT, BOTH}


if __name__ == "__main__":  # the table for the page
    sys.stdout.write(f"| at work | {' | '.join(f'`{c}`' for c in COMMANDS)} |\n|---|{'---|' * len(COMMANDS)}\n")
    for at_work, row in PAIRS.items():
        sys.stdout.write(f"| `{at_work}` | {' | '.join(row.values())} |\n")
