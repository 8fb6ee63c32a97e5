from __future__ import annotations

import string
from datetime import timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.core.errors import CorruptError
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import DeploymentSpec, QueryStatus, Status
from airflow_provider_streamupdate.core.serde import from_json, to_json

from .builders import app_plan, spec, status

words = st.text(string.printable + "é🙂", max_size=20)
maps = st.dictionaries(words, words, max_size=3)
moments = st.datetimes(timezones=st.just(timezone.utc)).map(lambda found: found.isoformat())
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
applications = st.builds(
    Application,
    file=words,
    py_files=st.tuples(words),
    params=maps,
    conf=maps,
    master=st.none() | words,
    env_vars=maps,
)
queries = st.builds(
    QueryStatus,
    batch=st.integers(-1, 2**40),
    last_commit_at=st.none() | moments,
    lag=numbers,
    state_rows=st.dictionaries(words, st.integers(0, 2**60), max_size=3),
    active=st.booleans(),
)


@given(applications, words, st.tuples(words, words))
def test_a_spec_comes_back_equal(application: Application, owner: str, agree: tuple[str, ...]) -> None:
    value = spec(application=application, owner=owner, agree=agree)
    assert from_json(to_json(value), DeploymentSpec, "x") == value


@given(st.dictionaries(words, queries, max_size=2))
def test_a_status_comes_back_equal(found: dict[str, QueryStatus]) -> None:
    value = status(queries=found)
    assert from_json(to_json(value), Status, "x") == value


def test_a_plan_comes_back_equal_and_in_the_same_bytes() -> None:
    text = to_json(app_plan())
    assert from_json(text, AppPlan, "x") == app_plan()
    assert to_json(from_json(text, AppPlan, "x")) == text


def test_a_newer_writer_s_fields_are_ignored() -> None:
    text = to_json(app_plan()).replace(b"{", b'{"a field of the next version": 1,', 1)
    assert from_json(text, AppPlan, "x") == app_plan()


@given(st.integers(0, 400))
def test_truncated_text_is_told_with_its_place(length: int) -> None:
    text = to_json(spec())
    cut = text.rstrip()[: min(length, len(text.rstrip()) - 1)]
    with pytest.raises(CorruptError, match=r"^/root/spec\.json is not valid JSON .*truncated or altered"):
        from_json(cut, DeploymentSpec, "/root/spec.json")


@pytest.mark.parametrize("text", [b"[]", b"null", b'{"app": "x"}', b'"text"'])
def test_json_of_another_form_is_told_with_its_place(text: bytes) -> None:
    with pytest.raises(CorruptError, match=r"^/root/spec\.json does not hold a valid DeploymentSpec"):
        from_json(text, DeploymentSpec, "/root/spec.json")
