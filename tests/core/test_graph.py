"""The graph of an app's queries: which rows go where, as far as a plan tells."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from airflow_provider_streamupdate.core.compatibility.graph import LONGEST, NodeKind, QueryGraph, graph
from airflow_provider_streamupdate.core.plan.expressions import Call, Column, Expression, Literal
from airflow_provider_streamupdate.core.plan.plan import Path, QueryPlan, SinkPlan, SourcePlan, StagePlan, Step
from airflow_provider_streamupdate.core.plan.rename import rename

from .builders import app_plan, in_trees, path, query_plan, stage_plan

Paths = tuple[tuple[str, ...], ...]


def source(name: str = "a", **changes: object) -> SourcePlan:
    return SourcePlan(**{"name": name, "named": True, "format": "json", "location": f"/{name}", **changes})


def stage(
    name: str, number: int, *paths: tuple[str, ...], steps: Sequence[Expression] = (), **changes: object
) -> StagePlan:
    """steps: on another way from source a"""
    more = [Path("a", (), tuple(map(Step, steps)))] if steps else []
    return stage_plan(name, number, paths=(*(path(*each) for each in paths), *more), **changes)


def query(*stages: StagePlan, sources: str = "a", paths: Paths = (), **changes: object) -> QueryPlan:
    made = {"sources": tuple(map(source, sources.split())), "stages": stages, "filters": (), "paths": paths, **changes}
    return evolved(query_plan(), **made)


def evolved(plan: QueryPlan, **changes: object) -> QueryPlan:
    return attrs.evolve(plan, **in_trees(changes))


def one(new: QueryPlan, old: QueryPlan | None = None) -> QueryGraph:
    return graph(app_plan(new), app_plan(old) if old else None).queries[0]


def ways(found: QueryGraph) -> dict[str, tuple[bool, bool]]:
    """Edges by the names of their ends, with the versions that have them."""
    return {f"{e.start} > {e.end}": (e.old, e.new) for e in found.edges}


def lines(found: QueryGraph) -> dict[str, tuple[object, object]]:
    return {node.id: (node.old, node.new) for node in found.nodes}


CHAIN = query(
    stage("daily", 0, ("after distinct.", "from a.")), stage("distinct", 1, ("from a.",)),
    paths=(("after daily.", "after distinct.", "from a."),),
)  # fmt: skip


def test_a_chain_goes_from_the_source_by_the_nearest_stages_to_the_sink() -> None:
    found = one(CHAIN)
    assert ways(found) == {
        "source a > stage distinct": (0, 1),
        "stage distinct > stage daily": (0, 1),
        "stage daily > sink": (0, 1),
    }
    assert [node.id for node in found.nodes] == ["source a", "stage distinct", "stage daily", "sink"]
    assert (found.change, found.unknown) == (None, ())


def test_branches_joins_and_ways_past_a_stage_have_edges_of_their_own() -> None:
    union = query(stage("daily", 0, ("from a.",), ("from b.",)), sources="a b", paths=(("after daily.", "from a."),))
    assert set(ways(one(union))) == {"source a > stage daily", "source b > stage daily", "stage daily > sink"}
    # the paths behind a stage differ in their sources only: one way
    assert ways(one(evolved(union, paths=(("after daily.", "from a."), ("after daily.", "from b.")))))[
        "stage daily > sink"
    ] == (0, 1)
    # a source that is united with itself has two paths
    twice = query(paths=(("from a.",), ("from a.",)))
    found = one(twice, query(paths=(("from a.",),)))
    assert lines(found)["steps source a > sink"] == (None, ("2 paths",)) and ways(found)["source a > sink"] == (1, 0)
    # rows may come to the sink past a stage
    past = query(stage("distinct", 0, ("from a.",)), paths=(("after distinct.", "from a."), ("f(a.x)", "from a.")))
    found = one(past)
    assert set(ways(found)) == {
        "source a > stage distinct",
        "stage distinct > sink",
        "source a > steps source a > sink",
        "steps source a > sink > sink",
    }


def test_steps_are_told_in_words() -> None:
    greater, known = "greaterthan(a.x, 3)", "isnotnull(a.k)"
    lookup = "lookup by equalto(static:rows#1.k, a.k), #99"
    late = f"after the watermark: {greater}"
    found = one(query(stage("daily", 0, ("from a.", known, late, lookup), filters=(greater, known))))
    [(_, told)] = [both for name, both in lines(found).items() if name.startswith("steps")]
    assert told == ("filter a.x > 3, after the watermark", "lookup by static:rows#1.k = a.k", "filter a.k IS NOT NULL")
    [box] = [node for node in found.nodes if node.kind == NodeKind.STEPS]
    assert ways(found) == {f"source a > {box.id}": (0, 1), f"{box.id} > stage daily": (0, 1)}
    # steps on one side of a join say which
    text = "left greaterthan(a.x, 3)"
    found = one(query(stage("pairs", 0, ("from a.", text), ("from a.",), kind="join", filters=(text,))))
    assert ("2 paths", "left filter a.x > 3") in [new for _, new in lines(found).values()]


def test_the_steps_between_two_nodes_are_one_node_in_both_versions() -> None:
    def filtered(*branches: str) -> QueryPlan:
        return query(paths=tuple((text, "from a.") for text in branches), filters=branches)

    for old, new, shown in (
        (("f(a.x)",), ("g(a.x)",), (("filter f(a.x)",), ("filter g(a.x)",))),
        (("f(a.x)",), ("f(a.x)", "g(a.x)"), (("filter f(a.x)",), ("2 paths", "filter f(a.x)", "filter g(a.x)"))),
    ):
        assert [v for k, v in lines(one(filtered(*new), filtered(*old))).items() if k.startswith("steps")] == [shown]
    assert ways(one(filtered("f(a.x)"), query(paths=(("from a.",),)))) == {
        "source a > steps source a > sink": (0, 1),
        "steps source a > sink > sink": (0, 1),
        "source a > sink": (1, 0),
    }


def test_texts_that_read_alike_and_differ_are_told_apart() -> None:
    old, new = "python#aaaaaaa1(a.x, evalType=1)", "python#aaaaaaa2(a.x, evalType=1)"
    found = one(query(paths=((new, "from a."),)), query(paths=((old, "from a."),)))
    [box] = [node for node in found.nodes if node.kind == NodeKind.STEPS]
    assert (box.old, box.new) == ((old,), (new,))
    keys = [stage("daily", 0, ("from a.",), kind="deduplicate", definition={"keys": [text]}) for text in (old, new)]
    was, now = lines(one(query(keys[1]), query(keys[0])))["stage daily"]
    assert was == ("deduplicate", f"keys: {old}") and now == ("deduplicate", f"keys: {new}")


def test_renames_are_followed_up_to_the_sink() -> None:
    named = evolved(
        CHAIN, paths=(("after daily.", "after distinct.", "f(daily.x)", "from a."),), filters=("f(daily.x)",)
    )
    app = app_plan(named)
    assert app.queries[0].paths is not None
    found = graph(app, rename(app, {"daily": "monthly", "a": "b"})).queries[0]
    assert "stage monthly > steps stage monthly > sink" in ways(found)
    assert lines(found)["steps stage monthly > sink"][0] == ("filter f(monthly.x)",)


def test_both_versions_of_the_sink_and_of_queries_are_told() -> None:
    new = query(paths=(("from a.",),), sink=SinkPlan(format="delta", location="file:/out"), output_mode="update")
    found = one(new, query(paths=(("from a.",),)))
    assert lines(found)["sink"] == (("noop", "append mode"), ("delta", "update mode", "file:/out"))
    assert found.nodes[-1].name == "delta"
    # queries that only one version has
    both = graph(app_plan(query(name="b"), query(name="c")), app_plan(query(name="a"), query(name="b")))
    assert [(q.name, q.change) for q in both.queries] == [("b", "same"), ("c", "new"), ("a", "gone")]
    assert both.compared and not graph(app_plan(query())).compared
    assert all(node.new is None for node in both.queries[2].nodes)


def test_addresses_are_told_without_passwords() -> None:
    secret = "s3a://key:s3cr3t@bucket/in"
    found = (
        one(query(sources="", paths=(), sink=SinkPlan(format="json", options={"path": secret}))),
        one(attrs.evolve(query(), sources=(source(location=secret),))),
    )
    told = [line for each in found for node in each.nodes for line in node.new or ()]
    assert told.count("s3a://***@bucket/in") == 2 and "s3cr3t" not in str(found)
    # another container is another place
    was, now = (attrs.evolve(query(), sources=(source(location=f"abfss://{c}@acc/in"),)) for c in ("test", "prod"))
    (told,) = [node for node in one(now, was).nodes if node.kind == "source"]
    assert (told.old or ())[-1] == "abfss://test@acc/in" and (told.new or ())[-1] == "abfss://prod@acc/in"


def test_what_a_plan_does_not_say_is_left_open() -> None:
    half = attrs.evolve(CHAIN, paths=None)
    assert set(ways(one(half))) == {"source a > stage distinct", "stage distinct > stage daily"}
    assert one(half).unknown == ("the plan does not say what feeds sink",)
    assert one(CHAIN, half).unknown == ("the old version's plan does not say what feeds sink",)
    # a source that the planner could not tell is shown as such
    found = one(query(stage("daily", 0, ("from ?source.",)), sources=""))
    assert lines(found)["source ?source"] == (None, ("not known which",))
    assert "source ?source > stage daily" in ways(found)


HOSTILE = Call("f", (Literal("\n\x1b[31m| ``` \u202e', \ud800"),))


def test_hostile_long_and_deep_texts_take_one_short_line_each() -> None:
    hostile = (Path("a", (), (Step(HOSTILE),)),)
    found = one(query(paths=hostile, sources="a+b=@:x"))
    assert all("\n" not in line for node in found.nodes for line in node.new or ())
    long = [f"f('{'x' * 100_000}{end}')" for end in "ab"]
    texts = [one(query(paths=((text, "from a."),))).nodes[-1].new for text in long]
    assert texts[0] != texts[1] and all(len(line) < LONGEST + 20 for text in texts for line in text or ())
    # expressions that are nested deep take no stack
    tree: Expression = Column("a", "x")
    for _ in range(300):
        tree = Call("f", (tree,))
    found = one(query(stage("daily", 0, steps=(tree,))))
    assert all(len(line) < LONGEST + 20 for node in found.nodes for line in node.new or ()) and found.edges


def test_a_name_with_dots_and_colons_is_found_in_paths() -> None:
    name = "a.b:c+d=e@f-g"
    found = one(query(stage(name, 0, ("from x.y.",)), sources="x.y", paths=((f"after {name}.", "from x.y."),)))
    assert set(ways(found)) == {f"source x.y > stage {name}", f"stage {name} > sink"}


def test_a_chain_of_many_stages() -> None:
    names = [f"s{n}" for n in range(400)]
    stages = [
        stage(name, n, tuple(sorted(["from a.", *(f"after {below}." for below in names[n + 1 :])])))
        for n, name in enumerate(names)
    ]
    found = one(query(*stages, paths=(tuple(sorted(["from a.", *(f"after {name}." for name in names)])),)))
    assert len(found.edges) == 401 and "stage s7 > stage s6" in ways(found)
