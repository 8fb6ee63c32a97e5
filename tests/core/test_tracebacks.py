"""Python tracebacks in the texts of errors are shown by their last line. `data/spark_errors.json` holds what PySpark
4.3.0 said of failing UDFs, foreachBatch functions, state functions and state stores."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest

from airflow_provider_streamupdate.core.errors import describe
from airflow_provider_streamupdate.core.tracebacks import without_tracebacks

TEXTS = json.loads((Path(__file__).parent / "data" / "spark_errors.json").read_text())
SINK = "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink."
SHOWN = {
    "udf": "RuntimeError: no price\nfor x",
    "foreachBatch": f"{SINK} ValueError: no such table: totals",
    "foreachBatch-analysis": f"{SINK} AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or "
    "function parameter with name `nope` cannot be resolved. Did you mean one of the following? [`k`, `v`].",
    "foreachBatch-udf": f"{SINK} PythonException: RuntimeError: no price\nfor x",
    "batch-udf": "RuntimeError: no price\nfor x",
    "tws-no-module": "[STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE] Streaming Runner initialization failed, "
    "returned -2. Cause: ModuleNotFoundError: No module named 'procs_mod'",
    "tws": "ZeroDivisionError: in the processor",
}
INIT = """[STREAM_FAILED] Query [id = 5e, runId = 7a] terminated with exception: TransformWithStateInPySpark driver \
worker exited unexpectedly (crashed) SQLSTATE: XXKST

JVM stacktrace:
org.apache.spark.SparkException: TransformWithStateInPySpark driver worker exited unexpectedly (crashed)
\tat org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec$.runPreInitRunner(T.scala:5)
Caused by: org.apache.spark.api.python.StreamingPythonRunner$StreamingPythonRunnerInitializationException: \
[STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE] Streaming Runner initialization failed, returned -2. Cause: \
Traceback (most recent call last):
  File "/app/v2.py", line 9, in init
    raise LookupError("the limit is missing")
LookupError: the limit is missing
\tat org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkPythonPreInitRunner.process(T.scala:9)
"""
IN_TASK = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: \
Lost task 0.3 in stage 3.0 (TID 6) (vm executor 1): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
  File "/app/v2.py", line 9, in price
    return rates[currency]
           ~~~~~^^^^^^^^^^
KeyError: 'EUR'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
\tat java.base/java.lang.Thread.run(Thread.java:833)

Driver stacktrace:"""
JVM = """An error occurred while calling o61.start.
: java.util.concurrent.ExecutionException: org.apache.spark.SparkException: no host
\tat java.base/java.util.concurrent.FutureTask.report(FutureTask.java:122)"""


def foreign(text: str, kind: str = "StreamingQueryException") -> Exception:
    return type(kind, (Exception,), {})(text)


@pytest.mark.parametrize("case", SHOWN)
def test_what_spark_says_of_python_errors(case: str) -> None:
    error = foreign(TEXTS[case]["text"], TEXTS[case]["type"])
    assert describe(error) == f"{TEXTS[case]['type']}: {SHOWN[case]}"


def test_what_spark_says_of_lost_state_of_a_task_and_of_init() -> None:
    shown = describe(foreign(TEXTS["state"]["text"]))
    assert "Exception: [CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error occurred" in shown
    assert shown.endswith("clear the existing checkpoint location.")
    assert describe(foreign(IN_TASK)) == "StreamingQueryException: KeyError: 'EUR'"
    assert describe(foreign(JVM, "Py4JJavaError")) == "Py4JJavaError: no host"
    # what init raised is told in place of what spark says
    assert describe(RuntimeError(INIT)) == "RuntimeError: init() failed: LookupError: the limit is missing"
    cut = INIT.partition("Caused by")[0]  # of a worker that was killed, Spark knows no more
    assert describe(RuntimeError(cut)).startswith("RuntimeError: TransformWithStateInPySpark driver worker exited")


def nested(levels: int) -> None:
    if levels:
        nested(levels - 1)
    raise RuntimeError("too deep:\n  of all of them")


def chained(explicit: bool) -> None:
    try:
        raise KeyError("several\nlines\n\nof it")
    except KeyError as error:
        if explicit:
            raise ValueError("no rate") from error
        raise ValueError("no rate")  # noqa: B904


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (lambda: chained(True), "ValueError: no rate\n"),
        (lambda: chained(False), "ValueError: no rate\n"),
        (lambda: nested(50), "RuntimeError: too deep: of all of them\n"),
        (lambda: compile("f(", "v2.py", "exec"), "SyntaxError: '(' was never closed\n"),
    ],
)
def test_python_s_own_tracebacks(call, shown: str) -> None:
    with pytest.raises(Exception) as caught:
        call()
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("Traceback") and without_tracebacks(f"before: {text} after") == f"before: {shown} after"


def test_groups_cut_tracebacks_and_a_megabyte_of_them() -> None:
    group = '  + Exception Group Traceback (most recent call last):\n  |   File "v2.py", line 3, in f\n'
    group += "  | ExceptionGroup: both (1 sub-exception)\n  +-+--- 1 ---\n    | ValueError: one\n"
    assert without_tracebacks(f"failed: {group}    +------------------------------------") == "failed: ValueError: one"
    cut = 'Cause: Traceback (most recent call last):\n  File "/app/v2.py", line 9, in price\n    return ra'
    assert without_tracebacks(cut) == "Cause: an error at /app/v2.py:9 (its text is cut off)"
    # a megabyte of tracebacks takes no time
    assert len(describe(foreign("Traceback (most recent call last):\n" * 30_000))) < 4000
