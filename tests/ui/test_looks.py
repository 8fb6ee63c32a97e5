"""The built page in Chromium, with made-up answers of its API: what real drivers do too seldom to wait for."""

from __future__ import annotations

import ast
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import documents as made
import pytest
from browsing import WRITTEN, boxes_of, cut, overlaps, too_faint
from conftest import REPOSITORY
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

DIST = REPOSITORY / "airflow_provider_streamupdate" / "plugins" / "www" / "dist"
IN_FRAME = {"width": 920, "height": 640}  # what Airflow's navigation leaves of that
THEMES = ["light", "dark"]
SCREENSHOTS = os.environ.get("SCREENSHOTS")  # keep them there


def headers() -> dict[str, str]:
    """What the page's API sends with each answer; that needs Airflow, which is not here, so its text is read."""
    api = ast.parse((DIST.parents[1] / "api.py").read_text())
    assigned = [node for node in api.body if isinstance(node, ast.Assign)]
    found: dict[str, str] = next(ast.literal_eval(n.value) for n in assigned if ast.unparse(n.targets[0]) == "HEADERS")
    return found


class Handler(SimpleHTTPRequestHandler):
    """The page's files, below the folder where Airflow has them, under the same content policy."""

    def end_headers(self) -> None:
        for name, value in headers().items():
            self.send_header(name, value)
        super().end_headers()

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/streamupdate"))

    def log_message(self, *_: Any) -> None:
        pass


class Answers:
    """What the API answers, to be changed at any time; what it was asked."""

    def __init__(self) -> None:
        self.app = made.app()
        self.apps = made.apps(made.listed())
        self.me = made.me()
        self.past = made.past()
        self.review, self.code = made.review(), made.code()
        self.log: dict[str, Any] = {"deployment": "v4", "host": "here", "path": "/log", "lines": ["a line"]}
        self.log["note"] = None
        self.blocked = False  # as if the API server did not answer
        self.asked: list[str] = []
        self.queries: list[str] = []  # of what was asked
        self.runs: list[tuple[str, dict[str, Any]]] = []

    def answer(self, route: Route) -> None:
        request = route.request
        path = unquote(urlsplit(request.url).path)
        self.asked.append(path)
        self.queries.append(urlsplit(request.url).query)
        if self.blocked:
            return route.abort()
        if path.endswith("/dagRuns"):
            self.runs.append((path.split("/")[-2], json.loads(request.post_data or "{}")["conf"]))
            return route.fulfill(json={"dag_run_id": "manual__1"})
        found = {"/api/me": self.me, "/api/apps": self.apps, f"/api/apps/{made.CONN}/{made.APP}": self.app}
        if "/api/v2/dags/" in path:
            return route.fulfill(json={"is_paused": False, "timetable_summary": None})
        if "/updates/" in path:
            return route.fulfill(json=self.code if path.endswith("/code") else self.review)
        if path.endswith("/history"):
            return route.fulfill(json={**self.past, "seconds": int(urlsplit(request.url).query.partition("=")[2])})
        return route.fulfill(json=self.log if path.endswith("/log") else found[path.removeprefix("/streamupdate")])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(DIST)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/streamupdate/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def answers() -> Answers:
    return Answers()


Show = Callable[..., Page]
ONE = f"?conn_id={made.CONN}&app={made.APP}"


@pytest.fixture
def show(address: str, browser: Browser, answers: Answers) -> Iterator[Show]:
    """Opens the page at NOW; its clock runs on, and a test may turn it. What its scripts threw fails the test."""
    problems: list[str] = []
    contexts: list[BrowserContext] = []

    def shown(query: str = ONE, theme: str = "light", size: dict[str, int] = IN_FRAME) -> Page:
        context = browser.new_context(viewport=size, timezone_id="Europe/Berlin")
        contexts.append(context)
        context.add_init_script(f"localStorage.setItem('theme', '{theme}');{WRITTEN}")
        context.route("**/api/**", answers.answer)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.clock.install(time=made.NOW)
        page.goto(address + query)
        expect(page.locator("h1")).to_contain_text(made.APP if query else "Streaming apps")
        expect(page.get_by_text("Loading…")).to_have_count(0)
        return page

    yield shown
    for context in contexts:
        context.close()
    assert not problems


