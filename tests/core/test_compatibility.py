"""The verdicts: pure functions of two plans. test_rules.py has an example of each rule; here is how verdicts add up,
what is agreed to, and what a report tells."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility import compatibility
from airflow_provider_streamupdate.core.compatibility.compatibility import compare, migrations
from airflow_provider_streamupdate.core.compatibility.migration import Migration
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import (
    CARRIED,
    DEAD_END,
    EMPTY,
    IGNORED,
    LOSS,
    MIGRATED,
    REFUSED,
)
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.expressions import Column, Output
from airflow_provider_streamupdate.core.plan.plan import (
    AggregateBuffer,
    Aggregation,
    AppPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
    StagePlan,
    StateSchema,
)
from airflow_provider_streamupdate.core.plan.rename import rename

from .builders import KEY, VALUE, app_plan, expression, query_plan, stage_plan

Plan = QueryPlan | AppPlan


def report(old: Plan, new: Plan, agree: tuple[str, ...] = (), **options: Any) -> CompatibilityReport:
    before, after = (p if isinstance(p, AppPlan) else app_plan(p) for p in (old, new))
    return compare(rename(before, options.get("renames", {})), after, "snapshot s1", agree, **options)


def verdicts(found: CompatibilityReport, thing: str = "stage") -> dict[str, str]:
    return {i.name: i.verdict for i in found.items if i.thing == thing}


def refusal(found: CompatibilityReport) -> str:
    assert not found.compatible
    [item] = [i for i in found.items if i.verdict == REFUSED]
    return f"{item.thing} {item.name}: {item.reason}"


def of(name: str, kind: str = "string", nullable: bool = True) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": nullable, "metadata": {}}]}


def keeping(key: Any = KEY, value: Any = VALUE, **changes: Any) -> QueryPlan:
    """A query whose stage has these rows in its state."""
    return query_plan(stage_plan(schemas=(StateSchema(name="default", key=key, value=value),), **changes))


def source_plan(name: str, **changes: Any) -> SourcePlan:
    return SourcePlan(**{"name": name, "named": True, "format": "json", "location": f"/{name}", **changes})


def reading(*sources: SourcePlan, **changes: Any) -> QueryPlan:
    return query_plan(sources=sources, **changes)


def test_what_is_no_change() -> None:
    found = report(query_plan(), query_plan())
    assert found.compatible and found.problems == [] and found.outcome == "compatible"
    assert [(i.thing, i.name, i.verdict) for i in found.items] == [
        ("source", "windows/source-1", CARRIED),
        ("sink", "windows/noop", CARRIED),
        ("stage", "windows/daily", CARRIED),
    ]
    # the watermark of a new source is no change
    mark = "source-1.t delayed by 1000 ms"
    old = query_plan(watermarks=(mark,))
    new = query_plan(sources=(*old.sources, source_plan("more")), watermarks=("more.t delayed by 9 ms", mark))
    assert verdicts(report(old, new), "watermark") == {}


# Stages and sources are matched by name

A, B = (stage_plan(n, i, definition={"keys": [n], "aggregates": []}) for i, n in enumerate("ab"))
SECOND_A, FIRST_B = attrs.evolve(A, operator_id=1), attrs.evolve(B, operator_id=0)
# two counts of the same key over different filters, which may have swapped
TWINS = [stage_plan(f"aggregate-{n + 1}", n, named=False, below=f"filter {n}") for n in (0, 1)]
SWAPPED = [attrs.evolve(TWINS[0], below="filter 1"), attrs.evolve(TWINS[1], below="filter 0")]
STRANGE = stage_plan("pairs", 1, kind="flatMapGroupsWithState", operator="x", definition={}, schemas=())


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([A], [stage_plan("new", 0), SECOND_A], {"new": EMPTY, "a": CARRIED}),
        ([A, B], [FIRST_B, SECOND_A], {"a": CARRIED, "b": CARRIED}),
        ([A], [attrs.evolve(A, name="per_a")], {"per_a": EMPTY, "a": IGNORED}),
        ([A, B], [stage_plan("a"), B], {"a": REFUSED, "b": CARRIED}),  # one refusal does not hide the others
        (TWINS, TWINS, {"aggregate-1": CARRIED, "aggregate-2": CARRIED}),
        (TWINS, SWAPPED, {"aggregate-1": REFUSED, "aggregate-2": REFUSED}),
        ([A, STRANGE], [A, STRANGE], {"a": CARRIED, "pairs": REFUSED}),
        ([A], [A, STRANGE], {"a": CARRIED, "pairs": REFUSED}),
    ],
)
def test_stages_are_matched_by_name(old: list[StagePlan], new: list[StagePlan], expected: dict[str, str]) -> None:
    found = report(query_plan(*old), query_plan(*new))
    assert verdicts(found) == {f"windows/{name}": verdict for name, verdict in expected.items()}
    moved = [i.name for i in found.items if "moved from 0 to 1" in i.reason]
    assert moved == (["windows/a"] if SECOND_A in new else [])


def test_sources_are_matched_by_name_and_a_query_starts_from_its_own() -> None:
    a, b, c = map(source_plan, "abc")
    assert verdicts(report(reading(a, b), reading(b, a)), "source") == {"windows/a": CARRIED, "windows/b": CARRIED}
    changed = verdicts(report(reading(a, b), reading(a, c)), "source")
    assert changed == {"windows/a": CARRIED, "windows/c": EMPTY, "windows/b": IGNORED}
    found = report(app_plan(query_plan()), app_plan(query_plan(), query_plan(name="more")))
    assert found.compatible and verdicts(found, "query") == {"more": EMPTY}


@pytest.mark.parametrize(
    ("change", "first"),
    [({"location": "/source-2"}, CARRIED), ({"format": "csv"}, REFUSED), ({"location": "/x"}, REFUSED)],
)
def test_unnamed_sources_are_known_by_what_they_read(change: dict[str, Any], first: str) -> None:
    one, two = (source_plan(f"source-{n}", named=False) for n in (1, 2))
    found = report(reading(one, two), reading(attrs.evolve(one, **change), attrs.evolve(two, location="/source-1")))
    assert verdicts(found, "source") == {"windows/source-1": first, "windows/source-2": CARRIED}


def test_spark_s_own_names_are_kept_to_and_kept() -> None:
    """Its offset log is of another version then, and holds them."""
    ours, sparks = source_plan("a"), source_plan("a", native=True)
    for old, new in ((ours, sparks), (sparks, ours)):
        assert "cannot switch" in refusal(report(reading(old), reading(new)))
        assert "cannot switch" in refusal(report(reading(old), reading(old, attrs.evolve(new, name="b"))))
    assert report(reading(sparks), reading(sparks, source_plan("b", native=True))).compatible
    with pytest.raises(InvalidInputError, match="keep the name"):
        report(reading(sparks), reading(sparks), renames={"a": "b"})


# Changes of a stage: what the examples of the rules do not show

KEYS = {"keys": ["s.a", "s.b"], "aggregates": ["sum(s.d)", "count(1)"]}
FUNCTION = {
    "keys": ["s.k"],
    "time mode": "None",
    "state variables": ["n: ValueState"],
    "code": "#1",
    "input": ["a = s.a", "b = s.b"],
}
BRANCHES = "⟨{0}(s.t, {1}, #a) ∪ {0}(r.t, {1}, #a)⟩"
SLIDING = "(window(s.t, 10 minutes, every 5 minutes, #b) | window(s.t, 10 minutes, every 5 minutes, #c))"


def pair_of(old: dict[str, Any], new: dict[str, Any], **more: Any) -> CompatibilityReport:
    """The report on two stages with these definitions, of the kind that has such."""
    kinds = {"code": ("transform-with-state", "transformWithStateInPySparkExec"), "rows": ("limit", "globalLimit")}
    kind, operator = next((k for field, k in kinds.items() if field in old), ("aggregate", "stateStoreSave"))
    stages = (stage_plan("it", kind=kind, operator=operator, definition=definition) for definition in (old, new))
    return report(*(query_plan(stage) for stage in stages), **more)


def keyed(*keys: str) -> dict[str, Any]:
    return {**KEYS, "keys": [*keys, "s.x"]}


def function(**changes: Any) -> dict[str, Any]:
    return {**FUNCTION, **{name.replace("_", " "): value for name, value in changes.items()}}


@pytest.mark.parametrize(
    ("old", "new", "verdict", "rules"),
    [
        (keyed("window(s.t, 10 minutes, #a)"), keyed(SLIDING), REFUSED, ["stage.window"]),
        (keyed("window(s.t, 10 minutes, #a)"), keyed("s.k"), REFUSED, ["stage.keys"]),
        (
            keyed("session_window(s.t, gap '5 minutes', #a)"),
            keyed("session_window(s.u, gap '5 minutes', #a)"),
            REFUSED,
            ["stage.window"],
        ),
        *(
            (keyed(BRANCHES.format(kind, old)), keyed(BRANCHES.format(kind, new)), REFUSED, [rule])
            for kind, old, new, rule in (
                ("session_window", "gap '5 minutes'", "gap '9 minutes'", "stage.window"),
                ("window", "10 minutes", "20 minutes", "stage.window"),
            )
        ),
        (
            {**KEYS, "aggregates": ["min_by(s.a, s.b)"]},
            {**KEYS, "aggregates": ["min_by(s.a, s.c)"]},
            REFUSED,
            ["stage.aggregate-arguments"],
        ),
        (FUNCTION, FUNCTION, CARRIED, ["stage.same"]),
        (FUNCTION, function(input=["a = s.b", "b = s.b"]), LOSS, ["stage.input"]),
        (FUNCTION, function(state_variables=["n: ValueState with TTL"]), REFUSED, ["stage.variable-changed"]),
        (FUNCTION, function(state_variables=["m: ValueState"]), REFUSED, ["stage.variable-gone"]),
        (
            FUNCTION,
            function(state_variables=["m: ListState", "n: ValueState"]),
            CARRIED,
            ["stage.same", "stage.variable-new"],
        ),
        # nothing seems to have changed
        (function(code="python:f"), function(code="python:f"), LOSS, ["stage.code"]),
        *(
            (keyed(text), keyed(text), REFUSED, ["stage.untraced"])  # what could not be traced
            for text in ("?x", "max(?x)", "sum(s.a, ?y)")
        ),
    ],
)
def test_a_stage_that_changed(old: dict[str, Any], new: dict[str, Any], verdict: str, rules: list[str]) -> None:
    [item] = [i for i in pair_of(old, new).items if i.thing == "stage"]
    assert (item.verdict, list(item.rules)) == (verdict, rules)


def test_losses_are_told_together_and_agreed_to_by_one_name() -> None:
    new = function(code="#2", input=["a = s.c", "b = s.b"])
    [item] = [i for i in pair_of(FUNCTION, new).items if i.thing == "stage"]
    assert item.rules == ("stage.code", "stage.input") and "input changed: s.a -> s.c in a = s.c" in item.reason
    assert pair_of(FUNCTION, new, agree=("windows/it",)).compatible


def test_types_of_the_state_at_the_same_place() -> None:
    """Names of columns do not count for an aggregate; what may be null counts in one direction."""
    assert report(keeping(), keeping(of("departure"))).compatible
    assert report(keeping(of("origin", nullable=False)), keeping()).compatible
    assert "were nullable and are not any more" in refusal(report(keeping(), keeping(of("origin", nullable=False))))
    counts = {"buffers": (AggregateBuffer(function="Count", columns=1, initial=("0L",)),)}
    assert report(keeping(**counts), keeping(value=of("count", "long", nullable=False), **counts)).compatible
    wider = (keeping(value=of("s", f"decimal({digits},2)")) for digits in (20, 22))
    assert "value type of the state changed from s decimal(20,2) to s decimal(22,2)" in refusal(report(*wider))
    kind = {"kind": "transform-with-state", "operator": "transformWithStateExec"}
    old, *others = (
        query_plan(stage_plan(**kind, schemas=(StateSchema(name="room", key=KEY, value=value),)))
        for value in (VALUE, of("armed", "long"), of("other"))
    )
    for new in others:  # by their names, too
        assert "value type of the state room changed" in refusal(report(old, new))


def delayed(milliseconds: int) -> QueryPlan:
    return query_plan(watermarks=(f"source-1.t delayed by {milliseconds} ms",))


MORE = app_plan(query_plan(), query_plan(name="more"))


@pytest.mark.parametrize(
    ("old", "new", "name", "told"),
    [
        (
            query_plan(A, B),
            query_plan(A),
            "windows/b",
            "stage windows/b: the new version has no stage with this name; put it back: keep stage b in the new "
            "version; lose it: agree to it with --agree windows/b",
        ),
        (reading(source_plan("a"), source_plan("b")), reading(source_plan("a")), "windows/b", "--agree windows/b"),
        (MORE, app_plan(query_plan()), "more", "--agree more"),
        (delayed(1000), delayed(2000), "windows:watermark", "watermark delay changed (t: 1 s -> "),
        (attrs.evolve(MORE, version=0), MORE, "flights", "streamupdate restart"),
    ],
)
def test_a_loss_needs_agreement_by_its_name(old: Plan, new: Plan, name: str, told: str) -> None:
    found = report(old, new)
    assert not found.compatible and told in found.problems[0]
    assert report(old, new, agree=(name,)).compatible


@pytest.mark.parametrize(
    ("new", "options", "told"),
    [
        (query_plan(A, B), {"agree": ("windows/nope",)}, r"losses windows/nope are not losses .*\(losses: none\)"),
        (query_plan(stage_plan("a"), B), {"agree": ("windows/a",)}, "windows/a are not losses"),  # a refusal
        (query_plan(A, B), {"renames": {"c": "d"}}, r"rename of c: .*known: windows/a, windows/b, windows/source-1"),
        (query_plan(A, B), {"renames": {"a": "b"}}, "two stages named b"),
        (
            query_plan(A, stage_plan("c")),
            {"renames": {"windows/b": "d"}},
            r"rename of windows/b: the new version has no stage or source d \(it has: windows/a, windows/c, ",
        ),
    ],
)
def test_names_that_are_mistakes(new: QueryPlan, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        report(query_plan(A, B), new, **options)


@pytest.mark.parametrize("renames", [{"a": "orders", "b": "clicks"}, {"a": "z"}, {"a": "b", "b": "a"}])
def test_sources_of_a_union_may_be_renamed(renames: dict[str, str]) -> None:
    """The order of the branches' texts is another one then."""

    def plan(names: dict[str, str], second: str = "2") -> QueryPlan:
        one, other = names.get("a", "a"), names.get("b", "b")
        texts = sorted([f"{one}.k", f"{other}.k"]), sorted([f"{one}: '1'", f"{other}: '{second}'"])
        keys = [f"⟨{' ∪ '.join(branches)}⟩" for branches in texts]
        places = (source_plan(one, location="/one"), source_plan(other, location="/other"))
        return query_plan(stage_plan(definition={"keys": keys, "aggregates": ["count(1)"]}), sources=places)

    for second, verdict in (("2", CARRIED), ("3", REFUSED)):
        found = report(plan({}), plan(renames, second), renames=renames)
        assert verdicts(found) == {"windows/daily": verdict}


