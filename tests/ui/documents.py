"""What the page's API answers, made up: an app in the state that a test wants, with names of the lengths that occur."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

CONN, APP, QUERY = "streamupdate_default", "page-views", "views"
DAGS = ("stream_update", "stream_rollback", "stream_restart")
NOW = datetime(2026, 11, 24, 20, 0, tzinfo=timezone.utc)
ERROR = "StreamingQueryException: [STREAM_FAILED] Query [id = 5b1f] terminated with exception: no room for this row"


def at(seconds: float) -> str:
    """So many seconds after NOW."""
    return (NOW + timedelta(seconds=seconds)).isoformat()


def me(**changes: Any) -> dict[str, Any]:
    """An editor, in an Airflow that has all DAGs."""
    return {
        "user": "editor", "may_edit": True, "may_trigger": dict.fromkeys(DAGS, True), "missing_dags": [],
        "strategies": [
            {"name": name, "summary": f"how {name} goes", "runs_beside": name == "parallel"}
            for name in ("standby", "restart", "parallel", "in_flight")
        ],
        **{f"{dag.removeprefix('stream_')}_dag_id": dag for dag in DAGS}, **changes,
    }  # fmt: skip


def query(**changes: Any) -> dict[str, Any]:
    return {
        "batch": 1234567, "last_commit_at": at(-2), "input_rows_per_second": 12345.6,
        "processed_rows_per_second": 23456.7, "batch_seconds": 1.25, "lag": 1234567.0, "watermark": at(-60),
        "state_rows": {"views": 12345678, "sessions_by_country": 42}, "state_bytes": 123456789,
        "source_lag": {"clicks": 1234567}, "source_rates": {"clicks": 12345.6}, "figures": [{"rows_out": 42}],
        "active": True, "idle": False, "error": None, **changes,
    }  # fmt: skip


def past(points: int = 180, each: int = 60, **changes: Any) -> dict[str, Any]:
    """A point each so many seconds, up to NOW."""
    at = [NOW.timestamp() - each * (points - n) for n in range(points)]
    return {
        "app": APP, "seconds": points * each, "each": each, "at": at, "deployment": ["v4"] * points,
        "in": [12345.6 + n % 7 for n in range(points)], "out": [None] * points,
        "lag": [1234567.0 + 1000 * (n % 11) for n in range(points)], "longest_lag": [2345678.0] * points,
        "batch": [1.25 + n % 5 / 10 for n in range(points)], "longest_batch": [2.5] * points,
        "bytes": [123_456_789 + n for n in range(points)], "watermark_age": [60.0] * points,
        "rows": {
            f"{QUERY}/views": [12345678 + n for n in range(points)],
            f"{QUERY}/sessions_by_country": [42] * points,
        },
        **changes,
    }  # fmt: skip


def deployment(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "deployment": name, "state": "cancelled", "current": False, "submitted_at": at(-7200),
        "started_at": at(-7190), "first_commit_at": at(-7180), "heartbeat_at": at(-3600), "parent": None,
        "from_snapshot": None, "from_app": None, "digest": "0" * 64, "epoch": 1, "batches": {"views": 7},
        "spark_ui": "http://spark.example:4040", "spark_version": "4.1.0",
        "host": "worker-17.streaming.example.org", "reason": None, "error": None,
        "driver_log": f"/var/lib/streamupdate/root/{APP}/deployments/{name}/driver-1.log",
        "update": None,
        "application": {
            "file": f"/var/lib/streamupdate/root/{APP}/deployments/{name}/application/page_views_by_country.py",
            "params": {"rate": "300", "api_token": "(hidden)", "output": "s3://a-bucket-of-ours/streams/views/output"},
            "conf": {"spark.sql.shuffle.partitions": "200"},
        },
        "runs": [], "changes": [], **changes,
    }  # fmt: skip


def snapshot(n: int) -> dict[str, Any]:
    return {
        "name": f"before-page-views-3f9c2a71d{n}", "app": APP, "kind": "cancelled",
        "created_at": at(-3600 + 20 * n), "deployment": "page-views-3f9c2a71", "size": 123456789, "bytes_new": 1000,
        "queries": {"views": {"batch": 7, "committed_at": at(-3600 + 20 * n), "state_rows": {"views": 1000000 * n}}},
        "verified": None,
    }  # fmt: skip


def item(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "thing": "stage", "name": name, "verdict": "carried", "reason": "its keys and values are as they were",
        "needs_agreement": False, "agreed": False, "offer": None, "because": None, "rules": [],
        "next_steps": [], "details": "", **changes,
    }  # fmt: skip


def report(*items: dict[str, Any]) -> dict[str, Any]:
    return {"source": "deployment page-views-3f9c2a71", "outcome": "not compatible", "items": list(items)}


def request(**changes: Any) -> dict[str, Any]:
    return {
        "dag_id": "stream_update", "run_id": "manual__2026-11-24T20:00:00.123456+00:00", "state": "running",
        "paused": False, "check_only": False, "report": None, "rehearsal": None, "queued_at": at(-31),
        "started_at": at(-30), "ended_at": None, "tasks": [], **changes,
    }  # fmt: skip


def update(**changes: Any) -> dict[str, Any]:
    return {
        "old": "page-views-3f9c2a71", "new": "page-views-9d21b0c4", "runs": "page-views-9d21b0c4",
        "strategy": "standby", "started_at": at(-28), "step": "check",
        "steps": [
            {"step": "plan", "at": at(-28), "seconds": 0.0},
            {"step": "check", "at": at(-20), "seconds": 8.0},
        ],
        "left": ["prepare", "snapshot_and_cancel", "submit_from_snapshot", "verify", "promote"],
        "snapshot": None, "outcome": None, "reason": None, "pause_seconds": None, "paused_at": None, "verified": [],
        "asked_by": "somebody@a-machine-of-ours", **changes,
    }  # fmt: skip


def promoted(**changes: Any) -> dict[str, Any]:
    """An update of 90 seconds with a pause of 1.2 s."""
    steps, before = [], -200.0
    for step, took in (
        ("plan", 1),
        ("check", 30),
        ("prepare", 40),
        ("snapshot_and_cancel", 4),
        ("submit_from_snapshot", 0.5),
    ):
        before += took
        steps.append({"step": step, "at": at(before), "seconds": float(took)})
    steps += [
        {"step": "verify", "at": at(-112), "seconds": 12.5},
        {"step": "promote", "at": at(-110), "seconds": 2.0},
    ]
    return update(
        started_at=at(-200),
        ended_at=at(-110),
        step="promote",
        steps=steps,
        left=[],
        outcome="promoted",
        pause_seconds=1.234,
        paused_at=at(-128),
        snapshot="before-page-views-9d21b0c4",
        verified=["query views has committed 2 batches since its start (at least 2)", "it has run for 10 s"],
        **changes,
    )


def need(kind: str, severity: str = "critical", **changes: Any) -> dict[str, Any]:
    return {
        "kind": kind, "severity": severity, "reason": f"something is the matter with it ({kind})",
        "help": f"streamupdate restart {APP} continues from its own checkpoint",
        "since": at(-7200), "button": None, "about": None, **changes,
    }  # fmt: skip


HOSTILE = "<img src=x onerror=alert(1)>"


def review(**changes: Any) -> dict[str, Any]:
    """What `promoted` changed."""
    figures = (
        ("batch, mean", "s", 1.25, 0.75),
        ("rows in", "rows/s", 1234.5, 2345.6),
        ("lag, most", "rows", 12.0, None),
    )
    return {
        "update": promoted(),
        "agreed": ["views/weekly:same (only the order)"],
        "verdicts": {"carried": 3, "ignored": 1}, "problems": [], "compared": None, "rollback": None,
        "settings": [
            {"part": "parameters", "key": "api_token", "before": "(hidden)", "after": "(hidden), another"},
            {"part": "parameters", "key": "output", "before": f"s3://{'a-long-name/' * 12}", "after": HOSTILE},
            {"part": "conf", "key": "spark.sql.shuffle.partitions", "before": None, "after": "400"},
        ],
        "hours": {
            "before": 7200.0,
            "after": 5400.0,
            "figures": [
                {"query": "views", "figure": name, "unit": unit, "before": old, "after": new}
                for name, unit, old, new in figures
            ]
            + [{"query": "views", "figure": "state size, growth", "unit": "bytes/h", "before": -1e6, "after": 2.5e9}],
        },
        **changes,
    }  # fmt: skip


def code(**changes: Any) -> dict[str, Any]:
    long = f"+{'a_name_that_is_long ' * 30}"
    lines = ["@@ -1,3 +1,3 @@", " import this", f"-x = '{HOSTILE}'", "+x = 2", long]
    return {
        "old": "page-views-3f9c2a71",
        "new": "page-views-9d21b0c4",
        "files": [
            {"name": "v2.py", "before": "v1.py", "added": 2, "removed": 1, "lines": lines, "note": None},
            {"name": f"lib.zip/{HOSTILE}.py", "before": None, "added": None, "removed": None, "lines": []}
            | {"note": "too much of it differs to be shown: 5000 lines before, 5000 after"},
        ],
        "same": 3,
        "notes": ["page-views-3f9c2a71: table.csv is larger than 1000000 bytes, and was not compared"],
        **changes,
    }


def difference(**changes: Any) -> dict[str, Any]:
    """A new version whose rows differ from the old one's."""
    figure = {"query": "views", "new": 1234567, "old": 1300000, "change": "5.03% less", "allowed": "5%"}
    return {
        "deployment": "page-views-9d21b0c4",
        "outcome": "too different",
        "problems": [
            "query views: rows out changed by 5.03% in batches 3 to 9 (1300000 before, 1234567 now); 5% is allowed"
        ],
        "notes": ["query views: only the new version's rows have country_of_the_reader"],
        "figures": [
            {**figure, "figure": "rows out", "batches": "7 batches"},
            {**figure, "figure": "median seconds", "new": 0.812, "old": 0.8, "change": "1.5% more", "allowed": None}
            | {"batches": "7 batches"},
        ],
        "rows": [
            {"query": "views", "batches": "3-9", "equal": 1200000, "changed": 34567, "only_old": 65433, "only_new": 0}
            | {"expected": 12}
        ],
        "samples": [
            {"query": "views", "kind": "changed", "column": column, "new": new, "old": old}
            for column, new, old in (("window", "2026-11-24 19:00", "2026-11-24 19:00"), ("count", "41", "42"))
        ],
        **changes,
    }  # fmt: skip


