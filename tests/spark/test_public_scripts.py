"""Twelve public scripts, unchanged: each is an app, goes on from itself, and is changed as a team would.

They run where STREAMUPDATE_PUBLIC_REPOSITORIES has clones of their repositories (public_scripts.py): their code is not
ours to keep here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.registry.application import Application, Script
from public_scripts import Public, World, verdicts, world  # noqa: F401

LEARNING = dict(
    repository="LearningJournal/Spark-Streaming-In-Python",
    commit="13fdefae019848cc83c93aaaa3ba4e17af09bfae",
    licence="MIT",
)
WORKSHOP = dict(
    repository="PacktWorkshops/The-Spark-Workshop", commit="f5b052b67d3aaf805eb48c9958c0dcfd237cc841", licence="MIT"
)
# A module that this machine has not: it hands a class its arguments, out of a file.
GIN = "def configurable(kind):\n    return kind\n\n\ndef parse_config_file(path):\n    open(path).close()\n"
TAXI = "[database]\ndatabase=d\npassword=p\nuser=u\nhost=h\n[kafka]\nhost=k\nport=1\ntopic=taxi\n[email]\nto_email=x@y\n"
POST = "import json, os, uuid\n\n\ndef post(url, json=json):\n    os.makedirs('{folder}/posted', exist_ok=True)\n" \
    "    with open('{folder}/posted/' + uuid.uuid4().hex, 'w') as file:\n        __import__('json').dump(json, file)\n"  # fmt: skip

SCRIPTS = {
    "windows with a watermark": Public(
        **LEARNING,
        script="10-WatermarkDemo/WatermarkDemo.py",
        files=("10-WatermarkDemo/lib",),
        change=('"15 minute"', '"5 minute"'),
        verdict="refused",
    ),
    "outer join of streams": Public(
        **LEARNING,
        script="14-StreamingOuterJoinDemo/StreamingOuterJoinDemo.py",
        files=("14-StreamingOuterJoinDemo/lib",),
        change=("interval 15 minute", "interval 20 minute"),
        verdict="asked",
    ),
    "two queries": Public(
        **LEARNING,
        script="05-MultiQueryDemo/MultiQueryDemo.py",
        files=("05-MultiQueryDemo/lib",),
        change=("TotalAmount * 0.2", "TotalAmount * 0.3"),
    ),
    "words once": Public(
        **WORKSHOP,
        script="Chapter12/structured_streaming/StreamingDeduplication.py",
        change=(".dropDuplicates()", """.where("word <> ''").dropDuplicates()"""),
    ),
    "join of streams, counted": Public(
        **WORKSHOP,
        script="Chapter12/structured_streaming/StreamStreamJoins.py",
        change=("interval 1 hour", "interval 2 hours"),
        verdict="asked",
    ),
    "words, with a configuration": Public(
        repository="SRVivek1/pyspark-streaming-examples",
        commit="2a24f847bbdfa96e1272fd4ccd56bf63c77fcad2",
        licence="Apache-2.0",
        script="kafka_source/aws_emr_ec2_kafka_complete_mode_2.py",
        files=("application.yml",),
        beside={".secrets": "AWS_ACCESS: {ACCESS_KEY: a, SECRET_KEY: b}\n"},
        change=('count("value")', 'count("value"), count("*")'),
        verdict="migrated",
    ),
    "transactions": Public(
        repository="aws-samples/emr-serverless-samples",
        commit="7bedf21e9cbe238c08e87164522a75143ab63ca0",
        licence="MIT-0",
        script="examples/pyspark/streaming/Kinesis_data_stream/transactions.py",
        arguments=("transactions", "{folder}/checkpoint"),
        change=("count >= 5", "count >= 3"),
    ),
    "hashtags": Public(
        repository="gyan42/spark-streaming-playground",
        commit="147ef9cbc31b7aed242663dee36143ebf0e8043f",
        licence="Apache-2.0",
        script="src/ssp/spark/streaming/analytics/trending_hashtags_main.py",
        files=(
            "config/default_ssp_config.gin",
            "src/ssp/__init__.py",
            "src/ssp/logger",
            "src/ssp/spark/__init__.py",
            "src/ssp/spark/streaming/__init__.py",
            "src/ssp/spark/streaming/common",
            "src/ssp/spark/streaming/analytics/trending_hashtags.py",
        ),
        beside={"src/ssp/spark/streaming/analytics/__init__.py": "", "src/gin.py": GIN},
        path="src",
        seen_batch={"query-1": "replaces"},
        changed="src/ssp/spark/streaming/analytics/trending_hashtags.py",
        change=('"#" in word', 'word.startswith("#")'),
        verdict="asked",
    ),
    "taxis": Public(
        repository="lnynhi02/Stream-Processing-Pipeline",
        commit="16a02706f59df1cfd02b7244024c33babd6a3d89",
        licence="Apache-2.0",
        script="src/spark_streaming.py",
        files=("src/utils.py", "data/taxi_zone_lookup.csv"),
        beside={"config/config.ini": TAXI},
        change=("> 120", "> 90"),
    ),
    "coins": Public(
        repository="vietdoo/realtime-trending-coin-volumes-binance",
        commit="d7463ccffc6cd90f593d064eb79bc2bf6cac105c",
        licence="Apache-2.0",
        script="spark/streaming.py",
        beside={"spark/config.py": "FLASK_PORT = 80\n", "spark/requests.py": POST},
        change=('"total_volume"', '"volume"'),
    ),
    "attention": Public(
        repository="cssaritama/KAIROSKOP-A-Collective-Attention-Observatory",
        commit="696a6993b5240d2eaa6a5408619b313b1e0796fc",
        licence="MIT",
        script="spark/streaming_job.py",
        files=("spark/enrichment.py", "spark/schemas.py"),
        replaced=(("gs://{GCS_BUCKET}", "{folder}/gcs"),),
        changed="spark/enrichment.py",
        change=("0.75,", "0.5,"),
    ),
    "words, with arguments": Public(
        repository="oracle-samples/oracle-dataflow-samples",
        commit="1c4a71860236ed46f43b069d71607ee0f267b456",
        licence="UPL-1.0",
        script="python/structured_streaming_kafka_word_count/StructuredKafkaWordCount.py",
        arguments=("--bootstrap-server", "localhost", "--checkpoint-location", "{folder}/checkpoint",
                   "--output-location", "{folder}/out/words", "--raw-stream", "lines"),
        change=(".format('csv')", ".format('json')"),
        verdict="asked",
    ),
    "one query after the other": Public(
        repository="delta-io/delta",
        commit="bb1057f4367f555b01e299fd1690d85aafc0ac4c",
        licence="Apache-2.0",
        script="examples/python/streaming.py",
        why_not="behind the wait",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_public_script_is_an_app_as_it_is(world: Callable[..., World], name: str) -> None:
    public = SCRIPTS[name]
    there = world(public)
    if public.why_not:
        with pytest.raises(ApplicationError, match=public.why_not):
            Application(file=str(there.file), script=Script(app="public")).check()
        return
    itself, change, report = verdicts(there)
    print(name, "|", itself, "|", change, *(report.problems if report else ()), *(report.changes if report else ()), sep="\n  ")
    assert (itself, change) == ("carried", public.verdict)