def test_a_stage_under_another_name_is_carried_by_a_rename_which_is_hinted_at() -> None:
    def above(daily: str, source: str) -> Aggregation:
        text = expression(f"concat({daily}.count, 'daily.x')")
        return Aggregation(keys=(Output(daily, Column(source, "x")), text), aggregates=(expression("count(1)"),))

    below = {"keys": ["source-1.x"], "aggregates": ["count(1)"]}
    old = query_plan(
        stage_plan("top", 0, definition=above("daily", "source-1")), stage_plan("daily", 1, definition=below)
    )
    new = query_plan(
        stage_plan("top", 0, definition=above("per_day", "flights")),
        stage_plan("per_day", 1, definition={**below, "keys": ["flights.x"]}),
        sources=(attrs.evolve(old.sources[0], name="flights", named=True),),
    )
    assert not report(old, new).compatible
    for key in ("daily", "windows/daily"):
        found = report(old, new, renames={key: "per_day", "source-1": "flights"})
        assert found.compatible and verdicts(found) == {"windows/top": CARRIED, "windows/per_day": CARRIED}
    # a rename is hinted at and two stages may swap their names
    old, new = (query_plan(stage_plan(name)) for name in ("daily", "per_day"))
    assert "--rename windows/daily=per_day carries its state" in report(old, new).problems[0]
    unnamed = query_plan(stage_plan("aggregate-1", named=False))
    other = query_plan(stage_plan(definition={"keys": ["source-1.x"], "aggregates": ["count(1)"]}))
    assert "name it with stage() or .alias()" in report(unnamed, other).problems[0]
    swapped = query_plan(attrs.evolve(A, name="b"), attrs.evolve(B, name="a"))
    assert set(verdicts(report(query_plan(A, B), swapped, renames={"a": "b", "b": "a"})).values()) == {CARRIED}


