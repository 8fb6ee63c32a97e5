"""What counts as a secret, and what is hidden of it where records and addresses are shown."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import shlex
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.operations.settings_diff import settings_diff
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.address import without_credentials
from airflow_provider_streamupdate.core.errors import RefusedError, StreamUpdateError, describe
from airflow_provider_streamupdate.core.redaction import hide, redacted, secret_values, without
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import FAILED
from airflow_provider_streamupdate.core.registry.hiding import Hiding
from airflow_provider_streamupdate.core.registry.in_flight import ChangeRequest, ParameterChange, check_applications
from airflow_provider_streamupdate.core.secret_names import HIDDEN, is_secret, redacted_in_plan
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent.reporting import Reporter
from tests.core.builders import spec

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


@pytest.mark.parametrize(("name", "secret"), [*((n, True) for n in SECRET), *((n, False) for n in ORDINARY)])
def test_names_that_suggest_a_secret_and_names_that_people_must_see(name: str, secret: bool) -> None:
    shown = {name: HIDDEN if secret else "x"}
    assert is_secret(name) is secret and redacted({name: "x"}) == redacted_in_plan({name: "x"}) == shown


DECLARED = (
    'hun"ter2/x y',
    "pa\nss\nword-1",
    "p\u00e4ss'w\u00f6rd&<>\\",
    "s3cr3t+/=%&",
    "tab\there",
    "plain-hunter2",
    "100%\U0001f511key",
)
SPELLINGS: tuple[Callable[[str], str], ...] = (
    repr,
    ascii,
    json.dumps,
    lambda value: json.dumps(value, ensure_ascii=False),
    lambda value: json.dumps(json.dumps({"x": [value]})),
    lambda value: json.dumps(json.dumps(json.dumps(value))),
    lambda value: repr(json.dumps(value)),
    lambda value: repr(value.encode()),
    urllib.parse.quote,
    urllib.parse.quote_plus,
    lambda value: urllib.parse.quote(value, safe=""),
    lambda value: urllib.parse.quote(urllib.parse.quote(value)),
    lambda value: urllib.parse.quote(value, safe="").lower(),
    html.escape,
    lambda value: " ".join(value.split()),
    lambda value: value.replace("\n", "\r\n    "),
    lambda value: base64.b64encode(value.encode()).decode(),
    lambda value: base64.urlsafe_b64encode(f"me:{value}".encode()).decode(),
    lambda value: base64.b64encode(f"user:{value}!".encode()).decode(),
    lambda value: urllib.parse.quote(base64.b64encode(value.encode()).decode(), safe=""),
    lambda value: base64.b64encode(value.encode()).decode().replace("/", "\\/"),
    lambda value: base64.encodebytes(f"{'u' * 40}:{value}".encode()).decode().strip(),
    lambda value: json.dumps(base64.encodebytes(f"{'u' * 55}:{value}".encode()).decode().strip()),
    lambda value: base64.b64encode(json.dumps({"x": value}).encode()).decode(),
    lambda value: base64.b64encode(urllib.parse.quote(value, safe="").encode()).decode(),
)


def fragments(value: str, spelt: str) -> list[str]:
    """Return what of a value must not be seen: its runs of letters, and the middle of what is in base64."""
    runs = [run for run in value.replace("\n", " ").replace('"', " ").split() if len(run) > 3 and run in spelt]
    return runs or [spelt[4:-4]]


@pytest.mark.parametrize("value", DECLARED)
@pytest.mark.parametrize("spell", SPELLINGS)
def test_a_declared_secret_is_hidden_however_it_is_written(value: str, spell: Callable[[str], str]) -> None:
    spelt = spell(value)
    shown = hide(f"cannot log in with {spelt} at the host", secret_values({"db_pass": value}))
    assert HIDDEN in shown and "cannot log in with " in shown and shown.endswith(" at the host")
    assert not [part for part in fragments(value, spelt) if part in shown], shown


LAYERS: tuple[Callable[[str], str], ...] = (
    *(repr, ascii, json.dumps, urllib.parse.quote, urllib.parse.quote_plus, html.escape, shlex.quote),
    *(lambda text: repr(text.encode()), lambda text: text.replace("'", "''"), lambda text: text.replace('"', '""')),
)


def test_a_declared_secret_is_hidden_in_one_spelling_within_another() -> None:
    """Three layers, as JSON quoted for HTML in a URL."""
    chosen = random.Random(1)
    for _ in range(3_000):
        value = f"Qq7{''.join(chosen.choices(SIGNS, k=12))}Zz9"
        text = value
        for spell in chosen.choices(LAYERS, k=chosen.randint(1, 3)):
            text = spell(text)
        shown = hide(f"before {text} after", secret_values({"password": value}))
        assert "Qq7" not in shown and "Zz9" not in shown, (value, text)
        assert shown.startswith("before ") and shown.endswith(" after"), (value, text)


SIGNS = "aB3 \n\t\\\"'%+&<>/{}ü😀é;:=.#xunrt0"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\\" * 20 + "Q", "Q " + "\\" * 1_000_000),
        ("+ + + + + Q", "Q " + "+" * 1_000_000),
        ('"' + '\\"' * 3 + "\\Q", "Q " + ("\\" * 16 + '"') * 60_000),
        ("." * 200 + "Q", "Q " + "." * 1_000_000),
        ("." * 299, ("." * 298 + " ") * 3_400),
    ],
)
def test_a_secret_of_signs_is_looked_for_in_linear_time(value: str, text: str) -> None:
    """A parameter called `password` must not freeze Airflow's API server."""
    begun = time.process_time()
    assert without(text, secret_values({"password": value})) == text
    assert time.process_time() - begun < 5  # 0.1 s; for ever with one pattern of all spellings


