"""What the author's own code raised: where, and what it says in one sentence."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from pyspark.errors import PySparkException

_OURS = str(Path(__file__).resolve().parents[1])
_LIBRARIES = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")})


def place(error: BaseException) -> str:
    """File and line of the author's code that the error came out of: ``v2.py:9``; empty when there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not _foreign(f.filename)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def sentence(error: BaseException) -> str:
    """What it says, without the plan that Spark shows with an AnalysisException."""
    if isinstance(error, PySparkException):
        first = str(error).partition("\n")[0].partition(" SQLSTATE")[0]
        return first.rstrip(" .;") or str(error)
    return str(error)


def _foreign(file: str) -> bool:
    """Whether it is a library's, Spark's, ours, or made up (``<string>``)."""
    if file.startswith("<") or "pyspark" in Path(file).parts or any("pyspark.zip" in part for part in Path(file).parts):
        return True
    return file.startswith((_OURS, *_LIBRARIES)) or "py4j" in file