def test_a_refusal_names_the_ways_on_and_the_one_that_loses_the_state_last() -> None:
    seen = {"kind": "deduplicate", "operator": "dedupe"}
    old, new = (query_plan(stage_plan(definition={"keys": [key]}, **seen)) for key in ("s.a", "upper(s.a)"))
    [item] = [i for i in report(old, new).items if i.blocks]
    assert item.reason == "keys changed: s.a -> upper(s.a)" and item.details == "old: [s.a]; new: [upper(s.a)]"
    back, write, agree, restart = item.next_steps
    assert back == "put it back: make it s.a again" and write.startswith("carry it: write a migration function for ")
    assert agree.endswith("--agree 'windows/daily:same=REASON'") and agree.startswith("carry it: ")
    assert restart.startswith("lose it: give the changed stage another")
    assert report(old, new).problems == ["; ".join((f"stage windows/daily: {item.reason}", *item.next_steps))]
    assert report(old, new, agree=("windows/daily:same=it is in capitals",)).problems == []


def test_a_migration_takes_the_place_of_a_refusal_and_its_losses_need_agreement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = [query_plan(stage_plan(definition={**KEYS, "aggregates": [a]})) for a in ("sum(s.d)", "max(s.d)")]
    untraced = query_plan(stage_plan(definition={**KEYS, "aggregates": ["max(?x)"]}))

    def found(migration: Migration | str) -> CompatibilityReport:
        monkeypatch.setattr(compatibility, "plan_migration", lambda old, new, watermarks: migration)
        return report(*plans)

    made = found(Migration(steps=("max begins empty",)))
    assert made.compatible and verdicts(made) == {"windows/daily": MIGRATED}
    assert list(migrations(*plans)) == ["daily"]
    # it is not asked for where another refusal stands, or none
    for new, verdict in ((untraced, REFUSED), (plans[0], CARRIED)):
        assert verdicts(report(plans[0], new)) == {"windows/daily": verdict} and migrations(plans[0], new) == {}
    lossy = found(Migration(steps=("max begins empty",), losses=("the maximum before the update is not known",)))
    assert not lossy.compatible and verdicts(lossy) == {"windows/daily": LOSS}
    assert "maximum before the update" in lossy.problems[0]
    assert "no migration: max cannot be had from a sum" in refusal(found("max cannot be had from a sum"))
    assert migrations(*plans) == {}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        *((old, new, REFUSED) for old, new in (("4.3.0", "4.2.1"), ("3.5.6", "4.3.0"), ("4.3.0", "4.4.0"))),
        ("3.5.6", "4.2.1", REFUSED),
        *((old, new, CARRIED) for old, new in (("4.0.5", "4.1.4"), ("4.1.4", "4.3.0"), ("4.2.1", "4.3.0"))),
        ("4.3.1", "4.3.0", None),  # a patch is no change
    ],
)
def test_which_spark_reads_the_state_of_which(old: str, new: str, verdict: str | None) -> None:
    found = report(app_plan(spark_version=old), app_plan(spark_version=new))
    assert list(verdicts(found, "app").values()) == ([verdict] if verdict else [])
    assert found.compatible is (verdict != REFUSED)
    if verdict == REFUSED:
        told = f"written by Spark {old}, and the new version's Spark {new} is not known to read it"
        assert told in refusal(found)


