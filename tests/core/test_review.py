"""What an update changed, read afterwards: code, settings, and the hours before it beside the hours after it."""

from __future__ import annotations

import io
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.code_diff import CodeDiff, FileDiff
from airflow_provider_streamupdate.control.operations.settings_diff import Changed
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem, Verdict
from airflow_provider_streamupdate.core.errors import InvalidInputError, NotFoundError
from airflow_provider_streamupdate.core.history.history import MONTHS, Month, driver_key, hour_of, minute_of, sum_up
from airflow_provider_streamupdate.core.history.span import Span
from airflow_provider_streamupdate.core.registry.application import Application, Script
from airflow_provider_streamupdate.core.registry.in_flight import ChangeRequest
from airflow_provider_streamupdate.core.registry.registry import AppRegistry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.serde import to_json

from .builders import deploy, spec, write_spans

NOW = datetime.now(timezone.utc)  # when each test begins, for what is looked at asks the clock


@pytest.fixture(autouse=True)
def it_is_now() -> None:
    global NOW
    NOW = datetime.now(timezone.utc)


APP = "flights"


def version(app: AppRegistry, name: str, files: dict[str, bytes], **changes: Any) -> None:
    """A deployment with these files; the first is the application's, zips are its py_files."""
    main, *others = files
    paths = {part: tuple(f"application/{n}" for n in others if n.endswith((".py", ".zip")) == code) for part, code in (
        ("py_files", True), ("files", False))}  # fmt: skip
    settings = {key: changes.pop(key) for key in ("params", "conf", "env_vars") if key in changes}
    application = Application(file=f"application/{main}", **paths, **settings)
    app.create_deployment(spec(name, application=application, **changes))
    for file, data in files.items():
        app.deployment_folder(name).write(f"application/{file}", data)


def note(app: AppRegistry, **changes: Any) -> UpdateRecord:
    made = UpdateRecord(**{"app": APP, "old": "v1", "new": "v2", "started_at": clock.now(), **changes})
    app.set_update(made)
    return made


