"""Python tracebacks inside the texts of errors. Spark's JVM quotes them whole, so that what happened comes last, behind
what is cut off where an error is shown."""

from __future__ import annotations

import re

_HEAD = re.compile(r"(?:  \+ Exception Group )?Traceback \(most recent call last\):[^\n]*\n?")
_CHAINED = re.compile(
    r"\s*(?:During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception):\s*"
)
_INIT_FAILED = re.compile(
    r"(?:org\.apache\.spark\.SparkException: )?TransformWithStateInPySpark driver worker exited "
    r"unexpectedly \(crashed\)"
)
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
# What Spark puts before the cause: it says nothing about it, and is long.
_AROUND = re.compile(
    r"\[STREAM_FAILED\] Query \[id = \S+, runId = \S+\] terminated with exception: |"
    r"\[PYTHON_EXCEPTION\] |"
    r"Job aborted due to stage failure: Task \S+ in stage \S+ failed \d+ times?, most recent failure: "
    r"Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): |"
    r"An error occurred while calling \S+\.\n: |"
    r"Reason: An exception was raised by the Python Proxy\. Return Message: |"
    r"(?:\n\s*)?An exception was thrown from the Python worker(?:: ?\n?|\. Please see the stack trace below\.\n)|"
    r"(?:org\.apache\.spark|java\.util\.concurrent)[\w.]*\.(?:Spark|Execution|Python)Exception: (?=\S)|"
    r"pyspark\.errors\.exceptions\.\w+\.|"
    r"\s*SQLSTATE: \w{5}(?:;\n(?s:.*)|\b)"  # and the plan behind it
)


def without_tracebacks(text: str) -> str:
    """Return a text with the last line of each Python traceback in its place: the error itself. Of chained tracebacks
    the last one counts."""
    while head := _HEAD.search(text):
        before, body = text[: head.start()], text[head.end() :]
        error, rest = _split_error(body)
        chained = _CHAINED.search(rest)
        text = before + (rest[chained.end() :] if chained and _HEAD.match(rest, chained.end()) else f"{error}{rest}")
    return text


def without_surroundings(text: str) -> str:
    """Return a text without what Spark puts before the cause of an error, which is the same for every error."""
    return _AROUND.sub("", text)


def with_lost_cause(text: str, stack: str) -> str:
    """Return a text with what a stateful processor's init() raised in the place of what Spark says instead.

    Spark has that as the cause of its own error only (TransformWithStateInPySparkExec.runPreInitRunner).

    stack: the JVM's, with its causes; one in the text itself will do
    """
    said = _INIT_FAILED.search(text)
    if said is None:
        return text
    causes = text[said.end() :] + stack
    head = _HEAD.search(causes)
    return text[: said.start()] + "init() failed: " + causes[head.start() :] if head else text


def _split_error(body: str) -> tuple[str, str]:
    """Split what follows the head of a traceback into the error, in one line, and the rest. A traceback that is cut
    off is described by its last file and line."""
    frames: list[str] = []
    lines = body.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line[:1] not in (" ", "\n", "\r"):
            error = line.rstrip()
            last = number + 1
            if error.endswith(":") and lines[last:] and lines[last].strip():  # the message begins on the next line
                error, last = f"{error} {lines[last].strip()}", last + 1
            end = "\n" if line.endswith("\n") and last < len(lines) else ""
            return error, end + "".join(lines[last:])
        frames.append(line)
    inner = [line.strip(" |+-\n") for line in frames if line.strip(" |+-\n")]  # an exception group's
    places = _FRAME.findall(body)
    if frames and frames[0].lstrip().startswith("|") and inner:
        return inner[-1], ""
    return (f"an error at {places[-1][0]}:{places[-1][1]} (its text is cut off)" if places else "an error"), ""