def test_the_markdown_names_everything_and_survives_pipes_and_line_ends() -> None:
    old = query_plan(stage_plan("a", definition={"keys": ["'x | y'"]}), stage_plan("b", 1))
    new = query_plan(stage_plan("a", definition={"keys": ["'x\ny'"]}))
    lines = report(old, new, agree=("windows/b",)).to_markdown().splitlines()
    assert lines[0] == "Compatibility of the new version of **flights** with snapshot s1: **not compatible**"
    assert lines[2] == "```text" and "stage a, aggregate" in "\n".join(lines[3 : lines.index("```")])
    rows = [line.replace("\\|", "") for line in lines[lines.index("|---|---|---|---|---|") + 1 :]]
    end = rows.index("")
    assert end == 4 and all(row.count("|") == 6 for row in rows[:end])
    assert rows[end + 1].startswith("stage windows/a: keys changed: ") and rows[end + 3].startswith("- put it back: ")
    assert rows[2].startswith("| stage | windows/a | refused | (below)") and rows[3].endswith("| agreed |")


def at(location: str) -> QueryPlan:
    return reading(source_plan("s", location=location))


def writing(location: str) -> QueryPlan:
    return query_plan(sink=SinkPlan(format="parquet", location=location, options={"path": location}))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            at("s3a://AK:hunter2@b/in"),
            at("s3a://AK:hun/ter2@b/in"),
            "location changed from s3a://***@b/in to s3a://***@b/in (what is hidden differs)",
        ),
        (at("abfss://a@acc/in"), at("abfss://b@acc/in"), "changed from abfss://a@acc/in to abfss://b@acc/in"),
        (
            writing("s3a://AK:hunter2@b/out"),
            writing("s3a://AK:hunter3@c/out"),
            "sink changed from parquet s3a://***@b/out to parquet s3a://***@c/out",
        ),
        (
            *(reading(source_plan("s", format="own", location=None, options={"api_key": f"hunter{n}"})) for n in "23"),
            "(hidden)",
        ),
        (
            *(query_plan(given={"my.api.key": f"hunter{n}"}) for n in "23"),
            "my.api.key changed from (hidden) to (hidden)",
        ),
    ],
)
def test_a_reason_holds_no_secret(old: QueryPlan, new: QueryPlan, told: str) -> None:
    found = report(old, new)
    assert any(told in item.reason for item in found.items), [item.reason for item in found.items]
    assert "hunter" not in found.to_markdown() and not any("hunter" in item.reason for item in found.items)


def test_a_refusal_without_a_way_on_says_that_it_is_a_dead_end() -> None:
    later, earlier = (attrs.evolve(app_plan(query_plan()), spark_version=version) for version in ("4.3.0", "4.2.1"))
    [item] = [i for i in report(later, earlier).items if i.blocks]
    assert item.next_steps == ["put it back: make it 4.3.0 again", DEAD_END]