def test_the_table_of_queries_tells_an_exception(show: Show, answers: Answers) -> None:
    answers.app["status"]["queries"]["alerts-by-country"] = made.query(error=made.ERROR, active=False)
    page = show()
    rows = page.locator("#queries tbody tr")
    expect(rows.nth(0).locator("td").last).to_have_text(made.ERROR)
    expect(rows.nth(1).locator("td").last).to_have_text("–")
    answers.app["state"] = "failed"
    page.clock.run_for(2100)
    expect(rows.nth(0).locator("td").nth(5)).to_have_text("–")  # a dead driver reads nothing
    expect(rows.nth(0).locator("td").last).to_have_text(made.ERROR)


def test_the_log_is_asked_for_only_while_it_is_open(show: Show, answers: Answers) -> None:
    page = show()
    asked = lambda: sum(path.endswith("/deployments/v4/log") for path in answers.asked)  # noqa: E731
    page.clock.run_for(10_000)
    assert asked() == 0
    page.locator("#log summary").click()
    expect(page.locator("pre.log")).to_have_text("a line")
    answers.log["lines"] = ["a line", "<b>another</b>"]
    page.clock.run_for(3100)
    expect(page.locator("pre.log")).to_have_text("a line\n<b>another</b>")
    page.locator("#log summary").click()
    expect(page.locator("pre.log")).to_have_count(0)
    before = asked()
    page.clock.run_for(20_000)
    assert asked() == before


BUTTONS = ("Take a snapshot", "Update…", "Restart…", "Roll back…")
LIVES = "Restart: the driver is alive (running)"


@pytest.mark.parametrize(
    ("change", "usable", "told"),
    [
        (
            lambda app, me: app["deployments"][-1].update(parent=None),
            [0, 1],
            [LIVES, "Roll back: there is no deployment before v4"],
        ),
        (
            lambda app, me: app.update(state="lost"),
            [2, 3],
            [
                "Take a snapshot: only a running driver can take one; this one is lost",
                "Update: only a running app can be updated; this one is lost",
            ],
        ),
        (
            lambda app, me: app.update(updates=[made.update(old="v4")]),
            [0, 3],
            ["Update, Restart: the update to page-views-9d21b0c4 is under way"],
        ),
        (
            lambda app, me: app.update(requests=[made.request(run_id="r1", state="queued")]),
            [0, 3],
            ["Update: update by run r1 is under way", LIVES],
        ),
        (
            lambda app, me: me.update(missing_dags=["stream_rollback"]),
            [0, 1],
            [LIVES, "Roll back: Airflow has no DAG stream_rollback"],
        ),
        (
            lambda app, me: app.update(conn_id="another"),
            [0, 3],
            ["Update: DAG stream_update uses connection streamupdate_default; this app is on another", LIVES],
        ),
        (
            lambda app, me: me.update(may_edit=False, may_trigger=dict.fromkeys(made.DAGS, False)),
            [],
            [
                "Take a snapshot: you may not edit DAG stream_update",
                "Update: you may not trigger DAG stream_update",
                "Restart: you may not trigger DAG stream_restart",
                "Roll back: you may not trigger DAG stream_rollback",
            ],
        ),
    ],
)
def test_a_button_that_cannot_be_used_says_why(
    show: Show, answers: Answers, change: Callable[..., None], usable: list[int], told: list[str]
) -> None:
    change(answers.app, answers.me)
    page = show()
    expect(page.locator(".why")).to_have_text(told)
    for n, label in enumerate(BUTTONS):
        button = page.locator(".acts").get_by_role("button", name=label, exact=True)
        if n in usable:
            expect(button).to_be_enabled()
            assert button.get_attribute("aria-describedby") is None
        else:
            expect(button).to_be_disabled()
            reason = page.locator(f"#{button.get_attribute('aria-describedby')}").inner_text()
            assert label.replace("…", "") in reason
            assert button.locator("..").get_attribute("title") == reason.partition(": ")[2]


def test_an_update_that_nobody_works_on_can_be_continued_or_rolled_back(show: Show, answers: Answers) -> None:
    """Although the version that runs has none before it."""
    new = "page-views-9d21b0c4"
    answers.app["deployments"][-1]["parent"] = None
    answers.app["updates"] = [made.update(old="v4")]
    reason = f"the update to {new} was interrupted"
    answers.app["needs"] = [made.need("update-interrupted", "warning", reason=reason, button="rollback", about=new)]
    page = show()
    expect(page.locator(".why")).to_have_text([f"Restart: continue or roll back the update to {new} first"])
    expect(page.locator(".under-way")).to_have_count(0)
    expect(page.locator("#needs")).to_contain_text(f"the update to {new} was interrupted")
    expect(page.get_by_role("button", name="Update…")).to_be_enabled()
    page.locator("#needs").get_by_role("button", name="Roll back…").click()
    form = page.locator("dialog")
    expect(form).to_contain_text(f"The update to {new} is abandoned: v4 continues")
    form.get_by_role("button", name="Roll back").click()
    expect(form).to_have_count(0)
    asked = {"app": made.APP, "deployment_id": new, "conn_id": made.CONN}
    assert answers.runs == [("stream_rollback", asked)]