def archive(**files: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        for name, data in files.items():
            opened.writestr(f"{name}.py", data)
    return made.getvalue()


def files_of(found: CodeDiff) -> dict[str, FileDiff]:
    return {file.name: file for file in found.files}


def test_code_is_compared_file_by_file(app: AppRegistry, client: StreamUpdateClient) -> None:
    one = {"v1.py": b"a\nb\nc\n", "same.py": b"x\n", "gone.py": b"old\n", "lib.zip": archive(m=b"1\n", n=b"n\n")}
    two = {"v2.py": b"a\nB\nc\n", "same.py": b"x\n", "new.py": b"new\n", "lib.zip": archive(m=b"2\n", n=b"n\n")}
    version(app, "v1", {**one, "rows.bin": b"\0\1", "table.csv": b"1"})
    version(app, "v2", {**two, "rows.bin": b"\0\2", "table.csv": b"1\n2"})
    note(app)
    found = client.code_of_update(APP, "v2")
    files = files_of(found)
    assert set(files) == {"v2.py", "gone.py", "new.py", "lib.zip/m.py", "rows.bin", "table.csv"}
    assert found.same == 2 and found.notes == ()
    assert next(iter(files)) == "v2.py", "the application file comes first"
    main = files["v2.py"]
    assert (main.before, main.added, main.removed) == ("v1.py", 1, 1)
    assert main.lines == ("@@ -1,3 +1,3 @@", " a", "-b", "+B", " c")
    assert (files["gone.py"].lines, files["new.py"].lines) == (("@@ -1 +0,0 @@", "-old"), ("@@ -0,0 +1 @@", "+new"))
    assert files["lib.zip/m.py"].lines == ("@@ -1 +1 @@", "-1", "+2")
    assert [line[:8] for line in files["rows.bin"].lines] == ["@@ -1 +1", "-2 bytes", "+2 bytes"]


def test_an_application_file_whose_name_another_version_gave_to_something_else(
    app: AppRegistry, client: StreamUpdateClient
) -> None:
    version(app, "v1", {"app.py": b"main 1\n", "lib.py": b"lib 1\n"})
    version(app, "v2", {"lib.py": b"main 2\n", "app.py": b"lib 2\n"})
    note(app)
    files = client.code_of_update(APP, "v2").files
    assert [(f.name, f.before, f.lines[-2:]) for f in files] == [
        ("lib.py", "app.py", ("-main 1", "+main 2")),
        ("app.py", None, ("@@ -0,0 +1 @@", "+lib 2")),
        ("lib.py", None, ("@@ -1 +0,0 @@", "-lib 1")),
    ]


@pytest.mark.parametrize("kinds", [("py_files",), ("files",), ("py_files", "py_files")])
def test_files_of_one_name_are_all_compared(
    app: AppRegistry, client: StreamUpdateClient, kinds: tuple[str, ...]
) -> None:
    """Each is stored in a folder of its own; none stands for another."""
    paths = [f"application/{kind}/{number}/job.py" for number, kind in enumerate(kinds)]
    more = {kind: tuple(path for path in paths if f"/{kind}/" in path) for kind in kinds}
    for deployment, text in (("v1", b"LIMIT = 10\n"), ("v2", b"LIMIT = 99999\n")):
        app.create_deployment(spec(deployment, application=Application(file="application/job.py", **more)))
        for path in ("application/job.py", *paths):
            app.deployment_folder(deployment).write(path, b"same\n" if path == paths[0] else text)
    note(app)
    found = client.code_of_update(APP, "v2")
    assert [f.lines[-1] for f in found.files] == ["+LIMIT = 99999"] * len(kinds) and found.same == 1
    assert found.files[0].name == "job.py"


def test_a_script_s_modules_and_arguments_are_compared(app: AppRegistry, client: StreamUpdateClient) -> None:
    for deployment, text, limit in (("v1", b"LIMIT = 1\n", "1"), ("v2", b"LIMIT = 2\n", "2")):
        script = Script(app=APP, arguments=("--limit", limit, "--api-token", f"t0k3n-{limit}"))
        app.create_deployment(spec(deployment, application=Application(file="application/job.py", script=script)))
        for path, content in {"job.py": b"import lib.keys\n", "lib/__init__.py": b"", "lib/keys.py": text}.items():
            app.deployment_folder(deployment).write(f"application/{path}", content)
    note(app)
    [changed] = client.code_of_update(APP, "v2").files
    assert (changed.name, changed.lines[1:]) == ("lib/keys.py", ("-LIMIT = 1", "+LIMIT = 2"))
    told = str(client.review(APP, "v2").settings)
    assert "--limit 1" in told and "--limit 2" in told and "t0k3n" not in told


def test_what_is_huge_is_cut_and_says_so(
    monkeypatch: pytest.MonkeyPatch, app: AppRegistry, client: StreamUpdateClient
) -> None:
    lines = b"".join(b"%d\n" % n for n in range(5000))
    version(app, "v1", {"v1.py": lines, "a.csv": b"x" * 1_000_001, "b.py": b"", "long.py": b"a"})
    version(
        app, "v2", {"v1.py": lines.replace(b"\n", b"!\n"), "a.csv": b"y", "b.py": lines[:5000], "long.py": b"b" * 2001}
    )
    note(app)
    files = files_of(client.code_of_update(APP, "v2"))
    shown = files["a.csv"].lines + files["b.py"].lines[:2] + files["long.py"].lines
    assert files["v1.py"].note == "8001 more lines are not shown" and len(files["v1.py"].lines) == 2000
    assert shown == () and files["a.csv"].note == "3 more lines are not shown"
    app.deployment_folder("v2").write("application/v1.py", lines)
    files = files_of(client.code_of_update(APP, "v2"))
    assert files["a.csv"].lines[1].startswith("-1000001 bytes that are not compared line by line, SHA-256 ")
    assert files["a.csv"].lines[2] == "+y" and files["long.py"].lines[2].startswith("+2001 bytes that are not ")
    # one line that changes in a long file is shown
    app.deployment_folder("v2").write("application/v1.py", lines.replace(b"2500\n", b"another\n"))
    assert files_of(client.code_of_update(APP, "v2"))["v1.py"].added == 1


def test_an_archive_that_lies_or_holds_too_much_is_compared_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, app: AppRegistry, client: StreamUpdateClient
) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("zeros.py", b"0" * 30_000_000)
    version(app, "v1", {"v1.py": b"", "a.zip": bomb.getvalue(), "b.zip": b"PK no zip", "c.zip": archive(x=b"1")})
    version(
        app, "v2", {"v1.py": b"", "a.zip": archive(zeros=b"0"), "b.zip": b"PK another", "c.zip": archive(x=b"1")[:-9]}
    )
    note(app)
    found = client.code_of_update(APP, "v2")
    assert {"a.zip", "a.zip/zeros.py", "b.zip", "c.zip", "c.zip/x.py"} == {f.name for f in found.files}


