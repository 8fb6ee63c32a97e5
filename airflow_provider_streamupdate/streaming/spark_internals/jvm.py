"""Values of the JVM: classes, Scala objects, collections, trees."""

from __future__ import annotations

import functools
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

STREAMING = "org.apache.spark.sql.execution.streaming"
_OBJECT = "java.lang.Object"


def module(spark: SparkSession, name: str) -> Any:
    """A Scala object (its MODULE$)."""
    return scala_object(spark._jvm, name)


@functools.cache
def scala_object(jvm: Any, name: str) -> Any:
    return java_class(jvm, f"{name}$").getField("MODULE$").get(None)


@functools.cache  # to find one takes several calls of the JVM
def java_class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name, True, jvm.java.lang.Thread.currentThread().getContextClassLoader())


def scala_map(value: Any) -> dict[str, str]:
    iterator, result = value.iterator(), {}
    while iterator.hasNext():
        pair = iterator.next()
        result[str(pair._1())] = str(pair._2())
    return result


def sequence(value: Any) -> list[Any]:
    return [value.apply(index) for index in range(value.size())]


@functools.cache
def asking(jvm: Any, *methods: str) -> Any:
    """The scala.Function1 that calls methods (``class#name``, without arguments) one after the other. With it the JVM
    maps a collection in one call, where Python makes one or more for each element, of about 0.1 ms."""
    return function(jvm, *(method(jvm, *name.split("#")) for name in methods))


@functools.cache
def is_a(jvm: Any, name: str) -> Any:
    """The scala.Function1 that tells whether a value is of a class."""
    return function(jvm, method(jvm, "java.lang.Class", "isInstance", _OBJECT).bindTo(java_class(jvm, name)))


@functools.cache
def itself(jvm: Any) -> Any:
    """The scala.Function1 that gives what it is given: a tree becomes the list of its nodes, in pre-order."""
    return function(jvm, jvm.java.lang.invoke.MethodHandles.identity(java_class(jvm, _OBJECT)))


def method(jvm: Any, owner: str, name: str, *kinds: str) -> Any:
    """A method of a class as a java.lang.invoke.MethodHandle; one that is not static takes its object first.

    kinds: the classes of its arguments
    """
    found = java_class(jvm, owner).getMethod(name, array(jvm, "java.lang.Class", [java_class(jvm, k) for k in kinds]))
    return jvm.java.lang.invoke.MethodHandles.publicLookup().unreflect(found)


def given(jvm: Any, handle: Any, argument: Any, place: int = 1) -> Any:
    """A method with one of its arguments given, by default the second one."""
    return jvm.java.lang.invoke.MethodHandles.insertArguments(handle, place, array(jvm, _OBJECT, [argument]))


def function(jvm: Any, *steps: Any) -> Any:
    """A scala.Function1 of method handles that take one value, one after the other."""
    handles = jvm.java.lang.invoke.MethodHandles
    made = None
    for step in steps:
        general = step.asType(step.type().generic())
        made = general if made is None else handles.filterReturnValue(made, general)
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(java_class(jvm, "scala.Function1"), made)


def lines(jvm: Any, values: Any) -> list[str]:
    """The texts (String.valueOf) of a scala.Seq."""
    size = int(values.size())
    texts = str(values.mkString("\n")).split("\n") if size else []
    if len(texts) == size:
        return texts
    text = function(jvm, method(jvm, "java.lang.String", "valueOf", _OBJECT))  # some have several lines
    return [str(value) for value in sequence(values.map(text))]


def class_names(jvm: Any, values: Any) -> list[str]:
    """The names of the classes of a scala.Seq's elements."""
    return lines(jvm, values.map(asking(jvm, f"{_OBJECT}#getClass", "java.lang.Class#getName")))


def array(jvm: Any, kind: str, values: list[Any]) -> Any:
    """A Java array."""
    made = jvm.java.lang.reflect.Array.newInstance(java_class(jvm, kind), len(values))
    for index, value in enumerate(values):
        made[index] = value
    return made


def pre_order(jvm: Any, plan: Any) -> list[Any]:
    """A tree's nodes (of a plan or of an expression)."""
    return sequence(plan.map(itself(jvm)))


def unanswered(error: BaseException) -> bool:
    """Whether a call of the JVM failed without an answer from it, as when it has ended."""
    return isinstance(error, (Py4JError, ConnectionError)) and not isinstance(error, Py4JJavaError)


def activate(spark: SparkSession) -> None:
    """Make it the session of this thread, as it is of the main one: texts (schemas, expressions) are parsed under the
    settings of a thread's session, and under Spark's defaults where it has none."""
    module(spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(spark._jsparkSession)