def test_a_rollback_shows_that_the_version_before_failed_and_goes_to_the_last_one_that_did_not(
    show: Show, answers: Answers
) -> None:
    answers.app["way_back"] = {"to": "v3", "failure": "it failed: division by zero", "healthy": "v2"}
    page = show()
    page.locator(".acts").get_by_role("button", name="Roll back…").click()
    form = page.locator("dialog")
    expect(form.get_by_role("alert").first).to_contain_text("Cannot go back to v3: it failed: division by zero")
    expect(form).to_contain_text("v2 runs again where it was stopped")
    expect(form.get_by_label("v2: the last one that did not fail")).to_be_checked()
    form.get_by_role("button", name="Roll back").click()
    expect(form).to_have_count(0)
    asked = {"app": made.APP, "deployment_id": "v4", "conn_id": made.CONN, "to": "v2"}
    assert answers.runs == [("stream_rollback", asked)]


def test_a_rollback_asks_what_a_function_does_that_does_not_say_so(show: Show, answers: Answers) -> None:
    """With batch ids it has had; a function that is known is not asked about."""
    silent = {"thing": "sink", "verdict": "carried with loss", "rules": ["sink.same", "sink.batch-again"]}
    known = made.item("clicks/foreachBatch", thing="sink", rules=["sink.same"])
    answers.app["report"] = made.report(made.item("views/foreachBatch", **silent), known)
    page = show()
    page.get_by_role("button", name="Roll back…").click()
    form = page.locator("dialog")
    expect(form.get_by_role("checkbox")).to_have_count(1)
    form.get_by_label("The function of query views skips batch ids it has seen").check()
    form.get_by_role("button", name="Roll back").click()
    expect(form).to_have_count(0)
    [(dag, conf)] = answers.runs
    assert (dag, conf["later_ids"]) == ("stream_rollback", ["views"])


def test_the_differences_of_an_update_are_shown(show: Show, answers: Answers) -> None:
    answers.app["difference"] = made.difference()
    page = show()
    section = page.get_by_label("Differences")
    expect(section).to_contain_text(
        "page-views-9d21b0c4 beside the version before it, on the same batches: too different"
    )
    expect(section.locator(".problem")).to_contain_text("5% is allowed")
    expect(section).to_contain_text("only the new version's rows have country_of_the_reader")
    expect(section.locator("#difference-figures tbody tr", has_text="rows out")).to_contain_text("1,234,567")
    expect(section.locator("#difference-rows tbody tr")).to_contain_text("34,567")
    expect(section.locator("#difference-samples tbody tr")).to_have_count(2)
    expect(section.locator("#difference-samples tbody tr").nth(1)).to_contain_text("count")
    answers.app["difference"] = made.difference(outcome="no problem", problems=[], notes=[], rows=[], samples=[])
    page.reload()
    expect(section).to_contain_text("no problem")
    expect(section.locator("table")).to_have_count(1)
    answers.app["difference"] = None
    page.reload()
    expect(page.get_by_label("Stages")).to_be_visible()
    expect(section).to_have_count(0)


def refused(answers: Answers, **changes: Any) -> None:
    """A check whose report refuses the new version."""
    report = {**made.report(made.item("views/views", verdict="refused")), "picture": made.picture(**changes)}
    checked = made.request(state="failed", ended_at=made.at(-5), report=report)
    answers.app["requests"] = [checked]


