"""User-defined types written in Python: what one is made of its SQL type, and the other way, is code."""

from __future__ import annotations

import base64
from typing import Any

from ...code import CodeDigest, describe

# What is Spark's own goes by its name, as its functions do.
_SPARKS = ("pyspark.", "org.apache.spark.")


def with_codes(value: Any, known: dict[tuple[str, str], CodeDigest] | None = None) -> None:
    """Give each user-defined type in JSON (of a plan, in place) the digest of its class as ``code``; None where it
    cannot be compared, as the code of a type of the JVM. And what importing its module does, as ``imports``."""
    known = {} if known is None else known
    if isinstance(value, dict):
        if value.get("type") == "udt" and "code" not in value and not _of_spark(value):
            told = _code(value, known)
            value["code"], value["imports"] = (told.with_imports, list(told.imports)) if told else (None, [])
        value = value.values()
    elif not isinstance(value, list):
        return
    for inner in value:
        if isinstance(inner, (dict, list)):
            with_codes(inner, known)


def _of_spark(kind: dict[str, Any]) -> bool:
    return str(kind.get("pyClass") or kind.get("class") or "").startswith(_SPARKS)


def _code(kind: dict[str, Any], known: dict[tuple[str, str], CodeDigest]) -> CodeDigest | None:
    """Find the code by the pickle of the class, where Spark has it (UserDefinedType.jsonValue: of one in the app's own
    file), else by where a worker imports it from."""
    name, pickled = str(kind.get("pyClass") or ""), str(kind.get("serializedClass") or "")
    if not name:
        return None
    if (name, pickled) not in known:
        module, _, own = name.rpartition(".")
        known[name, pickled] = describe(base64.b64decode(pickled) if pickled else f"c{module}\n{own}\n.".encode())
    return known[name, pickled]
