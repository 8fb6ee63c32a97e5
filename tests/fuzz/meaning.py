"""What a stage of a spec means: its columns traced to those of the sources. The same idea as the product's lineage,
made anew from the spec alone, so that the two can be compared."""

from __future__ import annotations

from typing import Any

from .spec import (
    COLUMNS,
    Aggregate,
    Alarm,
    Counter,
    Deduplicate,
    Function,
    Join,
    Limit,
    Session,
    Spec,
    Stage,
    Step,
    Swap,
    Window,
)

Labels = dict[str, str]  # column -> what it is


def labels(spec: Spec) -> list[Labels]:
    """Before each step, and after the last one."""
    found: list[Labels] = [{**{c: f"in.{c}" for c in COLUMNS}, "h": f"hour(in.ts) in {spec.zone}"}]
    for step in spec.steps:
        found.append(_after(step, found[-1]))
    return found


def _after(step: Step, given: Labels) -> Labels:
    if isinstance(step, Swap):
        return {**given, step.one: given[step.other], step.other: given[step.one]}
    if isinstance(step, Join):
        return _joined(step)
    if isinstance(step, (Counter, Alarm)):
        return {"k": f"{step.name}.key", "n": f"{step.name}.n"}
    if isinstance(step, (Aggregate, Session)):
        windows = () if isinstance(step, Aggregate) and step.window is None else ("w",)
        texts = functions(step, given)
        made = {f.alias: f"{step.name}.{text}" for f, text in zip(step.functions, texts, strict=True)}
        return {
            **{k: f"{step.name}.{_key(k, given)}" for k in step.keys},
            **dict.fromkeys(windows, f"{step.name}.w"),
            **made,
        }
    return given


def _joined(join: Join) -> Labels:
    other = "left" if join.kind == "left_semi" else "right"
    return {
        "k": "left.k", "k2": f"{other}.k2", "a": "left.a", "b": "left.b" if other == "left" else "right.a",
        "ts": "left.ts",
    }  # fmt: skip


def _key(name: str, given: Labels) -> str:
    return f"{given['a']} % 3" if name == "m" else given[name]


def stage_labels(spec: Spec, name: str) -> tuple[Stage, Labels]:
    """A stage with the labels of the columns below it."""
    for step, given in zip(spec.steps, labels(spec), strict=False):
        if getattr(step, "name", None) == name and not isinstance(step, str):
            return step, given  # type: ignore[return-value]
    raise KeyError(name)


def keys(stage: Aggregate | Session, given: Labels) -> list[str]:
    return [_key(k, given) for k in stage.keys]


def functions(stage: Aggregate | Session, given: Labels) -> list[str]:
    return [_function(f, given) for f in stage.functions]


def _function(function: Function, given: Labels) -> str:
    by = f" by {given[function.by]}" if function.by else ""
    return f"{function.name}({given.get(function.column, '*')}{by})"


def meaning(stage: Stage, given: Labels) -> tuple[Any, ...]:
    """Equal when the state of one is right for the other."""
    if isinstance(stage, Aggregate):
        return "aggregate", keys(stage, given), stage.window, set(functions(stage, given))
    if isinstance(stage, Session):
        # a sum of one column that is asked for twice is kept once, where it was first
        return "session", keys(stage, given), stage.gap, list(dict.fromkeys(functions(stage, given)))
    if isinstance(stage, Deduplicate):
        return "deduplicate", stage.within, [given[c] for c in stage.columns]
    if isinstance(stage, Limit):
        return ("limit",)  # another number is an agreed loss
    if isinstance(stage, Counter):
        operator = stage.way if stage.way in ("apply", "pandas") else "rows"
        return "counter", operator, given[stage.key]  # other code is an agreed loss, so is another variable
    if isinstance(stage, Alarm):
        return "alarm", given[stage.key]
    return "join", stage.kind, stage.within


def goes_on(old: Spec, new: Spec) -> bool:
    """Whether the documents promise that `new` can continue (perhaps after agreement): what is refused although it
    goes on is falsely refused."""
    if old.stages and new.stages and (old.watermark is None) != (new.watermark is None):
        return False
    if old.joined != new.joined:
        return not (old.stages and new.stages and old.watermark is not None)
    if old.checkpoint_format == 2 and new.store == "hdfs":
        return False  # only RocksDB has checkpoint format v2
    families = old.joined and new.joined and old.join_format > 2
    if families and (old.store != "hdfs" == new.store or (old.join_format == 4 and old.partitions != new.partitions)):
        return False  # only RocksDB has column families; format 4 keeps to its partitions
    shared = [s.name for s in new.stages if old.stage(s.name)]
    return all(_stage_goes_on(*stage_labels(old, n), *stage_labels(new, n)) for n in shared)


def _stage_goes_on(old: Stage, below: Labels, new: Stage, now_below: Labels) -> bool:
    if meaning(old, below) == meaning(new, now_below):
        return True
    if not isinstance(old, Aggregate) or not isinstance(new, Aggregate):
        return False
    before, after = set(functions(old, below)), set(functions(new, now_below))
    was, now = keys(old, below), keys(new, now_below)
    kept = [k for k in was if k in now]
    merged = kept != was or old.window != new.window
    if merged and any(f.by for f, text in zip(old.functions, functions(old, below), strict=True) if text in after):
        return False  # min_by and max_by of two groups together: not merged yet
    return kept == now and windows_merge(old.window, new.window) and (before <= after or after <= before)


def windows_merge(old: Window | None, new: Window | None) -> bool:
    """Whether the rules promise to make the new windows of the old ones."""
    if old == new:
        return True
    tumbling = old is not None and new is not None and old.size == old.slide and new.size == new.slide
    return tumbling and new.size % old.size == 0