def test_a_refused_update_is_pictured_old_beside_new(show: Show, answers: Answers) -> None:
    refused(answers)
    section = show().get_by_label("Last check")
    old, new = (section.get_by_role("group", name=f"Query views, {which} version") for which in ("old", "new"))
    expect(old.locator(".node .name")).to_have_text(
        ["clicks", "views-of-the-old-site", "filter clicks.country IS NOT NULL", "views", "sink foreachBatch"]
    )
    expect(new.locator(".node .name")).to_have_text(
        ["clicks", "filter clicks.country IS NOT NULL", "views", "sessions_by_country_and_hour", "sink foreachBatch"]
    )
    expect(old.locator("path")).to_have_count(4)
    expect(new.locator("path")).to_have_count(4)
    for lane in (old, new):  # by a word and a sign beside the colour, on both
        expect(lane.locator(".node.bad .mark-word")).to_have_text("x refused")
    expect(old.locator(".node.between .mark-word")).to_have_text("- ignored")
    expect(old.locator(".node.between .detail")).to_have_text("needs agreement")
    expect(new.locator(".node", has_text="sessions").locator(".mark-word")).to_have_text("+ empty")
    expect(old.locator(".node", has_text="views").last.locator(".detail")).to_have_text("aggregate")
    # the same stage lies below itself
    boxes = [boxes_of(lane.locator(".node", has_text="x refused"))[0] for lane in (old, new)]
    assert boxes[0]["x"] == boxes[1]["x"] and boxes[0]["y"] < boxes[1]["y"]
    # what it is refused for is told at once
    expect(section.locator(".node-told")).to_contain_text("stage views x refused: keys changed: language is gone")
    expect(section.locator(".node-told")).to_contain_text("keys: country, language")
    expect(section.locator(".note")).to_have_text("= carried watermark views:watermark: the watermark is as it was")


def test_what_runs_is_pictured_with_what_its_driver_reports(show: Show, answers: Answers) -> None:
    """Of a driver that ended, only the state is still there."""
    section = show().get_by_label("Picture")
    runs = section.get_by_role("group", name="Query views")
    expect(runs.locator(".rate")).to_have_text(["12.3K/s"])
    expect(runs.locator(".node .mark-word")).to_have_text(["1.2M rows behind", "12.3M state rows", "42 rows a batch"])
    told = ["12,346 rows/s in", "23,457 rows/s processed", "1,234,567 rows behind", "123.5 MB of state"]
    expect(section.locator("h3 .figures").first).to_have_text(", ".join(told))
    answers.app["state"] = "failed"
    section = show().get_by_label("Picture")
    expect(section.get_by_role("group", name="Query views").locator(".node .mark-word")).to_have_text(
        ["12.3M state rows"]
    )
    expect(section.locator("h3 .figures").first).to_have_text("123.5 MB of state")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [1440, 1024])
def test_the_picture_can_be_read(show: Show, answers: Answers, width: int, theme: str) -> None:
    """Nothing is cut or lies over anything else, and every text can be read."""
    refused(answers)
    page = show(theme=theme, size={"width": width, "height": 900})
    for group in ("Query views, old version", "Query views, new version", "Query alerts-by-country"):
        lane = page.get_by_role("group", name=group)
        frame, after = None, lane.locator("..").bounding_box()
        while frame != after:  # what is above it may still come, and move it
            frame = after
            boxes, rates = boxes_of(lane.locator(".node")), boxes_of(lane.locator(".rate"))
            after = lane.locator("..").bounding_box()
        assert len(boxes) >= 2 and not overlaps([*boxes, *rates]), group
        assert frame and all(b["x"] >= frame["x"] and b["x"] + b["width"] <= frame["x"] + frame["width"] for b in boxes)
        for box in boxes:
            assert box["y"] >= frame["y"] and box["y"] + box["height"] <= frame["y"] + frame["height"]
    pictures = page.locator(".pictures")
    expect(pictures).to_have_count(2)
    for n in range(2):
        seen, faint = too_faint(pictures.nth(n))
        assert seen > 15 and not faint
    assert cut(page.locator("body")) == []
    if folder := os.environ.get("SCREENSHOTS"):
        name = f"ui-picture-{width}-{theme}.png"
        page.get_by_label("Last check").screenshot(path=str(Path(folder) / name))
        page.get_by_label("Picture").screenshot(path=str(Path(folder) / name.replace("picture", "running")))


def test_the_nodes_of_a_picture_are_reached_by_keyboard(show: Show, answers: Answers) -> None:
    """One stop of the tab key for each version; the arrows go from node to node, and each tells its reason."""
    refused(answers)
    page = show()
    section = page.get_by_label("Last check")
    told = section.locator(".node-told")
    focused = page.locator(".node:focus")
    section.get_by_role("link").first.focus()
    page.keyboard.press("Tab")
    expect(focused.locator(".name")).to_have_text("views")  # what it is refused for
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(focused.locator(".name")).to_have_text("views-of-the-old-site")
    expect(told).to_contain_text("source views-of-the-old-site - ignored, needs agreement: its offsets are left behind")
    page.keyboard.press("Tab")
    expect(focused.locator(".name")).to_have_text("clicks")  # of the new version, which has no such source
    page.keyboard.press("End")
    expect(focused.locator(".name")).to_have_text("sink foreachBatch")
    page.keyboard.press("ArrowLeft")
    expect(told).to_contain_text("stage sessions_by_country_and_hour + empty: new stage: starts without state")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")  # there is nothing before it
    expect(focused.locator(".name")).to_have_text("clicks")
    ring = focused.evaluate("node => getComputedStyle(node).outlineWidth")
    assert ring == "3px"
    page.keyboard.press("Tab")
    expect(focused).to_have_count(0)


