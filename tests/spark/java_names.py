"""Names of the JVM, found once.

py4j asks the JVM for each part of a dotted name, each time, and the JVM looks into all of Spark's 280 jars for a class
that does not exist: a tenth of the JVM's time in these tests (measured)."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView


def remember_java_names() -> None:
    for kind in (JVMView, JavaPackage, JavaClass):
        _remember(kind)


def _remember(kind: type) -> None:
    find = kind.__getattr__  # type: ignore[attr-defined]

    def remembered(self: Any, name: str) -> Any:
        value = find(self, name)
        if isinstance(value, JavaPackage | JavaClass | JavaMember):  # not a field's value
            vars(self)[name] = value
        return value

    kind.__getattr__ = remembered  # type: ignore[attr-defined]
