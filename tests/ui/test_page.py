"""The page in a real browser, in a real Airflow, while a real app is updated. In order: the last ones update it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable

import pytest
from browsing import inside
from conftest import APP, APPS, WAIT, Site
from playwright.sync_api import FrameLocator, Page, expect

LIST = "plugin/streaming-apps"
ADDRESS = f"streamupdate/?conn_id=streamupdate_default&app={APP}"
API = f"streamupdate/api/apps/streamupdate_default/{APP}"
# What is seen behind an element, and its text's colour, as the browser paints them: red, green, blue, alpha of 255.
PAINTED = """
    const painted = colour => {
      const context = new OffscreenCanvas(1, 1).getContext("2d");
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data];
    };
    const background = element => painted(getComputedStyle(element).backgroundColor);
"""
COLOURS = f"""element => {{
    {PAINTED}
    let seen = element;
    while (background(seen)[3] < 255 && seen.parentElement) seen = seen.parentElement;
    return [background(seen), painted(getComputedStyle(element).color)];
}}"""
OWN = f"element => {{ {PAINTED} return background(element); }}"
Open = Callable[..., Page]
Shot = Callable[..., None]


def test_who_is_not_logged_in_sees_nothing(site: Site, open_page: Open) -> None:
    """What the API refuses to whom is in tests/airflow/test_airflow_page.py."""
    page = open_page(None, "streamupdate/")
    expect(page.get_by_text("Log in to Airflow to see this page.")).to_be_visible()
    for path in ("streamupdate/", "streamupdate/api/me", "streamupdate/api/apps", API, "streamupdate/assets/icon.svg"):
        assert page.request.get(f"{site.url}/{path}").status == 401, path
    page.goto(f"{site.url}/{LIST}")
    page.wait_for_url(re.compile("/login"))


def test_the_list_is_found_filtered_and_sorted(open_page: Open, screenshot: Shot) -> None:
    page = open_page("viewer")
    link = page.get_by_role("link", name="Streams")
    label = link.get_by_text("Streams")
    expect(label).to_be_visible()
    assert label.evaluate("one => one.scrollWidth <= one.clientWidth")  # Airflow cuts what does not fit
    link.click()
    frame = inside(page)
    row = frame.locator("#apps tbody tr")
    expect(row).to_have_count(1, timeout=WAIT)
    expect(row).to_contain_text("running")
    expect(row.locator("td").nth(5)).to_have_text(re.compile(r"[1-9]"), timeout=WAIT)  # rows a second
    frame.get_by_label("Filter").fill("nothing like it")
    expect(row).to_have_count(0)
    frame.get_by_label("Filter").fill("page runn")
    expect(row).to_have_count(1)
    frame.get_by_label("Filter").fill("")
    epoch = frame.locator("#apps th", has_text="Epoch")
    epoch.get_by_role("button").click()
    expect(epoch).to_have_attribute("aria-sort", "ascending")
    epoch.get_by_role("button").click()
    expect(epoch).to_have_attribute("aria-sort", "descending")
    rate = row.locator("td").nth(5)
    expect(rate).not_to_have_text(rate.inner_text(), timeout=WAIT)  # it is fresh without a reload
    screenshot(page, "ui-list-light", height=420)


def test_a_viewer_reads_and_can_use_no_button(open_page: Open) -> None:
    page = open_page("viewer", LIST)
    inside(page).get_by_role("link", name=APP).click()
    frame = inside(page)
    expect(frame.locator("#stages tbody td").nth(3)).to_have_text(re.compile(r"\d"), timeout=WAIT)
    expect(frame.locator(".events")).to_contain_text("running")
    expect(frame.locator("figure canvas")).to_have_count(4)  # rows, duration, state; no lag: that chart is left out
    query = frame.locator("#queries tbody tr")
    expect(query).to_have_count(1)
    expect(query.locator("td").nth(1)).to_have_text(re.compile(r"^\d+$"))  # its batch
    expect(query).to_contain_text(re.compile("processing|waiting for data"))
    expect(frame.locator("figure .u-legend").first).not_to_contain_text(re.compile("[ap]m", re.IGNORECASE))
    expect(frame.locator("header")).to_contain_text("deployment v1, epoch 1")
    for name in ("Take a snapshot", "Update…", "Restart…", "Roll back…"):
        expect(frame.get_by_role("button", name=name)).to_be_disabled()
    expect(frame.locator(".why").first).to_have_text("Take a snapshot: you may not edit DAG stream_update")
    for name in ("Verify", "Delete"):
        expect(frame.get_by_role("button", name=name)).to_have_count(0)
    expect(frame.locator("#log")).to_have_count(0)
    expect(frame.get_by_text("a-secret")).to_have_count(0)
    expect(frame.get_by_text("(hidden)").or_(frame.get_by_text("***")).first).to_be_visible()


def test_it_is_as_dark_as_airflow(open_page: Open, screenshot: Shot) -> None:
    page = open_page("viewer", LIST, theme="dark")
    frame = inside(page)
    expect(frame.locator("#apps tbody tr")).to_have_count(1, timeout=WAIT)
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
    assert frame.locator("body").evaluate(COLOURS) == page.locator("body").evaluate(COLOURS)
    screenshot(page, "ui-list-dark", height=420)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_dialog_hides_what_is_behind_it(open_page: Open, screenshot: Shot, theme: str) -> None:
    """Airflow's body lets its root's colour show through."""
    page = open_page("editor", f"{LIST}/{ADDRESS}", theme=theme)
    frame = inside(page)
    frame.get_by_role("button", name="Update…").click()
    dialog = frame.locator("dialog")
    expect(dialog).to_be_visible()
    background, text = dialog.evaluate(COLOURS)
    assert background == dialog.evaluate(OWN)  # and is not what shows through it
    assert abs(sum(background[:3]) - sum(text[:3])) > 300, (background, text)
    screenshot(page, f"ui-dialog-{theme}")


def test_an_editor_takes_a_snapshot_and_has_it_verified(open_page: Open) -> None:
    page = open_page("editor", ADDRESS)
    expect(page.get_by_role("button", name="Roll back…")).to_be_disabled()  # there is nothing before v1
    page.locator("#log summary").click()
    expect(page.locator("pre.log")).to_contain_text("INFO", timeout=WAIT)  # what Spark says
    page.get_by_role("button", name="Take a snapshot").click()
    page.get_by_label("Name").fill("by-hand")
    page.get_by_role("button", name="Take it").click()
    row = page.locator("#snapshots tbody tr", has_text="by-hand")
    expect(row).to_have_count(1, timeout=WAIT)
    expect(row).to_contain_text("not verified")
    row.get_by_role("button", name="Verify").click()
    page.locator("dialog").get_by_role("button", name="Verify").click()
    expect(row).to_contain_text("whole", timeout=WAIT)
    row.get_by_role("button", name="Delete").click()
    page.locator("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("dialog .problem")).to_contain_text("last snapshot")
    page.locator("dialog").get_by_role("button", name="Cancel").click()
    expect(page.locator("dialog")).to_have_count(0)


def test_a_check_only_shows_its_report_and_changes_nothing(site: Site, open_page: Open) -> None:
    """Its loss is a box of the next form; version 1 without its stage is what loses it."""
    page = open_page("editor", f"{LIST}/{ADDRESS}")
    frame = inside(page)
    frame.get_by_role("button", name="Update…").click()
    frame.get_by_label("Application file").fill(str(APPS / "lossy.py"))
    frame.get_by_label("Check only").check()
    frame.get_by_role("button", name="Start the check").click()
    expect(frame.locator(".request")).to_contain_text("Check by run", timeout=WAIT)
    expect(frame.locator("#last-check")).to_contain_text("views/views", timeout=WAIT)
    expect(frame.locator("#last-check tr", has_text="views/views")).to_contain_text("needed")
    expect(frame.locator(".request.problem")).to_contain_text("Check by run", timeout=WAIT)  # it has failed
    expect(frame.locator("#updates tbody tr")).to_have_count(0)
    assert not (site.root / APP / "updates").exists()
    frame.get_by_role("button", name="Update…").click()
    expect(frame.get_by_role("checkbox", name="views/views")).not_to_be_checked()


def test_an_update_is_started_and_followed(site: Site, open_page: Open, screenshot: Shot) -> None:
    site.pause("stream_update")  # the page unpauses what a request needs
    page, dark = open_page("editor", f"{LIST}/{ADDRESS}"), open_page("viewer", f"{LIST}/{ADDRESS}", theme="dark")
    frame = inside(page)
    frame.get_by_role("button", name="Update…").click()
    dialog = frame.locator("dialog")
    expect(dialog.get_by_label("Parameters")).to_have_value(re.compile('"rate": "300"'))
    expect(dialog).to_contain_text("Hidden, kept unless you enter new values: api_token")
    dialog.get_by_role("button", name="Start the update").click()
    expect(dialog.locator(".problem")).to_contain_text("enter the path")
    dialog.get_by_label("Application file").fill(str(APPS / "v2.py"))
    dialog.get_by_role("button", name="Start the update").click()
    expect(frame.locator(".request")).to_contain_text("Update by run", timeout=WAIT)
    expect(frame.locator(".request").get_by_role("link").first).to_have_attribute(
        "href", re.compile("/dags/stream_update/")
    )
    frame.locator("body").evaluate("() => { window.neverReloaded = true }")

    step = frame.locator(".under-way:not(.request) .step")
    for doing in ("checking", "getting the new version ready", "watching the new version|taking over"):
        expect(step).to_have_text(re.compile(rf"^({doing}).*, \d+(\.\d+)? (s|min)$"), timeout=WAIT)
    expect(frame.get_by_role("button", name="Update…")).to_be_disabled()
    for shown, name in ((page, "ui-update-light"), (dark, "ui-update-dark")):
        expect(inside(shown).get_by_role("img", name=re.compile("State rows by stage, cut-over to "))).to_be_visible()
        expect(inside(shown).locator(".under-way:not(.request)")).to_be_visible()
        screenshot(shown, name)
    ends_well(frame)
    assert frame.locator("body").evaluate("() => window.neverReloaded") is True
    screenshot(page, "ui-app-light")
    ends_well(inside(dark))
    screenshot(dark, "ui-app-dark")


def ends_well(frame: FrameLocator) -> None:
    """The update is told as promoted, with its pause and what became of the state."""
    row = frame.locator("#updates tbody tr")
    expect(row).to_contain_text("promoted", timeout=WAIT)
    expect(row).to_contain_text("standby")
    expect(row.locator("td").nth(5)).to_have_text(re.compile(r"^\d+(\.\d+)? (s|min)$"))  # the pause
    expect(frame.locator(".under-way")).to_have_count(0)
    expect(frame.locator("#stages")).to_contain_text("views/once")
    expect(frame.locator("#stages tr", has_text="views/views")).to_contain_text("carried")
    expect(frame.locator("svg.timeline path.lineage")).to_have_count(1)
    expect(frame.locator("#deployments tbody tr")).to_have_count(2)
    expect(frame.locator("header")).to_contain_text("epoch 2")


@pytest.fixture
def run(site: Site) -> str:
    """The id of the run that updated the app."""
    runs = site.api("editor", "GET", "dags/stream_update/dagRuns")["dag_runs"]
    (found,) = (one for one in runs if not one["conf"].get("check_only"))
    return str(found["dag_run_id"])


@pytest.mark.parametrize("place", ["", "/runs/{run}", "/runs/{run}/tasks/update.plan"])
def test_the_app_is_a_tab_of_what_updates_it(open_page: Open, run: str, place: str) -> None:
    page = open_page("viewer", "dags/stream_update" + place.format(run=run))
    page.get_by_role("link", name="Streaming apps").click()
    page.wait_for_url(re.compile("/dags/stream_update/.*plugin/streaming-app"))
    expect(inside(page).locator("h1")).to_contain_text(APP, timeout=WAIT)
    expect(inside(page).locator("#updates tbody tr")).to_contain_text("promoted")


def test_a_dead_driver_is_restarted_by_its_button(site: Site, open_page: Open) -> None:
    """The DAG was never unpaused: a run that is asked for does not wait."""
    folder = site.root / APP
    current = json.loads((folder / "current.json").read_text())
    launch = json.loads((folder / "deployments" / current["deployment"] / "launch.json").read_text())
    viewer, page = open_page("viewer", f"{LIST}/{ADDRESS}"), open_page("editor", f"{LIST}/{ADDRESS}")
    frame = inside(page)
    expect(frame.locator("header")).to_contain_text("running", timeout=WAIT)
    expect(frame.get_by_role("button", name="Restart…")).to_be_disabled()
    os.killpg(launch["pid"], signal.SIGKILL)
    for shown in (frame, inside(viewer)):
        expect(shown.locator("#needs")).to_contain_text(f"streamupdate restart {APP}", timeout=WAIT)
    buttons = inside(viewer).get_by_role("button", name="Restart…")  # the app's own, and beside what the app needs
    for number in range(2):
        expect(buttons.nth(number)).to_be_disabled()
    listed = inside(open_page("viewer", LIST))
    expect(listed.locator("#apps tbody")).to_contain_text(f"streamupdate restart {APP}", timeout=WAIT)
    frame.locator("#needs").get_by_role("button", name="Restart…").click()
    dialog = frame.locator("dialog")
    expect(dialog).to_contain_text("continues from its own checkpoint")
    dialog.get_by_role("button", name="Restart").click()
    expect(frame.locator(".request")).to_contain_text("Restart by run", timeout=WAIT)
    expect(frame.locator("header")).to_contain_text(f"epoch {current['epoch'] + 1}", timeout=2 * WAIT)
    expect(frame.locator("header")).to_contain_text("running", timeout=WAIT)
    expect(frame.locator("#needs li", has_text="lost")).to_have_count(0)


def test_a_rollback_is_asked_for_by_its_button_and_stays_in_the_history(
    site: Site, open_page: Open, screenshot: Shot
) -> None:
    """Its DAG is paused: the request unpauses it. What it does is shown at once, and after a reload."""
    site.pause("stream_rollback")
    page = open_page("editor", f"{LIST}/{ADDRESS}")
    frame = inside(page)
    expect(frame.locator("#updates tbody tr")).to_have_count(1, timeout=WAIT)
    frame.get_by_role("button", name="Roll back…").click()
    frame.locator("dialog").get_by_role("button", name="Roll back").click()
    banner = frame.locator(".request")
    expect(banner).to_contain_text("Rollback by run", timeout=WAIT)
    page.reload()
    expect(banner).to_contain_text("Rollback by run", timeout=WAIT)
    expect(banner.get_by_role("link").first).to_have_attribute("href", re.compile("/dags/stream_rollback/runs/"))
    expect(banner.locator(".steps")).to_contain_text(re.compile("rolling back.* s"), timeout=WAIT)
    expect(frame.locator("header")).to_contain_text("deployment v1", timeout=2 * WAIT)
    expect(frame.locator("header")).to_contain_text("running", timeout=WAIT)
    row = frame.locator("#updates tbody tr", has_text="rolled back")
    expect(row).to_have_count(1, timeout=WAIT)
    expect(row.get_by_role("link", name="stream_rollback")).to_be_visible()
    expect(banner).to_have_count(0, timeout=WAIT)
    expect(frame.locator("#last-change")).to_contain_text("to v1: rolled back")
    expect(frame.locator("#last-change")).not_to_contain_text("pause")
    timeline = frame.locator("svg.timeline")
    expect(timeline.locator("path.rollback")).to_have_count(1)
    expect(timeline.locator("rect.bar")).to_have_count(4)  # both have had two drivers
    expect(timeline.locator(".axis text").first).to_have_text(re.compile(r"^\d\d:\d\d"))
    expect(frame.locator("#stages")).not_to_contain_text("carried")
    screenshot(page, "ui-rolled-back")


def test_who_approves_an_update_sees_what_it_changes(site: Site, open_page: Open, screenshot: Shot) -> None:
    """In Airflow's own form: the picture of both versions as text, and a table. A rejection changes nothing."""
    site.pause("approved")  # which waits until it is known
    site.api("editor", "PATCH", "dags/approved", {"is_paused": False})
    run = site.api("editor", "POST", "dags/approved/dagRuns", {"logical_date": None, "conf": {}})["dag_run_id"]
    page = open_page("editor", f"dags/approved/runs/{run}/tasks/update.approve")
    page.get_by_role("link", name="Required Action").click(timeout=WAIT)
    picture = page.locator("code")
    expect(picture).to_contain_text("stage once", timeout=WAIT)
    expect(picture).to_contain_text("stage views, aggregate, from")
    assert "monospace" in picture.evaluate("one => getComputedStyle(one).fontFamily")
    assert picture.evaluate("one => one.getClientRects().length") >= 1
    row = page.locator("table tr", has_text="views/views")
    expect(row).to_contain_text("carried")
    screenshot(page, "ui-approval")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("button", name="Approve")).to_be_disabled()