def test_many_secrets_in_one_line_take_linear_time() -> None:
    """The line's end was looked for with each of them: 9 s for 2 MB, four times that for 4 MB."""
    begun = time.process_time()
    assert "x" not in hide("password=x " * 300_000)
    assert time.process_time() - begun < 8  # 1.5 s


@pytest.mark.parametrize("end", ["\n", " ", ""])
def test_a_secret_with_a_line_s_end_is_hidden_without_it(end: str) -> None:
    assert hide("no hunter2!", secret_values({"token": f"hunter2{end}"})) == f"no {HIDDEN}!"


def test_secrets_within_settings_and_long_ones() -> None:
    jaas = 'org.x.PlainLoginModule required username="me" password="hunter2-x";'
    options = '{"user": "me", "password": "hunter3-x"}'
    values = secret_values({"sasl.jaas.config": jaas, "options": options, "at": "s3a://AKIA12345:hunter4-x@b/in"})
    assert hide("hunter2-x, hunter3-x, hunter4-x", values) == ", ".join([HIDDEN] * 3)
    assert redacted({"options": options})["options"] == f'{{"user": "me", "password": "{HIDDEN}"}}'
    # A key file, as JSON with line ends that are written out, or a line of it.
    lines = [base64.b64encode(bytes([i] * 48)).decode() for i in range(20)]
    pem = "\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"))
    key_file = json.dumps({"type": "service_account", "private_key": pem})
    values = secret_values({"google_credentials": key_file})
    for quoted in (pem, key_file, json.dumps(key_file), repr(pem), lines[7], pem.replace("\n", " | ")):
        assert not [line for line in lines if line[4:-4] in hide(f"cannot use {quoted}", values)]
    # a switch of a secret's name hides no ordinary word
    assert without("x is true", secret_values({"security.token.enabled": "true"})) == "x is true"
    assert without("x is hunter2", secret_values({"apiKey": "hunter2"})) == f"x is {HIDDEN}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("login password=hunter2 failed", "login password=(hidden) failed"),
        ("Password: hunter2, retry", "Password: (hidden), retry"),
        ("{password=hun,ter2, user=x}", "{password=(hidden), user=x}"),
        ("{'password': 'hunt\\'er2', 'user': 'x'}", "{'password': '(hidden)', 'user': 'x'}"),
        ('{"api_key": "hunt\\"er2", "user": "x"}', '{"api_key": "(hidden)", "user": "x"}'),
        ('"{\\"token\\": \\"hunter2\\", \\"user\\": 1}"', '"{\\"token\\": \\"(hidden)\\", \\"user\\": 1}"'),
        ('"\\\\\\"pwd\\\\\\": \\\\\\"hunter2\\\\\\", 1"', '"\\\\\\"pwd\\\\\\": \\\\\\"(hidden)\\\\\\", 1"'),
        ("AccountName=a;AccountKey=hunter2==;EndpointSuffix=x", "AccountName=a;AccountKey=***;EndpointSuffix=x"),
        ("sr=x;SharedAccessSignature=hunter2;a=b", "sr=x;SharedAccessSignature=***;a=b"),
        ("?X-Amz-Signature=hunter2&x=1", "?X-Amz-Signature=***&x=1"),
        ("?sv=2024&sig=hunter2&x=1", "?sv=2024&sig=***&x=1"),
        ('x required username="me" password="hunter2";', 'x required username="me" password="(hidden)";'),
        ("Authorization: Digest hunter2 hunter3\nHost: h", "Authorization: (hidden)\nHost: h"),
        ("curl -H 'Authorization: Bearer hunter2'", "curl -H 'Authorization: (hidden)"),
        ("sent Bearer hunter2.x to h", "sent Bearer (hidden) to h"),
        ("sent Basic bWU6aHVudGVyMg== to h", "sent Basic (hidden) to h"),
        ("run --db-password hunter2 --fast", "run --db-password (hidden) --fast"),
        ("['--password', 'hunter2', '--fast']", "['--password', '(hidden)', '--fast']"),
        ("-Djavax.net.ssl.keyStorePassword=hunter2 -Xmx1g", "-Djavax.net.ssl.keyStorePassword=(hidden) -Xmx1g"),
        ("(spark.x.password,hunter2)", "(spark.x.password,(hidden))"),
        ('.option("password", "hunter2")', '.option("password", "(hidden)")'),
        ('{"name": "DB_PASSWORD", "value": "hunter2"}', '{"name": "DB_PASSWORD", "value": "(hidden)"}'),
        ("<password>hunter2</password>", "<password>(hidden)</password>"),
        ('{"credentials": {"a": "hunter2"}, "b": 1}', '{"credentials": (hidden), "b": 1}'),
        ("denied for AKIAIOSFODNN7EXAMPLE", "denied for (hidden)"),
        ("got eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJ_x", "got (hidden)"),
        ("-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----.", "(hidden)."),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: A-1\n\nhunter2\n-----END X-----",
            "(hidden)",
        ),
        ("{'password': b'hunter2', 'a': 1}", "{'password': b'(hidden)', 'a': 1}"),
        ('password="""hunter2"""', 'password="(hidden)"""'),
        ("OPTIONS (url 'x', password 'hunter2', a 'b')", "OPTIONS (url 'x', password '(hidden)', a 'b')"),
        ("ghp_0123456789abcdefghijklmnopqrstuvwxyz is revoked", "(hidden) is revoked"),
        ("jdbc:x://h/db?user=u&password=hunter2&a=b", "jdbc:x://h/db?user=u&password=***&a=b"),
        # what is no secret is shown
        *((text, text) for text in ("cannot read key=7 of /data/day=1", "columns [token, user] are missing")),
        *((text, text) for text in ("the token expired", "token > 5", "mismatched token 'FROM' expecting 'BY'")),
        *((text, text) for text in ("Basic authentication is off", "a bearer of news", "password", "a -> b")),
        *((text, text) for text in ("batch 7: 3 rows, 2 of them late", "refused: clicks/tokens: its keys changed")),
    ],
)
def test_what_a_text_itself_calls_a_secret_is_hidden(text: str, shown: str) -> None:
    assert hide(text) == shown and hide(shown) == shown