def app(**changes: Any) -> dict[str, Any]:
    """One that runs, and has been updated three times within a minute."""
    cutovers = [-3600, -3590, -3575, -3560]
    names = ["page-views-3f9c2a71", "page-views-5c11", "page-views-9d21b0c4-second-try", "v4"]
    deployments = [
        deployment(name, first_commit_at=at(when), started_at=at(when - 5), parent=names[n - 1] if n else None)
        for n, (name, when) in enumerate(zip(names, cutovers, strict=True))
    ]
    deployments[-1].update(current=True, state="running", heartbeat_at=at(0))
    found: dict[str, Any] = {
        "conn_id": CONN, "app": APP, "state": "running", "needs": [],
        "way_back": {"to": "v3", "failure": None, "healthy": None},
        "current": {"deployment": "v4", "epoch": 4, "promoted": True},
        "status": {"heartbeat_at": at(0), "queries": {"views": query(), "alerts-by-country": query()}, "error": None},
        "deployments": deployments,
        "stages": [
            {"name": "views/views", "kind": "aggregate", "operator_id": 0, "state_rows": 12345678}
            | {"verdict": "carried with loss", "reason": "counts of keys that come late are of one version only"}
        ],
        "picture": running(), "report": None, "difference": None, "hot_standby": None,
        "snapshots": [snapshot(n) for n in range(3)], "updates": [promoted()], "rollbacks": [],
        "events": [{"at": at(-10), "epoch": 4, "event": "state", "state": "running", "reason": None}],
        "runs": [], "requests": [],
    }  # fmt: skip
    return {**found, **changes}


