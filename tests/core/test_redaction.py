"""What counts as a secret, and what is hidden of it where records are shown."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.core.redaction import (
    HIDDEN,
    is_secret,
    redacted,
    redacted_in_plan,
    without_secrets,
)

SECRET = (
    *("password", "DB_PASSWORD", "PGPASSWORD", "passwd", "passphrase", "pwd", "db_pass", "dbPass", "smtp.pass"),
    *("api_key", "apiKey", "API-KEY", "APIKey", "apikeys", "api_key_2", "signing_key", "encryption_key", "ssh_key"),
    *("private key", "privatekey", "PRIVATE_KEY", "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net"),
    *("AWS_ACCESS_KEY_ID", "accesskeyid", "spark.hadoop.fs.s3a.secret.key", "client_secret", "spark.ssl.keyPassword"),
    *("authorization", "bearer", "basic_auth", "access_token", "apiToken", "tokens", "credentials"),
    *("kafka.sasl.jaas.config", "spark.kafka.sasl.jaas.config", "sasl_jaas", "truststore", "trustStore"),
    *("kafka.ssl.keystore.location", "key_store", "spark.hadoop.fs.azure.sas.fixed.c.acc", "sas", "sas_token"),
    *("STREAMUPDATE_STORAGE_OPTIONS", "eventhubs.connectionString"),
)
ORDINARY = (
    *("key", "keys", "key_column", "partition_key", "keyBy", "monkey", "monkey_store", "design_key", "keyboard"),
    *("passengers", "compass", "bypass", "passed", "author", "authors_path", "authenticate", "tokenizer"),
    *("tokenization", "saslMechanism", "kafka.sasl.mechanism", "sassafras", "basic", "input", "output", "access_log"),
    *("private", "api", "account", "assignment_key_column", "sign", "threshold", "spark.sql.shuffle.partitions"),
)


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_suggests_a_secret(name: str) -> None:
    assert is_secret(name) and redacted({name: "x"}) == {name: HIDDEN}


@pytest.mark.parametrize("name", ORDINARY)
def test_a_name_that_people_must_see(name: str) -> None:
    assert not is_secret(name) and redacted({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("spark.x.secret", True), ("apiToken", True), ("tokenizer", True), ("fs.azure.sas.x", True)]
    + [(name, False) for name in ("api_key", "apiKey", "pwd", "sasl.jaas.config", "keystore", "ssh_key", "bearer")],
)
def test_what_plans_hold_stays_as_older_plans_have_it(name: str, hidden: bool) -> None:
    """Else an update would find a setting changed that is as it was."""
    assert redacted_in_plan({name: "x"}) == {name: HIDDEN if hidden else "x"}


def test_a_switch_of_a_secret_s_name_hides_no_ordinary_word() -> None:
    assert without_secrets("x is true", {"security.token.enabled": "true"}) == "x is true"
    assert without_secrets("x is hunter2", {"apiKey": "hunter2"}) == f"x is {HIDDEN}"
