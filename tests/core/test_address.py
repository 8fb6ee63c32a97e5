"""What is shown of an address."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.core.address import without_credentials


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
    ],
)
def test_credentials_are_hidden(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("abfss://prod@acc/in", "wasbs://c@acc.blob.core.windows.net/p", "hdfs://nn:8020/user/me@x", "s3a://b/x@y"),
        *("https://h:443?at=1@2", "/data/in/day=1?key=7", "x@y.z", "/a?design=1&keys=2", "", "https://h/x?a=b;c=d"),
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert without_credentials(text) == text
