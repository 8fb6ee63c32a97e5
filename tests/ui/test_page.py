"""The page in a real browser, in a real Airflow, while a real app is updated. In order: the last one updates it."""

from __future__ import annotations

import re
from collections.abc import Callable

from conftest import APP, APPS, WAIT, Site, inside
from playwright.sync_api import Page, expect

LIST = "plugin/streaming-apps"
Open = Callable[..., Page]
Shot = Callable[[Page, str], None]


def test_who_is_not_logged_in_sees_nothing(site: Site, open_page: Open) -> None:
    page = open_page(None, "streamupdate/")
    expect(page.get_by_text("Log in to Airflow to see this page.")).to_be_visible()
    for path in ("", "api/me", "api/apps", f"api/apps/streamupdate_default/{APP}", "assets/icon.svg"):
        assert page.request.get(f"{site.url}/streamupdate/{path}").status == 401
    assert page.request.delete(f"{site.url}/streamupdate/api/apps/streamupdate_default/{APP}/snapshots/x").status == 401


def test_the_list_is_found_filtered_and_sorted(open_page: Open, screenshot: Shot) -> None:
    page = open_page("viewer", LIST)
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
    frame.locator("#apps th button", has_text="Epoch").click()
    expect(frame.locator("#apps th", has_text="Epoch")).to_have_attribute("aria-sort", "ascending")
    screenshot(page, "ui-list-light")


def test_a_viewer_reads_and_has_no_buttons(site: Site, open_page: Open) -> None:
    page = open_page("viewer", LIST)
    inside(page).get_by_role("link", name=APP).click()
    frame = inside(page)
    rows = frame.locator("#stages tbody td").nth(3)
    expect(rows).to_have_text(re.compile(r"\d"), timeout=WAIT)
    beat = heartbeat(site)
    expect(frame.locator(".events")).to_contain_text("running")
    expect(frame.locator("figure canvas")).to_have_count(4)
    expect(frame.locator("header")).to_contain_text("deployment v1, epoch 1")
    for name in ("Take a snapshot", "Update…", "Roll back…", "Verify", "Delete"):
        expect(frame.get_by_role("button", name=name)).to_have_count(0)
    expect(frame.get_by_text("secret", exact=True)).to_have_count(0)
    expect(frame.get_by_text("(hidden)").or_(frame.get_by_text("***")).first).to_be_visible()
    assert heartbeat(site) != beat
    refused = page.request.post(
        f"{site.url}/streamupdate/api/apps/streamupdate_default/{APP}/snapshots", data={"name": "no"}
    )
    assert refused.status == 403


def heartbeat(site: Site) -> str:
    return (site.root / APP / "deployments" / "v1" / "status.json").read_text()


def test_it_is_as_dark_as_airflow(open_page: Open, screenshot: Shot) -> None:
    page = open_page("viewer", LIST, theme="dark")
    frame = inside(page)
    expect(frame.locator("#apps tbody tr")).to_have_count(1, timeout=WAIT)
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
    colour = "element => getComputedStyle(element).backgroundColor"
    assert frame.locator("body").evaluate(colour) == page.locator("body").evaluate(colour)
    screenshot(page, "ui-list-dark")


def test_an_editor_takes_a_snapshot_and_has_it_verified(open_page: Open) -> None:
    page = open_page("editor", f"streamupdate/?conn_id=streamupdate_default&app={APP}")
    page.get_by_role("button", name="Take a snapshot").click()
    page.get_by_label("Name").fill("by-hand")
    page.get_by_role("button", name="Take it").click()
    row = page.locator("#snapshots tbody tr", has_text="by-hand")
    expect(row).to_have_count(1, timeout=WAIT)
    expect(row).to_contain_text("not yet")
    row.get_by_role("button", name="Verify").click()
    page.locator("dialog").get_by_role("button", name="Verify").click()
    expect(row).to_contain_text("whole", timeout=WAIT)
    row.get_by_role("button", name="Delete").click()
    page.locator("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("dialog .problem")).to_contain_text("last snapshot")
    page.locator("dialog").get_by_role("button", name="Cancel").click()
    expect(page.locator("dialog")).to_have_count(0)


def test_an_update_is_started_and_followed(site: Site, open_page: Open, screenshot: Shot) -> None:
    site.unpause("stream_update")
    path = f"{LIST}/streamupdate/?conn_id=streamupdate_default&app={APP}"
    page, dark = open_page("editor", path), open_page("viewer", path, theme="dark")
    frame = inside(page)
    frame.get_by_role("button", name="Update…").click()
    dialog = frame.locator("dialog")
    expect(dialog.get_by_label("Parameters")).to_have_value(re.compile('"rate": "300"'))
    expect(dialog).to_contain_text("Hidden, to be entered again: api_token")
    dialog.get_by_label("Application file").fill(str(APPS / "v2.py"))
    dialog.get_by_role("button", name="Start the update").click()
    expect(frame.get_by_role("status").filter(has_text="has begun")).to_be_visible()
    under_way = frame.locator(".under-way")
    expect(under_way).to_contain_text("checked", timeout=WAIT)
    screenshot(page, "ui-update-light")
    screenshot(dark, "ui-update-dark")
    row = frame.locator("#updates tbody tr")
    expect(row).to_contain_text("promoted", timeout=2 * WAIT)
    expect(row).to_contain_text("standby")
    expect(row.locator("td").nth(5)).to_have_text(re.compile(r"\d+(\.\d+)? s"))
    expect(under_way).to_have_count(0)
    expect(frame.locator("#stages")).to_contain_text("views/once")
    expect(frame.locator("#stages tr", has_text="views/views")).to_contain_text("carried")
    expect(frame.locator("svg.timeline path.lineage")).to_have_count(1)
    expect(frame.locator("#deployments tbody tr")).to_have_count(2)
    screenshot(page, "ui-app-light")

    row.get_by_role("link", name="stream_update").click()
    page.wait_for_url(re.compile(r"/dags/stream_update/runs/"))
    run = page.url.split("/runs/")[1].split("/")[0].split("?")[0]
    for tab in (
        "dags/stream_update/plugin/streaming-app",
        f"dags/stream_update/runs/{run}/plugin/streaming-app-run",
        f"dags/stream_update/runs/{run}/tasks/update.plan/plugin/streaming-app-task",
    ):
        page.goto(f"{site.url}/{tab}")
        expect(inside(page).locator("h1")).to_contain_text(APP)