LOSS = made.item("views/daily", verdict="ignored", needs_agreement=True, reason="it is gone from the plan")
SAME = made.item("views/weekly", verdict="refused", offer="views/weekly:same", reason="it is written otherwise")


def test_a_problem_has_its_ways_on_in_order_and_its_details_folded(show: Show, answers: Answers) -> None:
    steps = ["put it back: keep stage daily in the new version", "lose it: agree to it with --agree views/daily"]
    problem = {**LOSS, "next_steps": steps, "details": "old: [country]; new: none"}
    answers.app["requests"] = [made.request(state="failed", report=made.report(made.item("views/views"), problem))]
    checked = show().locator("#last-check")
    assert checked.locator(".ways li").all_inner_texts() == steps
    expect(checked.get_by_text("old: [country]")).to_be_hidden()
    checked.get_by_text("What differs, exactly").click()
    expect(checked.get_by_text("old: [country]")).to_be_visible()


def test_the_form_of_an_update_sends_what_it_was_told(show: Show, answers: Answers) -> None:
    checked = made.request(state="failed", ended_at=made.at(-5), check_only=True)
    more = {**LOSS, "thing": "query", "reason": "and so are its results"}  # of the same name: agreed to at once
    answers.app["requests"] = [{**checked, "report": made.report(made.item("views/views"), LOSS, SAME, more)}]
    page = show()
    expect(page.locator("#last-check tbody tr")).to_have_count(4)
    expect(page.locator("#last-check")).to_contain_text("possible: views/weekly:same")
    expect(page.locator("#last-check .ways")).to_have_count(0)
    page.get_by_role("button", name="Update…").click()
    form = page.locator("dialog")
    form.get_by_label("Application file").fill("/apps/v2.py")
    assert form.get_by_label("Strategy").locator("option").all_inner_texts() == [
        *("standby", "restart", "parallel", "in_flight")
    ]
    expect(form.get_by_label("Run beside for")).to_have_count(0)
    form.get_by_label("Strategy").select_option("parallel")
    form.get_by_label("Run beside for").fill("PT10M")
    form.get_by_label("Rehearsal").fill("3")
    form.get_by_role("button", name="Add a rename").click()
    form.get_by_label("Old name 1").fill("views/visits")
    expect(form.locator(".agreement")).to_have_count(2)
    form.get_by_label("views/daily it is gone from the plan; and so are its results").check()
    form.get_by_label("views/weekly:same").check()
    form.get_by_label("Other agreements").fill("setting/a\n\nsetting/b=known\n")
    form.get_by_label("Check only").check()
    send = form.get_by_role("button", name="Start the check")
    send.click()
    expect(form.get_by_role("alert")).to_have_text("a rename needs the old name and the new one")
    form.get_by_label("New name 1").fill("views/hits")
    send.click()
    expect(form.get_by_role("alert")).to_have_text("say why views/weekly means the same")
    form.get_by_label("Why views/weekly:same").fill("only the order")
    send.click()
    expect(form).to_have_count(0)
    expect(page.locator("#live")).to_contain_text("run manual__1 of DAG stream_update was requested")
    [(dag, conf)] = answers.runs
    assert dag == "stream_update"
    assert conf == {
        "app": made.APP,
        "application": "/apps/v2.py",
        "parameters": {"rate": "300", "output": "s3://a-bucket-of-ours/streams/views/output"},
        "spark_conf": {"spark.sql.shuffle.partitions": "200"},
        "strategy": "parallel",
        "run_beside": "PT10M",
        "rehearse": 3,
        "check_only": True,
        "renames": {"views/visits": "views/hits"},
        "agree": ["views/daily", "views/weekly:same=only the order", "setting/a", "setting/b=known"],
    }


# every chart has labels on both of its axes
DRAWN = "() => [...document.querySelectorAll('figure canvas')].every(canvas => (canvas.written ?? []).length >= 3)"