def listed(**changes: Any) -> dict[str, Any]:
    found = {
        "conn_id": CONN, "app": "page-views-by-country-and-language", "state": "running",
        "deployment": "page-views-9d21b0c4-second-try", "epoch": 12, "rows_in_per_second": 123456.0,
        "rows_per_second": 123456.0, "lag": 1234567.0, "batch_seconds": 12.5, "state_rows": 123456789,
        "heartbeat_at": at(-1), "updating_to": None, "needs": [],
        "last_update": {"deployment": "v4", "outcome": "promoted", "step": "promote", "pause_seconds": 1.25},
    }  # fmt: skip
    return {**found, **changes}


def apps(*found: dict[str, Any]) -> dict[str, Any]:
    return {"connections": [{"conn_id": CONN, "root": "/root", "error": None}], "apps": list(found)}


def node(kind: str, name: str, lines: list[str], **changes: Any) -> dict[str, Any]:
    """A node of a picture that both versions have, unless `changes` take it from one."""
    return {
        "id": kind if kind == "sink" else f"{kind} {name}", "kind": kind, "name": "" if kind == "steps" else name,
        "old": lines, "new": lines, "mark": "carried", "reason": "", "agreement": None, "blocks": False, **changes,
    }  # fmt: skip


def edge(start: str, end: str, old: bool = True, new: bool = True) -> dict[str, Any]:
    return {"start": start, "end": end, "old": old, "new": new}