def test_secrets_are_hidden_in_code_and_settings(app: AppRegistry, client: StreamUpdateClient) -> None:
    secrets = {"api_token": "t0k3n-1"}, {"api_token": "t0k3n-2"}
    version(app, "v1", {"v1.py": b"call('t0k3n-1')\nx = 1\n"}, params={"a": "1", **secrets[0]}, conf={"spark.a": "1"})
    version(app, "v2", {"v1.py": b"call('t0k3n-1')\nx = 2\n"}, params={"b": "2", **secrets[1]}, env_vars={"E": "e"})
    note(app)
    text = str(client.code_of_update(APP, "v2")) + str(client.review(APP, "v2"))
    assert "t0k3n" not in text and "call('(hidden)')" in text
    assert client.review(APP, "v2").settings == (
        Changed(part="parameters", key="a", before="1", after=None),
        Changed(part="parameters", key="api_token", before="(hidden)", after="(hidden), another"),
        Changed(part="parameters", key="b", before=None, after="2"),
        Changed(part="conf", key="spark.a", before="1", after=None),
        Changed(part="environment", key="E", before=None, after="e"),
    )


def test_changes_in_flight_belong_to_their_own_updates(app: AppRegistry, client: StreamUpdateClient) -> None:
    version(app, "v1", {"v1.py": b""}, params={"threshold": "1"})
    made = note(app, outcome="promoted")
    version(app, "v2", {"v1.py": b""}, params={"threshold": "5"})
    app.add_change("v2", ChangeRequest(id="c1", params={"threshold": "6"}, digest="d", asked_by="me"))
    app.set_update(attrs.evolve(made, new="c1", old="v2", in_place=True, started_at=clock.now()))
    assert client.review(APP, "v2").settings == (Changed(part="parameters", key="threshold", before="1", after="5"),)
    assert client.review(APP, "c1").settings == (Changed(part="parameters", key="threshold", before="5", after="6"),)
    assert client.code_of_update(APP, "c1").notes == ("a change in flight changes parameters only",)


def test_an_update_tells_who_and_what_was_agreed_to(app: AppRegistry, client: StreamUpdateClient) -> None:
    version(app, "v1", {"v1.py": b""})
    version(app, "v2", {"v1.py": b""}, agree=("windows/daily:same=only the order", "windows/old"))
    note(app, asked_by="airflow:stream_update/r1/plan/-1", verified=("it has run for 10 s",))
    items = (
        ReportItem(thing="stage", name="windows/a", verdict=Verdict.CARRIED, reason="same"),
        ReportItem(thing="stage", name="windows/old", verdict=Verdict.IGNORED, reason="gone", needs_agreement=True),
    )
    app.folder.write("updates/v2.report.json", to_json(CompatibilityReport(app=APP, source="v1", items=items)))
    found = client.review(APP, "v2")
    assert found.agreed == ("windows/daily:same (only the order)", "windows/old")
    assert found.verdicts == {"carried": 1, "ignored": 1} and found.update.asked_by.startswith("airflow:")
    assert found.problems == ("stage windows/old: gone; lose it: agree to it with --agree windows/old",)


def test_an_update_that_left_no_files_and_one_that_is_not_there(app: AppRegistry, client: StreamUpdateClient) -> None:
    version(app, "v1", {"v1.py": b""})
    note(app, outcome="refused")
    assert (client.review(APP, "v2").settings, client.review(APP, "v2").hours) == (None, None)
    with pytest.raises(NotFoundError, match="the files of v2 of flights are gone"):
        client.code_of_update(APP, "v2")
    with pytest.raises(NotFoundError, match=r"no update 'v9' \(known: v2\)"):
        client.review(APP, "v9")
    with pytest.raises(InvalidInputError):
        client.review(APP, "../v2")


