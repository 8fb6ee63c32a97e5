"""The rules for a stage that runs the app's own function: applyInPandasWithState and transformWithState."""

from __future__ import annotations

from collections import Counter

from ....plan.differences import code_changed
from ....plan.plan import in_order
from ...migration import variables
from ...verdict import CARRIED, LOSS, REFUSED
from ..rule import Facts, Rule, differ
from .change import BY_POSITION, FUNCTIONS, StageChange, any_changed, of


@of(*FUNCTIONS)
def _code(c: StageChange) -> Facts | None:
    old, new = c.part("code")
    unknown = [code.name for code in (old, new) if not code.digest]
    if unknown:
        return {"what": f"the state function's code cannot be compared ({unknown[-1]})"}
    return differ(old, new) and {"what": code_changed(new.name)}


@of(*FUNCTIONS)
def _input(c: StageChange) -> Facts | None:
    old, new = c.part("input")
    gone, more = Counter(old) - Counter(new), Counter(new) - Counter(old)  # a column may be there twice
    return differ(in_order(gone.elements()), in_order(more.elements())) or differ(old, new)


@of("transform-with-state")
def _variable_changed(c: StageChange) -> Facts | None:
    old, new = variables(c.old), variables(c.new)
    both = sorted(name for name in old.keys() & new.keys() if old[name] != new[name])
    return differ([old[n] for n in both], [new[n] for n in both])


@of("transform-with-state")
def _variable_gone(c: StageChange) -> Facts | None:
    names = sorted(variables(c.old).keys() - variables(c.new).keys())
    return {"names": ", ".join(names)} if names else None


@of("transform-with-state")
def _variable_new(c: StageChange) -> Facts | None:
    names = sorted(variables(c.new).keys() - variables(c.old).keys())
    return {"names": ", ".join(names)} if names else None


_StageRule = Rule[StageChange]

FUNCTION_RULES: tuple[Rule[StageChange], ...] = (
    _StageRule(
        id="stage.function",
        verdict=REFUSED,
        change="other grouping keys of a state function; another kind of timeout of applyInPandasWithState (none, "
        "processing time, event time), or time mode of transformWithState (for timers and times to live)",
        reason="{changes}: the state is kept by the old keys, and has timeouts and timers of the old kind",
        restart=True,
        source=BY_POSITION + "; FlatMapGroupsWithStateExecHelper.StateManagerImplV2: a timeout is a plain number in "
        "the state; TransformWithStateOperatorProperties.validateOperatorProperties refuses another time mode, too",
        tests=(
            "spark/test_timeouts.py::test_another_kind_of_timeout_never_fires",
            "spark/test_time_to_live.py::test_what_spark_refuses_as_well_is_named",
        ),
        applies=of(*FUNCTIONS)(any_changed("keys", "timeout", "time_mode")),
        migratable=True,
    ),
    _StageRule(
        id="stage.variable-changed",
        verdict=REFUSED,
        change="another kind of a transformWithState variable (value, list, map), or time to live switched on or off",
        reason="state variables changed from {old} to {new}: give a changed variable another name",
        source="TransformWithStateOperatorProperties.validateOperatorProperties; a time to live is a column",
        tests=("spark/test_time_to_live.py::test_what_spark_refuses_as_well_is_named",),
        applies=_variable_changed,
    ),
    _StageRule(
        id="stage.variable-gone",
        verdict=REFUSED,
        change="a transformWithState variable that was removed or renamed",
        reason="state variables {names} were removed: their values would stay in the store, where a later variable "
        "with the same name would find them; keep declaring them in init(), used or not",
        restart=True,
        migratable=True,
        source="each variable has its own column family (TransformWithStateVariableInfo), which Spark keeps; "
        "measured: a variable that comes back has its old values",
        tests=("spark/test_stages.py::test_state_variables_come_and_go",),
        applies=_variable_gone,
    ),
    _StageRule(
        id="stage.variable-new",
        verdict=CARRIED,
        change="a new transformWithState variable: it starts empty",
        reason="state variables {names} are new and start empty",
        source="StateStore.createColFamilyIfAbsent; measured",
        tests=("spark/test_stages.py::test_state_variables_come_and_go",),
        applies=_variable_new,
    ),
    _StageRule(
        id="stage.code",
        verdict=LOSS,
        change="other code of a state function (its timeouts, times to live and timers are code), or code that "
        "cannot be compared",
        reason="{what}: agree if the new code can read the state that the old one has kept",
        source="a digest of everything that the function reaches (streaming/code/); it has none when the "
        "function cannot be loaded, a broadcast variable is gone, or it looks at Spark's TaskContext",
        tests=(
            "spark/test_timeouts.py::test_a_longer_timeout_holds_for_what_is_set_from_now_on",
            "spark/test_time_to_live.py::test_a_longer_time_to_live_does_not_bring_back_what_expired_under_the_old_one",
            "spark/test_time_to_live.py::test_a_shorter_time_to_live_holds_for_what_is_written_from_now_on",
            "spark/test_restore_by_name.py::test_transform_with_state_keeps_its_variables_when_its_code_changes",
            "spark/test_code.py::test_the_same_computation_has_the_same_digest_and_no_other_has",
            "spark/test_code.py::test_what_cannot_be_loaded_has_no_digest",
        ),
        applies=_code,
    ),
    _StageRule(
        id="stage.input",
        verdict=LOSS,
        change="other input columns of a state function, another column under an old name, or another order",
        reason="the state function's input changed: {change}. Agree if the state that it has kept still "
        "fits, and, in another order, if it reads by name",
        source="a function reads columns by name, or a Row by position; measured: a hidden rename upstream changes "
        "what it sees",
        tests=("spark/test_traps.py::test_a_hidden_rename_into_a_state_function",),
        applies=_input,
    ),
)
