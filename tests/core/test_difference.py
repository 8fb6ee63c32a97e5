"""Two versions beside each other: the figures that are compared, what is too much, what cannot be told, limits as a
user writes them, and what is asked of a comparison of rows, as files."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies import strategy_named
from airflow_provider_streamupdate.core.difference.comparison import NEW, OLD, Comparison, note_rows, rows_of
from airflow_provider_streamupdate.core.difference.difference import (
    ROWS_IN,
    ROWS_OUT,
    SECONDS,
    ComparedFigure,
    QueryDifference,
    compare,
)
from airflow_provider_streamupdate.core.difference.figures import KEPT, BatchFigures, merge
from airflow_provider_streamupdate.core.difference.limits import Limits, parse_ratio, parse_share, percent
from airflow_provider_streamupdate.core.difference.report import DifferenceError, DifferenceReport
from airflow_provider_streamupdate.core.difference.request import (
    ComparisonRequest,
    ExpectedDifference,
    ExpectedDifferences,
)
from airflow_provider_streamupdate.core.difference.row_difference import ONLY_NEW, RowDifference, Sample
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.serde import from_json, to_json
from airflow_provider_streamupdate.core.storage import Folder


def figures(
    batch: int,
    rows_out: int | None = 100,
    seconds: float = 1.0,
    rows_in: int | None = 1000,
    state: dict[str, int] | None = None,
) -> BatchFigures:
    return BatchFigures(batch=batch, rows_in=rows_in, rows_out=rows_out, seconds=seconds, state_rows=state)


def batches(*rows_out: int | None, first: int = 7, **other) -> list[BatchFigures]:
    return [figures(first + n, rows, **other) for n, rows in enumerate(rows_out)]


def figure_of(found: QueryDifference, name: str) -> ComparedFigure | None:
    return next((figure for figure in found.figures if figure.figure == name), None)


ROWS = Limits(max_rows_changed=0.05)
STATES = Limits(max_state_changed=0.05)
TIMES = Limits(max_slower=1.5)


def test_merged_batches_are_ordered_the_later_list_wins_and_the_last_are_kept() -> None:
    again = figures(3, None, 9.0)
    assert merge([figures(3), figures(1)], [figures(2), again]) == (figures(1), figures(2), again)
    many = merge([figures(n) for n in range(KEPT + 7)])
    assert [f.batch for f in many] == list(range(7, KEPT + 7))
    assert merge() == merge([], []) == ()


@given(st.lists(st.lists(st.integers(0, 80), max_size=60), max_size=4))
def test_merging_bit_by_bit_is_merging_at_once(lists: list[list[int]]) -> None:
    told = [[figures(n, rows_out=at) for n in ids] for at, ids in enumerate(lists)]
    kept: tuple[BatchFigures, ...] = ()
    for part in told:
        kept = merge(kept, part)
    assert [f.batch for f in merge(*told)] == sorted({n for ids in lists for n in ids})[-KEPT:]
    assert kept == merge(*told)


def test_a_number_that_spark_does_not_know_is_none_and_what_is_not_compared_is_told() -> None:
    assert figures(1, rows_out=-1, rows_in=-1) == figures(1, rows_out=None, rows_in=None)
    assert figures(1).rows_kept is None and figures(1, state={"a": 2, "b": 3}).rows_kept == 5
    for wrong in ({"batch": -1, "seconds": 1.0}, {"batch": 1, "seconds": math.nan}, {"batch": 1, "seconds": -1.0}):
        with pytest.raises(ValueError):
            BatchFigures(**wrong)
    partly = compare(batches(100, None, None, 100, 100), batches(100, None, 200, 100, 100), "q", ROWS)
    assert figure_of(partly, ROWS_OUT).batches == (7, 10, 11)
    assert (
        "query q: rows out were not compared in batches 8 to 9: a version does not report them" in partly.not_compared
    )
    alone = compare(state({"a": 10, "gone": 5}), state({"a": 10, "added": 7}), "q")
    assert alone.not_compared[1:] == (
        "query q: state rows of stage gone were not compared: only the old version has it",
        "query q: state rows of stage added were not compared: only the new version has it",
    )


def test_old_stands_beside_new_for_the_batches_that_both_have() -> None:
    found = compare(batches(100, 110, 120, first=6)[::-1], batches(110, 130, 50, 60, first=7)[::-1], "q")
    assert [(p.batch, p.old.rows_out, p.new.rows_out) for p in found.batches] == [(7, 110, 110), (8, 120, 130)]
    rows_in, rows_out = figure_of(found, ROWS_IN), figure_of(found, ROWS_OUT)
    assert rows_in is not None and (rows_in.old, rows_in.new, rows_in.changed) == (2000, 2000, "none")
    assert rows_out is not None and (rows_out.old, rows_out.new, rows_out.batches) == (230, 240, (7, 8))
    assert (rows_out.change, rows_out.changed) == (10, "4.348% more")
    assert found.problems == ()  # nothing is limited
    assert from_json(to_json(found), QueryDifference, "here") == found


def test_limits_are_held_as_they_are_written() -> None:
    for percentage in range(1, 100):
        limit = Limits(max_rows_changed=percentage / 100)
        assert compare(batches(100), batches(100 + percentage), "q", limit).problems == (), percentage
        assert compare(batches(100), batches(101 + percentage), "q", limit).problems, percentage
        assert compare(batches(100), batches(99 - percentage), "q", limit).problems, percentage
    assert not Limits().any
    assert Limits(max_state_changed=0.0).any


def timed(*seconds: float, **other) -> list[BatchFigures]:
    return [figures(n, seconds=s, **other) for n, s in enumerate(seconds)]


def state(*counts: dict[str, int] | None) -> list[BatchFigures]:
    return [figures(n, state=count) for n, count in enumerate(counts, 1)]


EMPTY_SLOW = [figures(10 + n, seconds=50, rows_in=0) for n in range(20)]
EMPTY_FAST = [figures(10 + n, seconds=0.01, rows_in=0) for n in range(20)]
UNCHECKED = "its limit cannot be checked"
FEW = f"median seconds were not compared: fewer than 3 batches with input of each version: {UNCHECKED}"


@pytest.mark.parametrize(
    ("old", "new", "limits", "problem"),
    [
        ([], batches(1), Limits(), None),
        ([], batches(1), TIMES, f"no batch was run by both versions: {UNCHECKED}"),
        # rows to the sink
        (batches(100, 100), batches(100, 111), ROWS,
         "rows out in batches 7 to 8: 200 before, 211 now, 5.5% more; 5% is allowed"),
        (batches(100), batches(94), ROWS, "rows out in batch 7: 100 before, 94 now, 6% less; 5% is allowed"),
        (batches(0, 0), batches(0, 1), Limits(max_rows_changed=1e300), "0 before, 1 now, infinitely much more; "),
        # Found from outside: the sum over the batches stays.
        (batches(100, 100, 100), batches(200, 0, 100), ROWS, "300 before, 300 now, 66.667% by batch; 5% is allowed"),
        (batches(100, 100, 100), batches(None, None, None), ROWS,
         f"rows out were not compared in batches 7 to 9: a version does not report them: {UNCHECKED}"),
        # Found from outside: a figure of one batch out of five has let an update pass.
        (batches(100, None, None, None, 100), batches(100, 100, 100, 100, 100), ROWS, UNCHECKED),
        # times
        (timed(1, 1, 1, 30), timed(1.5, 90, 1.5, 1.5), TIMES, None),
        (timed(1, 1, 1, 30), timed(1.6, 1.6, 1.6, 1.6), TIMES,
         "median seconds in batches 0 to 3: 1 before, 1.6 now, 60% more; 50% more is allowed"),
        (timed(1, 1, 1), timed(1.1, 1.1, 1.1), Limits(max_slower=1.1), None),
        (timed(1, 1, 1), timed(1.01, 1.01, 30), Limits(max_slower=1), "1% more; 0% more is allowed"),
        (timed(0, 0, 0), timed(0.1, 0.1, 0.1), Limits(max_slower=1e300), "infinitely much more"),
        ([*timed(1, 1), *EMPTY_FAST], [*timed(9, 9), *EMPTY_SLOW], TIMES, FEW),
        ([*timed(1, 1, 1), *EMPTY_FAST], [*timed(1, 1, 1), *EMPTY_SLOW], TIMES, None),
        (timed(1, 1, 1, rows_in=None), timed(1, 1, 1, rows_in=None), TIMES, FEW),
        # state
        (state({"a": 1}, {"a": 100, "b": 100}), state({"a": 90}, {"a": 105, "b": 106}), STATES,
         "state rows of stage b in batch 2: 100 before, 106 now, 6% more; 5% is allowed"),
        (state({"a": 100}), state({"a": 0}), STATES, "100 before, 0 now, 100% less"),
        (state({"a": 10}, {"a": 20}), state({"a": 11}, None), STATES, "state rows of stage a in batch 1: 10 before"),
        *((state(old), state(new), STATES, UNCHECKED)
          for old, new in (({"a": 1}, {"b": 1}), ({"a": 1}, {}), ({"a": 1}, None), (None, {"a": 1}), (None, None))),
    ],
)  # fmt: skip
def test_limits(old: list[BatchFigures], new: list[BatchFigures], limits: Limits, problem: str | None) -> None:
    """Others that hold are among those that are drawn below."""
    problems = compare(old, new, "q", limits).problems
    assert not problems if problem is None else problem in problems[0], problems


# all of them, against plain arithmetic

some = st.one_of(st.none(), st.integers(0, 40))
told = st.builds(
    figures,
    st.integers(0, 9),
    some,
    st.integers(0, 8).map(lambda n: n / 4),
    some,
    st.one_of(st.none(), st.dictionaries(st.sampled_from("ab"), st.integers(0, 40))),
)
versions = st.lists(told, max_size=10, unique_by=lambda f: f.batch)
limit = st.one_of(st.none(), st.integers(0, 8).map(lambda n: n / 4))


@given(versions, versions, limit, limit, limit)
def test_a_limit_is_passed_exactly_when_plain_arithmetic_says_so(old, new, slower, rows, state) -> None:
    slower = None if slower is None else 1 + slower
    found = compare(old, new, "q", Limits(max_slower=slower, max_rows_changed=rows, max_state_changed=state))
    pairs = [(o, n) for n in sorted(new, key=lambda f: f.batch) for o in old if o.batch == n.batch]
    assert [(p.old, p.new) for p in found.batches] == pairs

    def wrong(before: float, after: float, allowed: float) -> bool:
        return before != after if before == 0 else abs(after - before) / before > allowed

    out = [(o.rows_out, n.rows_out) for o, n in pairs if o.rows_out is not None and n.rows_out is not None]
    few = rows is not None and len(out) < min(3, len(pairs))
    assert (figure_of(found, ROWS_OUT) is not None) == (bool(out) and not few)
    moved = sum(abs(n - o) for o, n in out)  # the change of the sums is never more
    bad_rows = rows is not None and (not out or few or moved > rows * sum(o for o, _ in out))
    times = [(o.seconds, n.seconds) for o, n in pairs if o.rows_in or n.rows_in]
    assert (figure_of(found, SECONDS) is not None) == (len(times) >= 3)
    bad_times = slower is not None and len(times) < 3
    if slower is not None and len(times) >= 3:
        middle = [sorted(side)[(len(side) - 1) // 2 : len(side) // 2 + 1] for side in zip(*times, strict=True)]
        before, after = (sum(side) / len(side) for side in middle)
        bad_times = after > before * slower
    states = [(o.state_rows, n.state_rows) for o, n in pairs if o.state_rows is not None and n.state_rows is not None]
    bad_state = state is not None and not states
    if state is not None and states:
        before, after = states[-1]
        both = before.keys() & after.keys()
        bad_state = any(wrong(before[s], after[s], state) for s in both) or (bool(before or after) and not both)
    assert bool(found.problems) == (bad_rows or bad_times or bad_state), found.problems
    assert all(p.startswith("query q: ") for p in (*found.problems, *found.not_compared))
    assert from_json(to_json(found), QueryDifference, "here") == found


def row_difference(**fields) -> RowDifference:
    return RowDifference(query="q", batches=(3, 4), keys=("k",), equal=9, **fields)


SAMPLE = Sample.of({"k": "1", "total": "5"}, {"k": "1", "total": None})


def test_rows_that_differ_are_a_problem_and_samples_show_them() -> None:
    assert row_difference(expected=7).problems == []
    [problem] = row_difference(changed=2, only_old=1, samples=(SAMPLE,)).problems
    assert problem == (
        "query q, rows of batches 3-4: 9 equal, 2 changed, 1 only old; for example k=1: total was 5 and is null"
    )
    alone = Sample.of(None, {"k": "2", "total": "x" * 200})
    [problem] = RowDifference(query="q", batches=(3,), only_new=1, samples=(alone,)).problems
    assert problem.startswith("query q, rows of batches 3: 1 only new; for example only new: k=2, ")
    assert len(problem) < 250
    assert list(row_difference(new_columns=("a", "b"), left_out=("id", "at")).notes()) == [
        "query q: only the new version's rows have a, b",
        "query q: id, at were not compared: the application expects that",
    ]
    # Found from outside: a secret that differs was shown.
    before = {"k": "1", "long": "x" * 250 + "1", "userPassword": "secret-1", "same": None}
    sample = Sample.of(before, {**before, "long": "x" * 250 + "2", "userPassword": "secret-2"}, 7)
    assert (sample.differ, sample.batch) == (("long", "userPassword"), 7)
    assert sample.old == sample.new == {**before, "long": "x" * 197 + "...", "userPassword": "(hidden)"}
    [problem] = row_difference(changed=1, samples=(sample,)).problems
    assert "userPassword was (hidden) and is (hidden)" in problem and "secret-" not in problem
    alone = Sample.of(before, None)
    assert alone.new is None and alone.old == sample.old and alone.differ == tuple(before)
    assert Sample.of(before, before).differ == tuple(before), "they differ in what their texts do not show"
    assert from_json(to_json(sample), Sample, "here") == sample


def test_times_and_rows_that_were_not_compared() -> None:
    # Found from outside: recording the rows made a good version too slow. The driver that records the old one's
    # may be at other batches.
    limits = Limits(max_slower=1.5)
    old, new = batches(100, 100, 100, 100, seconds=1.0), batches(100, 100, 100, 100, seconds=2.0)
    assert "1 before, 2 now, 100% more" in compare(old, new, "q", limits).problems[0]
    recorded = batches(None, None, None, first=90, seconds=1.9)
    found = compare(old, new, "q", limits, recorded)
    assert found.problems == () and figure_of(found, SECONDS) is not None
    assert (figure_of(found, SECONDS).old, figure_of(found, SECONDS).new) == (1.9, 2.0)
    assert [p.batch for p in found.batches] == [7, 8, 9, 10] and figure_of(found, ROWS_OUT).old == 400
    few = compare(old, new, "q", limits, recorded[:2])
    assert few.problems == (f"query q: {FEW}",)
    assert compare(old, new, "q", Limits(), ()).problems == ()
    nothing = RowDifference(query="q", batches=(8, 9, 10, 11, 12))
    assert list(nothing.notes()) == ["query q: batches 8-12 gave no row in either version, so that none was compared"]
    assert nothing.summary == "rows of query q, 5 batches: none in either version" and nothing.span == "8-12"
    gaps = RowDifference(query="q", batches=(*range(8, 21), 101), equal=3, changed=1, expected=2)
    assert gaps.span == "8-101, 14 of them"
    assert gaps.summary == "rows of query q, 14 batches: 3 equal, 1 changed, 2 different as expected"
    assert RowDifference(query="q", batches=(8,)).span == "8" and RowDifference(query="q").span is None
    report = DifferenceReport(app="a", rows=(RowDifference(query="q"),), uncompared=("query q: none",), remarks=("so",))
    assert (report.passed, report.outcome) == (False, "not compared as asked")
    assert report.problems == ["query q: none"] and list(report.notes()) == ["so"]
    assert from_json(to_json(report), DifferenceReport, "here") == report
    both = attrs.evolve(report, rows=(row_difference(changed=2, samples=(SAMPLE,)),))
    assert both.outcome == "too different" and len(both.problems) == 2
    unknown = RowDifference(query="q", batches=(8, 9, 10, 11, 12), not_compared="v is variant")
    assert list(unknown.notes()) == unknown.problems == []
    assert next(DifferenceReport(app="a", rows=(unknown,)).difference_rows())[1] == "not compared"


def test_the_report_of_an_app() -> None:
    figures_only = compare(batches(100, 100), batches(100, 120), "q", ROWS)
    alone = Sample.of(None, {"k": "a|b\nc", "total": "7"}, 4)
    assert alone.kind == ONLY_NEW
    rows = row_difference(changed=1, samples=(SAMPLE, alone))
    report = DifferenceReport(app="a", queries=(figures_only,), rows=(rows,))
    assert not report.passed and report.outcome == "too different"
    assert report.problems == [*figures_only.problems, *rows.problems] and len(report.problems) == 2
    assert from_json(to_json(report), DifferenceReport, "here") == report
    assert list(report.batch_rows()) == [
        ("q", 7, 1000, 1000, 100, 100, None, None, 1.0, 1.0),
        ("q", 8, 1000, 1000, 120, 100, None, None, 1.0, 1.0),
    ]
    assert list(report.figure_rows()) == [
        ("q", "rows in", 2000, 2000, "none", None, "2 batches"),
        ("q", "rows out", 220, 200, "10% more", "5%", "2 batches"),
    ]
    assert list(report.difference_rows()) == [("q", "3-4", 9, 1, 0, 0, 0)]
    assert list(report.sample_rows()) == [
        ("q", None, "changed", "k", "1", "1"),
        ("q", None, "changed", "total", "null", "5"),
        ("q", 4, "only new", "k", "a|b\nc", ""),
        ("q", 4, "only new", "total", "7", ""),
    ]
    assert all(len(row) == len(columns) for columns, rows in report.tables().values() for row in rows)
    text = report.to_markdown()
    assert text.startswith("The new version of **a** beside the old one: **too different**\n\n- query q: rows out ")
    assert "| q | 8 | 1000 | 1000 | 120 | 100 |  |  | 1.0 | 1.0 |" in text
    assert "| q | 4 | only new | k | a\\|b c |  |" in text
    assert "- query q: median seconds were not compared: " in text
    with pytest.raises(DifferenceError) as caught:
        raise DifferenceError("no", report)
    assert caught.value.report is report


def test_a_report_without_problems_or_without_anything() -> None:
    same = compare(batches(1, 2, 3), batches(1, 2, 3), "q", Limits(max_slower=2, max_rows_changed=0))
    good = DifferenceReport(app="a", queries=(same,), rows=(row_difference(expected=2),))
    assert good.passed and good.outcome == "no problem"
    empty = DifferenceReport(app="a")
    assert empty.passed and empty.outcome == "nothing was compared"
    assert empty.to_markdown() == "The new version of **a** beside the old one: **nothing was compared**\n"


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        *((parse_share, *each) for each in [("5%", 0.05), ("0.05", 0.05), (".05", 0.05), (0.05, 0.05), ("0", 0)]),
        *((parse_share, *each) for each in [(0, 0), ("0%", 0), ("100%", 1), ("250%", 2.5), ("0.1%", 0.001)]),
        *((parse_share, *each) for each in [("29%", 0.29), ("00.5%", 0.005), (1e-07, 1e-07), (None, None)]),
        *((parse_ratio, *each) for each in [("1.5", 1.5), ("1", 1), (2, 2), (1.25, 1.25), ("10", 10), (1e22, 1e22)]),
        (parse_ratio, None, None),
    ],
)
def test_shares_and_ratios(parse: Any, text: str | float | None, value: float | None) -> None:
    assert parse("x", text) == value


BAD_NUMBERS = ["", " ", "-1.5", -0.5, "nan", math.nan, "inf", "-Infinity", math.inf, "%5", "1,5", "1_0", "1e0", "0x1",
               "1.", "+1", "٣", " 1.5", "1.5\n", "9" * 400, True, [5], "%", "5 %", "5%%", "-5%", "nan%"]  # fmt: skip
SHARES = [
    *((given, "is no number of 0 or more; write a share of 0 or more: 5% or 0.05") for given in BAD_NUMBERS),
    ("5", "x='5' would be 500%; write 5% or 500%"),
    ("1", "x='1' would be 100%; write 1% or 100%"),
    (1.5, "x=1.5 would be 150%; write 1.5% or 150%"),
]
RATIOS = [
    *((given, "is no number of 0 or more; write a number of 1 or more") for given in BAD_NUMBERS),
    ("0.5", "x='0.5' is less than 1; write a number of 1 or more: 1.5 lets the new version take one and a half"),
    (0, "x=0 is less than 1; write a number"),
    ("150%", "x='150%' is a percentage; write a number"),
]


@pytest.mark.parametrize(("parse", "cases"), [(parse_share, SHARES), (parse_ratio, RATIOS)])
def test_what_is_no_limit(parse: Any, cases: list[tuple[Any, str]]) -> None:
    for given_, message in cases:
        with pytest.raises(InvalidInputError) as caught:
            parse("x", given_)
        assert message in str(caught.value) and len(str(caught.value)) < 200, given_


odd = st.one_of(
    st.text(),
    st.text(alphabet="0123456789.%-+eE_ nai٣"),
    st.floats(),
    st.integers(),
    st.floats().map(str),
    st.floats(min_value=0).map(lambda f: f"{f}%"),
)


@given(odd)
def test_odd_input_is_a_finite_limit_or_an_error_of_ours(given_: str | float) -> None:
    for parse, least in ((parse_share, 0), (parse_ratio, 1)):
        try:
            value = parse("x", given_)
        except InvalidInputError:
            continue
        assert isinstance(value, float) and math.isfinite(value) and value >= least
        if not isinstance(given_, str):
            assert value == float(given_)
        elif given_.endswith("%"):
            assert value == pytest.approx(float(given_[:-1]) / 100)
        else:
            assert value == float(given_)


@given(st.integers(0, 10**6))
def test_a_percentage_reads_back(thousandths: int) -> None:
    text = percent(thousandths / 100000)
    assert parse_share("x", text) == thousandths / 100000


@pytest.fixture
def comparison(tmp_path) -> Comparison:
    return Comparison(Folder.open(str(tmp_path)))


def record(comparison: Comparison, version: str, batch: int, where: str) -> None:
    rows = comparison.rows(version, "q")
    rows.write(f"{where}/part-0.parquet", b"rows")
    note_rows(rows, batch, where)


def test_a_batch_is_there_once_it_was_noted_and_stays_while_it_is_recorded_again(comparison: Comparison) -> None:
    """Found from outside: a new version that was started again replaced the rows that were being read."""
    old, new = (comparison.rows(version, "q") for version in (OLD, NEW))
    record(comparison, OLD, 7, "7-a")
    new.write("7-b/part-0.parquet", b"half of the rows")
    assert comparison.recorded("q") == []
    note_rows(new, 7, "7-b")
    assert comparison.recorded("q") == [7] and (rows_of(old, 7), rows_of(new, 7)) == ("7-a", "7-b")
    record(comparison, NEW, 7, "7-c")
    assert rows_of(new, 7) == "7-c" and new.exists("7-b/part-0.parquet"), "whoever reads it is not disturbed"
    record(comparison, NEW, 8, "8-d")
    comparison.add(RowDifference(query="q", equal=1, batches=(7,)))
    assert comparison.recorded("q") == []
    comparison.remove_compared("q")
    assert old.names() == [] and sorted(new.names()) == ["7-b", "8", "8-d"]
    record(comparison, OLD, 8, "8-e")
    assert comparison.recorded("q") == [8]
    for batch in (5, 6, 9):
        record(comparison, NEW, batch, f"{batch}-f")
    comparison.remove_compared("q")
    assert sorted(new.names()) == ["7-b", "8", "8-d", "9", "9-f"], "what is from before the first of the old is gone"
    comparison.add(RowDifference(query="q", changed=2, batches=(8, 9)))
    assert comparison.findings() == {"q": RowDifference(query="q", equal=1, changed=2, batches=(7, 8, 9))}
    comparison.remove_rows()
    assert comparison.recorded("q") == [] and comparison.compared("q") == {7, 8, 9}


def test_another_question_is_answered_anew(comparison: Comparison) -> None:
    first = ComparisonRequest(keys={"q": ()})
    assert not comparison.replaces(first)
    comparison.ask(first)
    record(comparison, OLD, 7, "7-a")
    comparison.add(RowDifference(query="q", equal=1, batches=(6,)))
    assert not comparison.replaces(first)
    comparison.ask(first)  # a rerun
    assert comparison.compared("q") == {6} and comparison.rows(OLD, "q").names()
    assert comparison.replaces(None)
    comparison.ask(None)
    assert comparison.request() is None and comparison.findings() == {}
    assert comparison.rows(OLD, "q").names() == []
    comparison.ask(None)
    comparison.ask(first)
    others: list[dict[str, Any]] = [{"keys": {"q": ("k",)}}, {"keys": {"q": ()}, "tolerance": 0.1}, {"keys": {"r": ()}}]
    for other in (ComparisonRequest(**each) for each in others):
        assert comparison.replaces(other)
        comparison.ask(other)
        assert comparison.request() == other and comparison.findings() == {}
        assert comparison.rows(OLD, "q").names() == []


def test_what_the_author_expects() -> None:
    rows, column = ExpectedDifference(query="q", where="n < 5"), ExpectedDifference(query="q", column="id")
    expected = ExpectedDifferences(differences=(rows, column, ExpectedDifference(query="r", column="at")))
    assert (expected.predicates("q"), expected.columns("q")) == (["n < 5"], ["id"])
    assert (expected.predicates("r"), expected.columns("r")) == ([], ["at"])
    for wrong, words in (
        ({}, "is no condition"),
        ({"where": " "}, "is no condition"),
        ({"column": ""}, "is no name of a column"),
        ({"column": 1}, "is no name of a column"),
        ({"where": "n < 5", "column": "id"}, "call expect_difference twice"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            ExpectedDifference(query="q", **wrong)


def test_a_tolerance_needs_rows_that_are_paired(tmp_path) -> None:
    def asked(*diff: str, tolerance: str | None) -> ComparisonRequest:
        application = Application(file=str(tmp_path / "app.py"))
        options = UpdateOptions(application=application, strategy="follow", diff=diff, diff_tolerance=tolerance)
        return options.comparison_request

    (tmp_path / "app.py").write_text("")
    assert asked("q=k", tolerance="0.01%") == ComparisonRequest(keys={"q": ("k",)}, tolerance=0.0001)
    assert asked("q=k", "r", tolerance=None) == ComparisonRequest(keys={"q": ("k",), "r": ()})
    for diff, tolerance, words in (
        (("q",), "1%", "has no columns by which rows are paired"),
        (("q=k", "r"), "1%", "write r=COLUMN"),
        (("q=k",), "-1", "is no number of 0 or more"),
        (("q=k",), "5", "write 5%"),
        (("q=k",), "150%", "must be less than 100%"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            asked(*diff, tolerance=tolerance)
    alone = UpdateOptions(application=Application(file=str(tmp_path / "app.py")), diff_tolerance="1%")
    for strategy, words in (("follow", "give --diff"), ("standby", "--diff-tolerance, or use strategy follow")):
        with pytest.raises(InvalidInputError, match=words):
            strategy_named(strategy).accept(attrs.evolve(alone, strategy=strategy))