def picture(**changes: Any) -> dict[str, Any]:
    """A new version that is refused: another key, a filter more, a source less, a stage more."""
    filtered = ["filter clicks.country IS NOT NULL", "filter clicks.seconds_on_the_page > 3.5, after the watermark"]
    reason = "keys changed: language is gone: the saved counts are of other groups"
    nodes = [
        node("source", "clicks", ["kafka", "clicks-of-all-sites.v3"], reason="same kafka: offsets continue"),
        node("source", "views-of-the-old-site", ["json", "s3://a-bucket-of-ours/streams/views/input"], new=None)
        | {"mark": "ignored", "agreement": "needed", "blocks": True, "reason": "its offsets are left behind"},
        node("steps", "1", filtered, old=filtered[:1], mark="changed"),
        node("stage", "views", ["aggregate", "keys: country"], old=["aggregate", "keys: country, language"])
        | {"mark": "refused", "reason": reason, "blocks": True},
        node("stage", "sessions_by_country_and_hour", ["session-window"], old=None, mark="empty")
        | {"reason": "new stage: starts without state"},
        node("sink", "foreachBatch", ["foreachBatch", "update mode"]),
    ]
    edges = [
        edge("source clicks", "steps 1"),
        edge("steps 1", "stage views"),
        edge("source views-of-the-old-site", "stage views", new=False),
        edge("stage views", "sink", new=False),
        edge("stage views", "stage sessions_by_country_and_hour", old=False),
        edge("stage sessions_by_country_and_hour", "sink", old=False),
    ]
    query = {
        "name": "views", "change": "same", "nodes": nodes, "edges": edges,
        "notes": [item("views:watermark", thing="watermark", reason="the watermark is as it was")],
        "unknown": [],
    }  # fmt: skip
    return {"compared": True, "queries": [query], "notes": [], **changes}


def running() -> dict[str, Any]:
    """What runs, with its figures: a stage, fed by two sources, and a query without state."""
    found = picture(compared=False)
    [views] = found["queries"]
    views["nodes"] = [
        {**n, "old": None, "new": n["old"], "mark": None, "reason": "", "blocks": False, "agreement": None}
        for n in views["nodes"]
        if n["old"] is not None
    ]
    views["edges"] = [{**e, "old": False, "new": True} for e in views["edges"] if e["old"]]
    views.update(change=None, notes=[])
    alone = [
        node("source", "clicks", ["kafka", "clicks-of-all-sites.v3"], old=None, mark=None),
        node("sink", "kafka", ["kafka", "append mode"], old=None, mark=None),
    ]
    stateless = {"nodes": alone, "edges": [edge("source clicks", "sink", old=False)], "unknown": ["the plan is older"]}
    found["queries"].append({**views, "name": "alerts-by-country", **stateless})
    return found