CUT_SECRET = "Tr0ub4dor&3-horse+battery/staple"


@pytest.mark.parametrize("pad", range(3_960, 4_000, 3))
def test_a_secret_across_the_cut_of_an_error_is_hidden(pad: int) -> None:
    """It was cut first, and what was left of it was no longer known."""
    for spell in (str, json.dumps, lambda value: base64.b64encode(value.encode()).decode()):
        said = describe(StreamUpdateError(f"{'q' * (pad - 1)} {spell(CUT_SECRET)} end"))
        for text in (said, f"before {said}; what to do"):
            shown = hide(text, secret_values({"db_password": CUT_SECRET}))
            assert not re.search("Tr0u|VHIwdWI", shown), shown[-60:]
    assert hide("no Tr0 is", [CUT_SECRET]) == "no Tr0 is" and hide("a Tr0ub... b", [CUT_SECRET]) == "a (hidden)... b"


def test_a_secret_under_another_name_is_hidden_in_what_was_given(tmp_path: Path) -> None:
    """`--set password=X --set "url=...pw=X"` showed X in the url."""
    file = tmp_path / "v1.py"
    file.write_text("")
    given = {"password": "Rk9-horse", "url": "jdbc:x://h?u=joe&pw=Rk9-horse", "note": "n"}
    old, new = (
        spec("v1", application=Application(file=str(file), params={"note": "m"})),
        spec(
            "v2",
            application=Application(
                file=str(file), params=given, env_vars={"X": "a Rk9-horse"}, master="spark://u:Rk9@h:1"
            ),
        ),
    )
    shown = Hiding.of([new]).application(new.application)
    assert shown.params == {"password": HIDDEN, "url": f"jdbc:x://h?u=joe&pw={HIDDEN}", "note": "n"}
    assert shown.env_vars == {"X": f"a {HIDDEN}"} and shown.master == "spark://***@h:1"
    assert "Rk9" not in str(settings_diff(old, new)) and len(settings_diff(old, new)) == 5
    with pytest.raises(RefusedError, match="differ") as refused:
        check_applications(old.application, new.application, ())
    assert "Rk9" not in str(refused.value)
    request = ChangeRequest(
        id="c", params={**given, "url": "x Rk9-other", "password": "Rk9-other"}, asked_by="me", digest="d"
    )
    change = ParameterChange(number=1, at=clock.now(), request=request, before=given, digest_before="d")
    assert "Rk9" not in str(Hiding().change(change)) and "joe" in str(Hiding().change(change))
    event = Hiding().event({"event": "changed", "parameters": {**change.changed, "note": [None, "m"]}})
    assert "Rk9" not in str(event) and event["parameters"]["note"] == [None, "m"]


