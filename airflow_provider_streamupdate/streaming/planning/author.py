"""What an app's author declares, and the errors of the author's own code: where they were raised, in one sentence."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from ...core.errors import StreamUpdateError, describe, text_of

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_OURS = str(Path(__file__).resolve().parents[1])
_LIBRARIES = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")})


@attrs.frozen
class Declarations:
    """The declarations of an app besides its queries."""

    name: str  # the app's
    require_names: bool = False  # stateful operators without a name are refused
    migrations: Mapping[tuple[str, str], Callable[..., Any]] = attrs.field(factory=dict)  # by stage and old state
    reloadable: tuple[str, ...] = ()  # parameters that may change while the app runs
    written: Mapping[str, str] = attrs.field(factory=dict)  # file and line of each query's function, for messages
    seen_batch: Mapping[str, str] = attrs.field(factory=dict)  # what each query's sink does with an id it has had
    checkpoints: Mapping[str, str] = attrs.field(factory=dict)  # the checkpointLocation of each query of a script


def place(error: BaseException) -> str:
    """File and line of the author's code that raised the error: ``v2.py:9``; empty when there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not _foreign(f.filename)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def describe_failure(error: BaseException) -> str:
    """An error that ended a query, in words. The traceback of an error that the author's code raised while it ran, in a
    Python worker or called by the JVM, is in Spark's message only; the place comes first."""
    words = describe(error)
    if isinstance(error, StreamUpdateError):
        return words
    own = [(file, line) for file, line in _FRAME.findall(text_of(error)) if not _foreign(file)]
    return f"{Path(own[-1][0]).name}:{own[-1][1]} raised an error: {words}" if own else words


def _foreign(file: str) -> bool:
    """Whether a file belongs to a library, to Spark or to this package, or is no real file (``<string>``)."""
    if file.startswith("<") or "pyspark" in Path(file).parts or any("pyspark.zip" in part for part in Path(file).parts):
        return True
    return file.startswith((_OURS, *_LIBRARIES)) or "py4j" in file