def test_labels_lie_over_no_other(show: Show) -> None:
    page = show()
    page.get_by_role("button", name="Last day").click()
    figures = page.locator("figure")
    expect(figures).to_have_count(6)
    page.wait_for_function(DRAWN)
    for n in range(6):
        labels = boxes_of(figures.nth(n).locator(".mark"))
        assert not overlaps(labels)
        frame = figures.nth(n).bounding_box()
        assert frame
        for box in labels:
            assert frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"], box
        canvas = figures.nth(n).locator("canvas")
        written = canvas.evaluate("canvas => canvas.written")
        assert len(written) >= 3 and not overlaps(written), written
        width = canvas.evaluate("canvas => canvas.width")
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in written), written
    # the cut-overs, within 40 s of each other, lie in the time that is shown
    assert len(boxes_of(page.locator("figure").last.locator(".mark"))) >= 2
    texts = boxes_of(page.locator("svg.timeline text"))
    assert len(texts) >= 6 and not overlaps(texts), texts
    svg = page.locator("svg.timeline").bounding_box()
    assert svg
    assert all(svg["x"] <= t["x"] and t["x"] + t["width"] <= svg["x"] + svg["width"] for t in texts), texts


def test_what_changes_is_told_to_who_does_not_see_it(show: Show, answers: Answers) -> None:
    """A live region must be there before its text is, and what ticks must not be told."""
    page = show()
    told, problems = page.get_by_role("status"), page.get_by_role("alert")
    expect(told).to_have_count(1)
    expect(told).to_be_empty()
    expect(problems).to_be_empty()
    regions = "() => [...document.querySelectorAll('[role=status], [role=alert]')].map(one => one.kept = true)"
    assert page.evaluate(regions) == [True, True]
    answers.app["requests"] = [made.request()]
    answers.app["updates"] = [made.update(old="v4")]
    answers.app["needs"] = [made.need("lost")]
    page.clock.run_for(2100)
    expect(told).to_contain_text("Update by run")
    expect(told).to_contain_text("getting the new version ready")
    expect(problems).to_contain_text("streamupdate restart page-views")
    assert page.evaluate("() => [...document.querySelectorAll('[role=status], [role=alert]')].every(one => one.kept)")
    ticking = told.locator("[role=timer]")
    expect(ticking).not_to_have_count(0)
    assert all(re.fullmatch(r"[\d.]+ s", text) for text in ticking.all_inner_texts())


# What needs somebody

EACH_KIND = {
    "unreadable": made.need("unreadable", since=None), "crash-loop": made.need("crash-loop", button="restart"),
    "failed": made.need("failed", button="restart", reason=f"its driver is failed: {made.ERROR} {made.HOSTILE}"),
    "lost": made.need("lost", button="restart"), "stopped": made.need("stopped", button="restart"),
    "no-progress": made.need("no-progress"),
    "update-interrupted": made.need("update-interrupted", "warning", button="rollback"),
    "silent": made.need("silent", "warning", button="restart"), "behind": made.need("behind", "warning"),
    "watermark-stands": made.need("watermark-stands", "warning"),
    "update-stuck": made.need("update-stuck", "warning", button="rollback"),
    "update-waits": made.need("update-waits", "warning"),
    "no-verified-snapshot": made.need("no-verified-snapshot", "warning", button="verify", about="nightly"),
    "suspended": made.need("suspended", "info"),
}  # fmt: skip


def needing(kind: str) -> dict[str, Any]:
    state = kind if kind in ("unreadable", "failed", "lost", "stopped", "silent", "suspended") else "running"
    if kind == "unreadable":
        error = {"type": "CorruptError", "message": "/root/unreadable/current.json is not valid JSON"}
        return {"conn_id": made.CONN, "app": kind, "state": state, "error": error, "needs": [EACH_KIND[kind]]}
    found = made.listed(app=kind, state=state, needs=[EACH_KIND[kind]])
    if kind == "update-waits":
        run = {"dag_id": "stream_update", "run_id": "manual__1", "task_id": "update.approve", "since": made.at(-9)}
        found["approval"] = run
    return found


def all_needing() -> dict[str, Any]:
    """As the API sorts them: one of each kind, and two that need nobody."""
    return made.apps(*map(needing, EACH_KIND), made.listed(app="a-calm-one"), made.listed(app="calm-too"))


