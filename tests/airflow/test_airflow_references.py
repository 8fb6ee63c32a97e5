"""Secrets by reference: what a form was given names a connection or a variable, and the task reads it."""

from __future__ import annotations

import pytest
from airflow_site import DAG_BAG, REPOSITORY, SERIALIZED_DAG, part_of_airflow

from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.hooks.references import secrets_in_conf
from airflow_provider_streamupdate.hooks.update_options import application_from

pytestmark = pytest.mark.usefixtures("airflow_db")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DB", '{"conn_type": "x", "password": "hun\\"ter2", "extra": {"key": "k3y-k3y"}}')
    monkeypatch.setenv("AIRFLOW_VAR_TOKEN_OF_HUB", "t0k3n-t0k3n")
    monkeypatch.setenv("AIRFLOW_VAR_HUB", '{"pin": "p1n-p1n"}')


def test_references_are_read_by_the_task_and_others_stay() -> None:
    given = {
        "password": "{{ conn.db.password }}",
        "both": "{{conn.db.extra_dejson.key}}:{{ var.value.token_of_hub }}",
        "pin": "{{ var.json.hub.pin }}",
        "day": "{{ ds }}",
    }
    made = application_from("x.py", app_params=given, conf='{"spark.x": "{{ conn.db.password }}"}')
    assert made.params == {
        "password": 'hun"ter2',
        "both": "k3y-k3y:t0k3n-t0k3n",
        "pin": "p1n-p1n",
        "day": "{{ ds }}",
    }
    assert made.conf == {"spark.x": 'hun"ter2'}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ conn.db.passwrd }}", "not understood"),
        ("{{ conn.db.password }} {{ conn.db.get_uri() }}", "not understood"),
        *(
            (text, "not understood")
            for text in ("{{ conn['db'].password }}", "{{- conn.db.password }}", "{{\tvar.value.x }}")
        ),
        ("{{ conn.other.password }}", "connection other cannot be read"),
        ("{{ conn.db.login }}", "connection db has no login"),
        ("{{ var.value.none_such }}", "variable none_such cannot be read"),
        ("{{ var.json.hub.none }}", "variable hub has no text none"),
    ],
)
def test_a_reference_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=f"app_params 'p'.*{said}"):
        application_from("x.py", app_params={"p": text})


PLAIN = ("pwd", "db_pass", "bearer", "credentials", "storage_options", "sas", "ssh_key", "encryption_key", "basic_auth")


@pytest.mark.parametrize("field", ["parameters", "spark_conf"])
@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("db_password", "hunter2", False),
        ("spark.hadoop.fs.s3a.secret.key", "hunter2", False),
        ("API_KEY", "hunter2", False),
        ("db_password", "{{ conn.db.password }}", True),
        ("spark.security.token.enabled", "true", True),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.x.Provider", True),
        ("spark.kubernetes.driver.secretKeyRef.DB_PASSWORD", "db:password", True),
        ("tokenizer", "words", True),
        ("max_token_size", 65_536, True),
        ("auth_token", "{{ conn.db.login }}:{{ conn.db.password }}", True),
        ("auth_token", "{{ conn.db.login }}hunter2{{ conn.db.password }}", False),
        ("auth_token", "{{ conn.db.login }} hunter2 }}", False),
        ("password", "12345678", False),
        ("password", 12345678, False),
        ("password", ["hunter2"], False),
        ("password", {"a": "hunter2"}, False),
        *((name, "hunter2", False) for name in (*PLAIN, "userPass", "connectionString", "Authorization")),
    ],
)
def test_the_form_takes_no_secret_in_the_clear(field: str, name: str, value: object, taken: bool) -> None:
    """Airflow validates a run's conf before it makes the run, with the DAG as it is stored."""
    serialization = part_of_airflow(*SERIALIZED_DAG)
    dag = part_of_airflow(*DAG_BAG)(str(REPOSITORY / "dags")).dags["stream_update"]
    dag = serialization.from_dict(serialization.to_dict(dag))
    params = dag.params.deep_merge({"app": "alarm", "application": "/a.py", field: {name: value}})
    if taken:
        params.validate()
    else:
        with pytest.raises(Exception, match=r"does not match|is not of type|is greater than"):
            params.validate()


def test_what_looks_like_a_secret_in_a_run_s_conf_is_warned_of() -> None:
    given = {"url": "x://h;password=hunter2", "pin_code": "7", "t": "{{ conn.db.password }}"}
    conf = {"app": "alarm", "parameters": given, "spark_conf": {"spark.ssl.keyPassword": "hunter2"}}
    assert [*secrets_in_conf(conf)] == ["parameters 'url'", "spark_conf 'spark.ssl.keyPassword'"]
    assert [*secrets_in_conf(None)] == []
    others = {"application": "s3://AK:hunter2@b/a.py", "py_files": ["https://u:hunter2@h/x.zip"], "check_only": True}
    nested = {"a": {"password": "hunter2"}, "password": 12345678, "token_count": None}
    assert [*secrets_in_conf({**others, "spark_conf": nested})] == [
        "application",
        "py_files",
        "spark_conf 'a'",
        "spark_conf 'password'",
    ]
