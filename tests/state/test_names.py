from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_streamupdate.state.errors import InvalidInputError
from airflow_provider_streamupdate.state.names import MAX_LENGTH, check_name


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


@given(st.text(max_size=MAX_LENGTH + 50))
def test_what_is_accepted_is_one_visible_path_segment(name: str) -> None:
    try:
        check_name("app", name)
    except InvalidInputError:
        return
    assert 0 < len(name.encode()) <= 255
    assert "/" not in name and "\\" not in name and ".." not in name and name.isprintable()
    assert name[0] not in ".-"  # neither hidden nor an option