def minutes(app: AppRegistry, deployment: str, epoch: int, first: int, last: int, rows: int, kept: int) -> None:
    """From so many minutes ago to so many; each with 60 rows times `rows`, and `kept` state rows more than before."""
    spans = []
    for n, ago in enumerate(range(first, last, -1)):
        at = (minute_of(NOW) - timedelta(minutes=ago)).isoformat()
        one = Span(at=at, batches=1, timed=1, rows_in=60 * rows, seconds=0.5 * rows, longest=float(rows))
        spans.append(attrs.evolve(one, state_rows={"daily": kept * n}, lag=float(n), lag_most=float(n)))
    write_spans(app, *spans, deployment=deployment, epoch=epoch)


def taken_over(app: AppRegistry, ago: float, **changes: Any) -> UpdateRecord:
    at = (minute_of(NOW) - timedelta(minutes=ago) + timedelta(seconds=20)).isoformat()
    times = {"plan": at, "snapshot_and_cancel": at}
    return note(app, step_times=times, paused_at=at, pause_seconds=1.0, outcome="promoted", **changes)


@pytest.fixture
def both(app: AppRegistry) -> AppRegistry:
    """v1 ran before v2."""
    deploy(app, "v1")
    deploy(app, "v2", epoch=2)
    return app


def hours(client: StreamUpdateClient) -> tuple[Any, dict[str, tuple[Any, ...]]]:
    """What is compared of v2's update, and the figures of it."""
    found = client.review(APP, "v2").hours
    return found, {f.figure: (f.before, f.after, f.unit) for f in found.figures}


def test_the_same_time_before_and_after_is_compared(both: AppRegistry, client: StreamUpdateClient) -> None:
    taken_over(both, 90)
    minutes(both, "v1", 1, 300, 89, rows=1, kept=10)  # also in the minute of the cut-over
    minutes(both, "v2", 2, 90, 0, rows=2, kept=60)
    found, figures = hours(client)
    # 90 minutes after the cut-over began are 89 whole ones; as many before
    assert found.after == 89 * 60 and found.before == pytest.approx(89 * 60, abs=120)
    assert figures["batch, mean"] == (0.5, 1.0, "s") and figures["batch, longest"] == (1.0, 2.0, "s")
    assert figures["rows in"] == (1.0, 2.0, "rows/s")
    assert figures["state rows, growth"] == (600.0, 3600.0, "rows/h")
    assert figures["lag at the end"] == (209.0, 89.0, "rows") and "rows out" not in figures


def test_an_update_of_last_month_is_compared_by_hours(both: AppRegistry, client: StreamUpdateClient) -> None:
    cut = hour_of(NOW) - timedelta(days=20) + timedelta(minutes=30)
    note(both, step_times={"snapshot_and_cancel": cut.isoformat()}, outcome="promoted")

    def of(first: int, last: int, rows: int) -> tuple[Span, ...]:
        moments = (hour_of(cut) + timedelta(hours=h) for h in range(first, last))
        return tuple(Span(at=h.isoformat(), batches=60, timed=60, rows_in=3600 * rows, seconds=60.0) for h in moments)

    spans = {driver_key("v1", 1): {"q": of(-100, 1, 1)}, driver_key("v2", 2): {"q": of(0, 100, 2)}}
    for month in {at.strftime("%Y%m") for at in (NOW - timedelta(days=25), NOW - timedelta(days=15))}:
        kept = {
            driver: {"q": tuple(s for s in queries["q"] if s.at[:7].replace("-", "") == month)}
            for driver, queries in spans.items()
        }
        both.folder.write(f"{MONTHS}/{month}.json", to_json(Month(spans=kept)))
    found, figures = hours(client)
    assert (found.before, found.after) == (23 * 3600.0, 23 * 3600.0) and figures["rows in"][:2] == (1.0, 2.0)


def hours_of(app: AppRegistry, deployment: str, epoch: int, begin: datetime, minutes: int) -> None:
    """600 rows a minute, 10 a second."""
    moments = [(begin + timedelta(minutes=n)).isoformat() for n in range(minutes)]
    spans = [Span(at=at, batches=1, timed=1, rows_in=600, seconds=5.0) for at in moments]
    write_spans(app, *spans, deployment=deployment, epoch=epoch)


