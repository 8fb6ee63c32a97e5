"""Names that people choose: which are allowed, and which can be read as another one."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.names import MAX_LENGTH, check_name, confused
from airflow_provider_streamupdate.core.plan.plan import SourcePlan

from .builders import app_plan, query_plan, stage_plan


@pytest.mark.parametrize("name", ["a", "0", "motion-alarm", "v1.2+3", "a@b:c=d_e", "x" * MAX_LENGTH])
def test_plain_names_are_kept(name: str) -> None:
    assert check_name("app", name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the snapshot name is empty"),
        (None, "is empty"),
        (7, "is empty"),
        ("a/b", "'a/b' is not allowed"),
        ("..", "is not allowed"),
        ("a..b", "is not allowed"),
        (".hidden", "is not allowed"),
        ("-option", "is not allowed"),
        ("a b", "is not allowed"),
        ("a\n", "is not allowed"),
        ("a\\b", "is not allowed"),
        ("é", "is not allowed"),
        ("x" * (MAX_LENGTH + 1), "has 201 characters; at most 200 are allowed"),
    ],
)
def test_others_are_refused_with_the_reason(name: object, reason: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        check_name("snapshot", name)
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 250, "a long name must not flood the message"


def test_a_query_may_be_called_as_spark_shows_it_and_names_that_begin_alike_are_kept_apart() -> None:
    assert check_name("query", "clicks per hour") == "clicks per hour"
    for name in (" a", "a ", "a\tb", "a\u00a0b", "a/b", "..", "a .. b"):
        with pytest.raises(InvalidInputError, match=r"is not allowed; use .* and, inside it, spaces"):
            check_name("query", name)
    assert not list(confused(("a", "ab", "a.b", "a+b", "eu:a", "source-1", "source-10"), ("daily", "a.daily", "v1.2")))


@given(st.text(max_size=MAX_LENGTH + 50))
def test_what_is_accepted_is_one_visible_path_segment(name: str) -> None:
    try:
        check_name("app", name)
    except InvalidInputError:
        return
    assert 0 < len(name.encode()) <= 255
    assert "/" not in name and "\\" not in name and ".." not in name and name.isprintable()
    assert name[0] not in ".-"  # neither hidden nor an option


@pytest.mark.parametrize(
    ("sources", "stages", "words"),
    [
        (("a",), ("a",), "a source and a stage are both named 'a'"),
        (("source-1",), ("source-1",), "both named 'source-1'"),
        (("static:t",), (), "begins with 'static:'"),
    ],
)
def test_names_that_can_be_read_as_another_one(sources: tuple[str, ...], stages: tuple[str, ...], words: str) -> None:
    assert words in " ".join(confused(sources, stages))


def test_names_that_are_read_as_another_one_are_refused() -> None:
    """Between two plans as well: what was a source is a stage now."""
    read = [SourcePlan(name=n, named=True, format="json", location=f"/{n}") for n in ("daily", "orders")]
    old = app_plan(query_plan(stage_plan("totals"), sources=(read[0],)))
    new = app_plan(query_plan(stage_plan("daily"), sources=(read[1],)))
    assert any("a source and a stage are both named 'daily'" in p for p in compare(old, new, "s1").problems)
    kept = attrs.evolve(new, queries=(query_plan(stage_plan("sums"), sources=(read[1],)),))
    assert "query.names" not in [rule for i in compare(old, kept, "s1").items for rule in i.rules]