def test_apps_that_need_somebody_come_first_with_the_reason_and_the_button(show: Show, answers: Answers) -> None:
    answers.apps = all_needing()
    page = show("")
    names = page.locator("#apps tbody tr:not(.more) td:first-child")
    expect(names).to_have_text([*EACH_KIND, "a-calm-one", "calm-too"])
    expect(page.locator("#apps tr.more")).to_have_count(len(EACH_KIND))
    lost = page.locator("#apps tr.more", has_text="(lost)")
    expect(lost).to_contain_text("critical lost since 2026-11-24 19:00:00: something is the matter with it (lost).")
    expect(lost).to_contain_text("streamupdate restart page-views continues from its own checkpoint")
    expect(page.locator("#apps img")).to_have_count(0)  # what an error holds is text
    approve = page.get_by_role("link", name="Approve or reject…")
    expect(approve).to_have_attribute("href", re.compile("/dags/stream_update/runs/manual__1/tasks/update.approve$"))
    name = page.get_by_role("button", name="Name")
    for first in ("a-calm-one", "watermark-stands", "unreadable"):  # up, down, and back to the order of need
        name.click()
        expect(names.first).to_have_text(first)
    page.get_by_label("Filter").fill("no-verified")
    expect(names).to_have_text(["no-verified-snapshot"])


@pytest.mark.parametrize(
    ("need", "state", "title"),
    [
        (made.need("lost", button="restart"), "lost", f"Restart {made.APP}"),
        (made.need("update-stuck", button="rollback"), "running", f"Roll back {made.APP}"),
        (made.need("no-verified-snapshot", button="snapshot"), "running", f"Take a snapshot of {made.APP}"),
        (
            made.need("no-verified-snapshot", button="verify", about="nightly"),
            *("running", "Verify snapshot nightly"),
        ),
    ],
)
def test_a_button_of_the_list_asks_at_once_by_keyboard_and_only_once(
    show: Show, answers: Answers, need: dict[str, Any], state: str, title: str
) -> None:
    answers.apps = made.apps(made.listed(app=made.APP, state=state, needs=[need]))
    answers.app.update(state=state, needs=[need])
    page = show("")
    page.locator("#apps tr.more a.button").focus()
    page.keyboard.press("Enter")
    form = page.get_by_role("dialog", name=title)
    expect(form).to_be_visible()
    page.keyboard.press("Escape")
    expect(form).to_have_count(0)
    assert "do=" not in page.url and f"app={made.APP}" in page.url
    page.reload()
    expect(page.locator("#needs li")).to_have_count(1)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("#needs li button").focus()
    page.keyboard.press("Enter")
    expect(form).to_be_visible()


# An update over time


def widths(page: Page) -> list[float]:
    """Of the parts of an update's steps, without the enlarged pause, in thousandths."""
    found: list[float] = (
        page.locator("svg.update-steps")
        .first.locator("rect.part")
        .evaluate_all("all => all.map(one => one.width.baseVal.value)")
    )
    return found


OPEN_UPDATE = "Details of the update to page-views-9d21b0c4"


def test_the_steps_of_an_update_and_its_pause_are_drawn_to_scale(show: Show) -> None:
    page = show()
    page.get_by_role("button", name=OPEN_UPDATE).click()
    steps = page.locator("svg.update-steps").first
    took = [1.0, 30.0, 40.0, 4.0, 0.5, 12.5, 2.0]
    assert widths(page) == pytest.approx([1000 * one / sum(took) - 2 for one in took], abs=1.5)
    expect(steps.locator("path.cut")).to_have_count(0)
    pause = steps.locator("rect.pause").evaluate("one => [one.x.baseVal.value, one.width.baseVal.value]")
    assert pause == pytest.approx([1000 * 72 / 90, 1000 * 1.234 / 90], abs=1.5)
    items = page.locator(".step-list li")
    expect(items).to_have_count(7)
    expect(items.nth(1)).to_have_text("checked 30.0 s 3 carried; 1 ignored; 1 agreed to")
    expect(items.nth(5)).to_contain_text("it has run for 10 s")
    expect(page.locator("svg.update-steps").nth(1)).to_have_attribute("aria-label", re.compile(r"^The pause: 1\.23 s"))
    texts = boxes_of(page.locator(".review svg.update-steps text"))
    assert not overlaps(texts), texts