@pytest.mark.parametrize(
    ("drivers", "before"),
    [
        ([(-600, 600)], 9 * 3600),
        ([(-600, 570), (-30, 30)], 9 * 3600),  # started again
        ([(-600 + 5 * n, 5) for n in range(120)], 9 * 3600),  # and again
        ([(-66, 66)], 3600),  # it was started six minutes before an hour was over
    ],
)
def test_a_rate_is_of_the_time_whatever_the_number_of_drivers(
    both: AppRegistry, client: StreamUpdateClient, drivers: list[tuple[int, int]], before: float
) -> None:
    cut = hour_of(NOW) - timedelta(days=3)
    note(both, step_times={"snapshot_and_cancel": cut.isoformat()}, outcome="promoted")
    note(both, new="v3", old="v2", started_at=(cut + timedelta(hours=10)).isoformat())
    for epoch, (begin, length) in enumerate(drivers, start=1):
        hours_of(both, "v1", epoch, cut + timedelta(minutes=begin), length)
    hours_of(both, "v2", 200, cut + timedelta(minutes=1), 600)
    sum_up(both.folder, NOW)
    found, figures = hours(client)
    assert (found.before, found.after) == (before, 9 * 3600) and figures["rows in"][:2] == (10.0, 10.0)


def test_an_hour_on_each_side_of_half_past(both: AppRegistry, client: StreamUpdateClient) -> None:
    """The next update came before a whole hour was over: what was before is told."""
    cut = hour_of(NOW) - timedelta(days=3) + timedelta(minutes=30)
    note(both, step_times={"snapshot_and_cancel": cut.isoformat()}, outcome="promoted")
    note(both, new="v3", old="v2", started_at=(cut + timedelta(minutes=56)).isoformat())
    hours_of(both, "v1", 1, cut - timedelta(hours=10), 600)
    hours_of(both, "v2", 2, cut + timedelta(minutes=1), 55)
    found, _ = hours(client)
    assert (found.before, found.after) == (3600, 0)


RAN = {"snapshot_and_cancel": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("outcome", "times", "after"),
    [
        *(("refused", {}, 89), ("refused", RAN, 89), ("rolled-back", {}, 89)),
        *(("promoted", RAN, 29), ("rolled-back", RAN, 29), (None, RAN, 29), (None, {}, 29)),
    ],
)
def test_the_next_update_ends_the_hours_unless_it_never_ran(
    both: AppRegistry, client: StreamUpdateClient, outcome: str | None, times: dict[str, str], after: int
) -> None:
    taken_over(both, 90)
    later = (minute_of(NOW) - timedelta(minutes=60)).isoformat()
    note(both, old="v2", new="v3", started_at=later, outcome=outcome, step_times=times)
    minutes(both, "v2", 2, 90, 0, rows=2, kept=60)
    assert hours(client)[0].after == after * 60


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+00:00"])
@pytest.mark.parametrize("pause", [1e308, -1e308])
def test_moments_that_nobody_lived_in_break_nothing(
    both: AppRegistry, client: StreamUpdateClient, moment: str, pause: float
) -> None:
    minutes(both, "v1", 1, 300, 89, rows=1, kept=10)
    made = taken_over(both, 90)
    both.set_update(attrs.evolve(made, pause_seconds=pause))
    found, figures = hours(client)
    assert found.before > 0
    strange = Month(spans={"1-v1": {"q": (Span(at=moment, rows_in=1),)}})
    both.folder.write(f"{MONTHS}/{moment[:4]}12.json", to_json(strange))
    assert hours(client)[1] == figures
    both.set_update(attrs.evolve(made, paused_at=moment, step_times={"snapshot_and_cancel": moment}))
    assert client.review(APP, "v2").hours is None


def test_nothing_is_known_of_hours_that_nobody_wrote_down(both: AppRegistry, client: StreamUpdateClient) -> None:
    taken_over(both, 90)
    assert client.review(APP, "v2").hours is None
    both.folder.write(f"history/minutes/{hour_of(NOW).strftime('%Y%m%dT%H')}-2-v2.json", b"{")
    assert client.review(APP, "v2").hours is None


def test_a_link_to_another_file_of_this_machine_is_not_shown(
    app: AppRegistry, client: StreamUpdateClient, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("fernet_key = hunter2")
    for name in ("v1", "v2"):
        version(app, name, {"app.py": b"old" if name == "v1" else b"new"})
    file = Path(app.folder.path("deployments/v2/application/app.py"))
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    note(app)
    found = client.code_of_update(APP, "v2")
    assert "hunter2" not in str(found) and "is a symbolic link" in str(found.notes)