def test_a_driver_writes_no_declared_secret_into_its_status(tmp_path: Path) -> None:
    hiding = Hiding.of_applications([Application(file="v1.py", params={"db_pass": 'hun"ter2'})])
    folder = Folder.open(str(tmp_path))
    reporter = Reporter(folder, 1, hiding=hiding)
    reporter.report(state=FAILED, error=json.dumps('hun"ter2'), reason='not hun\\"ter2')
    written = (folder.read("status.json") or b"") + (folder.read("events.jsonl") or b"")
    assert b"ter2" not in written and written.count(b"(hidden)") == 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3a://AK:hunter2@b/in", "s3a://***@b/in"),
        ("s3a://hunter2@b/in", "s3a://***@b/in"),
        ("s3a://AKIA:hun/ter2@b/p", "s3a://***@b/p"),
        ("s3a://AKIA:12/hunter2@b/p", "s3a://***@b/p"),
        ("s3a://AK:hun@ter/2@b/p", "s3a://***@b/p"),
        ("ftp://me:hun@ter2:w@h/x", "ftp://***@h/x"),
        ("hdfs://u:hunter2@nn:8020/x", "hdfs://***@nn:8020/x"),
        ("abfss://c:hunter2@acc/in", "abfss://***@acc/in"),
        ("SASL_SSL://u:hunter2@h:9092", "SASL_SSL://***@h:9092"),
        ("hdfs://nn:8020/a,s3a://AK:hunter2@b", "hdfs://nn:8020/a,s3a://***@b"),
        ("kept from json s3a://AK:hunter2@b/in to json", "kept from json s3a://***@b/in to json"),
        ("https://h/c?sv=1&sig=hunter2&se=1", "https://h/c?sv=1&sig=***&se=1"),
        ("abfss://c@acc/p;sig=hunter2", "abfss://c@acc/p;sig=***"),
        ("s3://b/p#sig=hunter2", "s3://b/p#sig=***"),
        ("s3a://b/p?a[0]=x&X-Amz-Signature=hunter2", "s3a://b/p?a[0]=x&X-Amz-Signature=***"),
        ("s3://b/p%3Fsig=hunter2", "s3://b/p%3Fsig=***"),
        ("jdbc:postgresql://h/db?user=u&password=hunter2", "jdbc:postgresql://h/db?user=u&password=***"),
        # an address without a secret is shown
        *((text, text) for text in ("abfss://prod@acc/in", "wasbs://c@acc.blob.core.windows.net/p", "s3a://b/x@y")),
        *((text, text) for text in ("hdfs://nn:8020/user/me@x", "https://h:443?at=1@2", "/data/in/day=1?key=7")),
        *((text, text) for text in ("x@y.z", "/a?design=1&keys=2", "", "https://h/x?a=b;c=d")),
    ],
)
def test_credentials_are_hidden(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