def test_an_update_that_was_rolled_back_or_refused_is_told(show: Show, answers: Answers) -> None:
    steps = [
        {"step": "plan", "at": made.at(-100), "seconds": 0.0},
        {"step": "check", "at": made.at(-90), "seconds": 10.0},
    ]
    back = {"number": 1, "left": "v3", "back_to": "v2", "started_at": made.at(-60), "ended_at": made.at(-40)}
    answers.app["rollbacks"] = [
        {**back, "asked_by": "airflow:stream_update/r 1/rollback/-1", "reason": "it died", "epoch": 3}
    ]
    failed = made.update(old="v2", new="v3", started_at=made.at(-100), steps=steps, left=[], outcome="rolled-back")
    refused = made.update(old="v2", new="v9", started_at=made.at(-30), steps=steps[:1], left=[], outcome="refused")
    answers.app["updates"] = [{**failed, "reason": f"it died {made.HOSTILE}"}, {**refused, "reason": "too different"}]
    answers.review.update(settings=None, hours=None, agreed=[], verdicts={}, problems=["stage views/daily: it is gone"])
    page = show()
    page.get_by_role("button", name="Details of the update to v3").click()
    told = ("plan", "check 10.0 s", "failed 30.0 s", "rolled back 20.0 s")
    expect(page.locator(".step-list li")).to_have_text([re.compile(f"^{each}") for each in told])
    expect(page.locator(".review")).to_contain_text(f"Reason: it died {made.HOSTILE}")
    page.get_by_role("button", name="Details of the update to v3").click()
    page.get_by_role("button", name="Details of the update to v9").click()
    expect(page.locator(".step-list li")).to_have_count(1)
    expect(page.locator(".review")).to_contain_text("stage views/daily: it is gone")
    expect(page.locator(".review")).to_contain_text("the files of one version are gone")
    expect(page.locator("#updates tr", has_text="rolled back").first).to_contain_text("stream_update")


# What an update changed


def test_the_history_of_an_update_is_opened_by_keyboard(show: Show, answers: Answers) -> None:
    page = show()
    expect(page.locator("#updates tbody tr").first).to_contain_text("somebody@a-machine-of-ours")
    button = page.get_by_role("button", name=OPEN_UPDATE)
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    shown = page.get_by_role("group", name="Update to page-views-9d21b0c4")
    expect(shown).to_contain_text("Agreed to: views/weekly:same (only the order)")
    settings, hours = shown.locator("[id^=settings-] tbody tr"), shown.locator("[id^=hours-] tbody tr")
    expect(settings).to_have_count(3)
    expect(settings.filter(has_text="api_token")).to_contain_text("(hidden), another")
    expect(settings.filter(has_text="output")).to_contain_text(made.HOSTILE)
    expect(shown).to_contain_text("2.0 h before the new version took over, 1.5 h after it")
    expect(hours.filter(has_text="batch, mean").locator("td")).to_have_text(
        ["views", "batch, mean", "1.25 s", "0.75 s"]
    )
    expect(hours.filter(has_text="state size").locator("td")).to_have_text(
        ["views", "state size, growth", "-1.0 MB/h", "2.5 GB/h"]
    )
    expect(hours.filter(has_text="lag, most").locator("td").last).to_have_text("–")
    assert not any(path.endswith("/code") for path in answers.asked), "code is loaded only when it is opened"
    shown.locator("details.code summary").focus()
    page.keyboard.press("Enter")
    expect(shown.locator("pre.diff span.good").first).to_have_text("+x = 2\n")
    expect(shown.locator(".file").first).to_contain_text("v2.py (was v1.py) +2 -1")
    expect(shown.locator(".file").last).to_contain_text("too much of it differs to be shown")
    expect(page.locator("img")).to_have_count(0)
    page.clock.run_for(4200)  # it stays open while the page refreshes, and is not asked for again
    expect(shown.locator("pre.diff").first).to_be_visible()
    assert sum(path.endswith("/code") for path in answers.asked) == 1
    button.focus()
    page.keyboard.press("Enter")
    expect(shown).to_have_count(0)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [1440, 1024, 920])
def test_each_view_fits_and_can_be_read(show: Show, answers: Answers, theme: str, width: int) -> None:
    """The list with an app of each kind of need, an update under way, and the history with an opened diff."""
    size = {"width": width, "height": 900}

    def fits(page: Page, name: str) -> None:
        assert cut(page.locator("body")) == [], name
        seen, faint = too_faint(page.locator("body"))
        assert seen > 50 and not faint, name
        if SCREENSHOTS and width != 920:
            page.screenshot(path=f"{SCREENSHOTS}/looks-{name}-{width}-{theme}.png", full_page=True)

    answers.apps = all_needing()
    fits(show("", theme, size), "list")
    page = show(theme=theme, size=size)
    page.get_by_role("button", name=OPEN_UPDATE).click()
    page.locator("details.code summary").click()
    expect(page.locator("pre.diff").first).to_be_visible()
    fits(page, "history")
    answers.app["updates"] = [made.promoted(), made.update(old="v4", new="v5", runs="v5")]
    answers.app["needs"] = [made.need("update-stuck", "warning", button="rollback")]
    fits(show(theme=theme, size=size), "under-way")
