"""Values of the JVM: classes, Scala objects, collections, trees."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

_OBJECT = "java.lang.Object"
_HANDLES = "java.lang.invoke.MethodHandles"
_Result = TypeVar("_Result")


def module(spark: SparkSession, name: str) -> Any:
    """A Scala object (its MODULE$)."""
    return scala_object(spark._jvm, name)


@functools.cache
def scala_object(jvm: Any, name: str) -> Any:
    return java_class(jvm, f"{name}$").getField("MODULE$").get(None)


@functools.cache  # to find one takes several calls of the JVM
def java_class(jvm: Any, name: str) -> Any:
    thread = static(jvm, "java.lang.Thread#currentThread")()
    return static(jvm, "java.lang.Class#forName")(name, True, thread.getContextClassLoader())


@functools.cache  # py4j asks the JVM about each part of a dotted name
def named(jvm: Any, name: str) -> Any:
    """A Java class by its name: its static methods, and its constructor."""
    return functools.reduce(getattr, name.split("."), jvm)


@functools.cache  # py4j asks the JVM what a class's member is, each time
def static(jvm: Any, name: str) -> Any:
    """A static method (``class#name``)."""
    return getattr(named(jvm, name.split("#")[0]), name.split("#")[1])


def scala_map(value: Any) -> dict[str, str]:
    iterator, result = value.iterator(), {}
    while iterator.hasNext():
        pair = iterator.next()
        result[str(pair._1())] = str(pair._2())
    return result


def scala_seq(jvm: Any, values: list[Any]) -> Any:
    """A scala.Seq."""
    return static(jvm, "org.apache.spark.api.python.PythonUtils#toSeq")(array_list(jvm, values))


def array_list(jvm: Any, values: list[Any]) -> Any:
    """A java.util.ArrayList."""
    made = named(jvm, "java.util.ArrayList")()
    for value in values:
        made.add(value)
    return made


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
def identity_function(jvm: Any) -> Any:
    """The scala.Function1 that gives what it is given: a tree becomes the list of its nodes, in pre-order."""
    return function(jvm, static(jvm, f"{_HANDLES}#identity")(java_class(jvm, _OBJECT)))


@functools.cache
def method(jvm: Any, owner: str, name: str, *kinds: str) -> Any:
    """A method of a class as a java.lang.invoke.MethodHandle; one that is not static takes its object first.

    kinds: the classes of its arguments
    """
    found = java_class(jvm, owner).getMethod(name, array(jvm, "java.lang.Class", [java_class(jvm, k) for k in kinds]))
    return static(jvm, f"{_HANDLES}#publicLookup")().unreflect(found)


def with_argument(jvm: Any, handle: Any, argument: Any, place: int = 1) -> Any:
    """A method with one of its arguments given, by default the second one."""
    return static(jvm, f"{_HANDLES}#insertArguments")(handle, place, array(jvm, _OBJECT, [argument]))


def function(jvm: Any, *steps: Any) -> Any:
    """A scala.Function1 of method handles that take one value, one after the other."""
    followed_by, made = static(jvm, f"{_HANDLES}#filterReturnValue"), None
    for step in steps:
        general = step.asType(step.type().generic())
        made = general if made is None else followed_by(made, general)
    return interface(jvm, "scala.Function1", made)


def interface(jvm: Any, name: str, handle: Any) -> Any:
    """A method handle as an interface with one method."""
    return static(jvm, "java.lang.invoke.MethodHandleProxies#asInterfaceInstance")(java_class(jvm, name), handle)


def lines(jvm: Any, values: Any) -> list[str]:
    """The texts (String.valueOf) of a scala.Seq."""
    size = int(values.size())
    texts = str(values.mkString("\n")).split("\n") if size else []
    if len(texts) == size:
        return texts
    text = function(jvm, method(jvm, "java.lang.String", "valueOf", _OBJECT))  # some have several lines
    return [str(value) for value in sequence(values.map(text))]


def pairs(jvm: Any, values: Any) -> dict[str, str]:
    """The texts of a scala.Seq of pairs."""
    keys, told = (lines(jvm, values.map(asking(jvm, f"scala.Tuple2#_{n}"))) for n in (1, 2))
    return dict(zip(keys, told, strict=True))


def java_map(jvm: Any, value: Any) -> dict[str, str]:
    """The texts of a Java map, whose values are no null."""
    if value.isEmpty():
        return {}
    return pairs(jvm, static(jvm, "org.apache.spark.api.python.PythonUtils#toScalaMap")(value).toSeq())


def class_names(jvm: Any, values: Any) -> list[str]:
    """The names of the classes of a scala.Seq's elements."""
    return lines(jvm, values.map(asking(jvm, f"{_OBJECT}#getClass", "java.lang.Class#getName")))


def array(jvm: Any, kind: str, values: list[Any]) -> Any:
    """A Java array."""
    made = static(jvm, "java.lang.reflect.Array#newInstance")(java_class(jvm, kind), len(values))
    for index, value in enumerate(values):
        made[index] = value
    return made


def unanswered(error: BaseException) -> bool:
    """Whether a call of the JVM failed without an answer from it, as when it has ended."""
    return isinstance(error, (Py4JError, ConnectionError)) and not isinstance(error, Py4JJavaError)


def activate(spark: SparkSession) -> None:
    """Make it the session of this thread, as it is of the main one: texts (schemas, expressions) are parsed under the
    settings of a thread's session, and under Spark's defaults where it has none."""
    module(spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(spark._jsparkSession)


@contextlib.contextmanager
def in_background(spark: SparkSession, work: Callable[[], _Result]) -> Iterator[Future[_Result]]:
    """Run `work` in a thread, with the session as its active one. The block ends after the work; an error in the block
    is raised in place of the work's.

    The work should wait for the JVM most of the time: Python runs one thread at a time.
    """
    done: Future[_Result] = Future()

    def run() -> None:
        try:
            activate(spark)
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = InheritableThread(target=run, name="streamupdate-background", daemon=True)
    thread.start()
    try:
        yield done
    finally:
        thread.join()
