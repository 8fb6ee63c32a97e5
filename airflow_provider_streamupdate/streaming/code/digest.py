"""The digest of a pickled function."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

from .on_import.source import pickled_as_written
from .report import Report, Where
from .spark import BroadcastVariable
from .walk import Walk, digest

_WALKS = 4
_NONE: Mapping[int, Any] = MappingProxyType({})


@attrs.frozen
class CodeDigest:
    """What a function computes, as far as it can be told.

    digest: equal digests compute the same; None when something in it cannot be compared
    followed: the digest of what could be followed, without versions; None when the function cannot be loaded. Where
        `digest` differs and this does not, only `packages` or what is `unknown` can have changed.
    unknown: reasons, sorted: "function f in v2.py uses X, which cannot be compared: why"
    packages: what else counts, sorted: distributions that the function uses with their versions ("numpy 2.2.0"), and
        the minor version of Python ("Python 3.11")
    imports: what importing the modules does that it uses, sorted: "module#digest", and of an effect that cannot be
        compared "?module#digest of the rest (reasons)". It is part of `digest`, too; workers run several functions,
        and what one's module sets (``getcontext().prec = 4``) holds for all
    """

    digest: str | None
    followed: str | None
    unknown: tuple[str, ...]
    packages: tuple[str, ...]
    imports: tuple[str, ...] = ()


def describe(command: bytes, broadcasts: Mapping[int, Any] = _NONE) -> CodeDigest:
    """The digest of what Spark pickled (SimplePythonFunction.command): a function with its return type, a UDTF's class.

    broadcasts: the values of broadcast variables by their ids (spark_internals/broadcasts.py)

    What counts is all that the function reaches: instructions, constants, defaults, closures, global variables, modules
    of the app (imported in the function, too), classes, and the values they hold, in order where there is one. What is
    not known to be harmless counts. What does not: where files lie, lines, comments, docstrings, type hints, names of
    local variables and of functions, modules of classes; these count when something that is reached looks at them
    (``locals()``, ``__name__``, ``inspect``, ``str()`` of what may be a class or an error, a traceback ...,
    an installed package that is given the function). report.py has what looks at what.

    The driver may have other things than workers, which import the app's modules afresh: what is not surely the same
    there counts by the source, too (source.py, settled.py), and another module under a name is unknown (sourceless.py).

    A module that a function imports when it runs is imported here, as on a worker, and its value now is what counts. A
    module that is passed on as a value counts with all its members. What importing a module does besides giving values
    to names (``getcontext().prec = 5``) counts as well; ``__main__`` is not imported on a worker.

    What is installed counts by the name and version of its distribution (`CodeDigest.packages`), the packages it needs
    itself do not. Python's own library and the instructions count by the minor version: 3.11.7 and 3.11.9 are one.
    Spark and this provider count by name: which of them run is compared elsewhere. What functions read when they run
    (files, environment variables, the network) is data, sources of the app's that it opens as files included. What
    tells on which partition a row is (TaskContext) is unknown.
    """
    packages = [f"Python {sys.version_info[0]}.{sys.version_info[1]}"]
    try:
        loaded = _load(command, broadcasts)
    except Exception as e:  # whatever the app's modules and objects raise
        return _nothing(f"the function cannot be loaded here: {type(e).__name__}: {e}", packages)
    try:
        walk, described = _described(loaded, broadcasts)
        imports = _imports(walk)
    except RecursionError:  # Python itself does not write such a value out
        return _nothing("the function cannot be described: a value that it uses is nested too deeply", packages)
    except Exception as e:  # an object of the author's that raises when it is looked at
        return _nothing(f"the function cannot be described: {type(e).__name__}: {e}", packages)
    report = walk.report
    packages = sorted({*packages, *report.packages})
    followed = digest((described, report.read()))
    whole = None if report.unknown else digest((followed, packages))[:12]
    return CodeDigest(whole, followed[:12], tuple(sorted(report.unknown)), tuple(packages), imports)


def _imports(walk: Walk) -> tuple[str, ...]:
    """The digest of each effect on import, walked on its own: it is the same whatever function has its module
    imported."""
    found = set()
    for effect in {id(e): e for effects in walk.on_import.values() for e in effects}.values():
        report = Report(walk.report.broadcasts)
        described = Walk(report).all(effect, Where(f"module {effect.module}"))
        told = digest((described, report.read(), sorted(report.packages), sorted(report.unknown)))
        name = f"{effect.module}#{told[:8]}"
        found.add(f"?{name} ({'; '.join(sorted(report.unknown))})" if report.unknown else name)
    return tuple(sorted(found))


def _described(loaded: Any, broadcasts: Mapping[int, Any]) -> tuple[Walk, list[Any]]:
    """The walk imports what the function imports when it runs. That may fill what was described before it (a registry
    of the app's), so what was imported by a walk has it made again: the next one finds all that this one found."""
    for _ in range(_WALKS):
        before = len(sys.modules)
        walk, described = _walked(loaded, broadcasts)
        if len(sys.modules) == before:
            break
    return walk, described


def _walked(loaded: Any, broadcasts: Mapping[int, Any]) -> tuple[Walk, list[Any]]:
    walk = Walk(Report(broadcasts))
    written = pickled_as_written(loaded[0] if type(loaded) is tuple else loaded)
    return walk, [*walk.all(loaded, Where()), written]


def _nothing(reason: str, packages: list[str]) -> CodeDigest:
    return CodeDigest(None, None, (reason,), tuple(packages))


def _load(command: bytes, broadcasts: Mapping[int, Any]) -> Any:
    loaded = _Unpickler(io.BytesIO(command)).load()
    if isinstance(loaded, BroadcastVariable):  # a command of more than 1 MB (_prepare_for_python_RDD)
        loaded = _Unpickler(io.BytesIO(broadcasts[loaded.id])).load()
    return loaded


class _Unpickler(pickle.Unpickler):
    """Loads a function without touching the originals: cloudpickle finds a class of ``__main__`` that was pickled here
    by its id, and would give it the loaded methods (_lookup_class_or_track)."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_from_id" and module.endswith(".broadcast"):
            return BroadcastVariable
        found = super().find_class(module, name)
        if module.endswith("cloudpickle.cloudpickle") and name in ("_make_skeleton_class", "_make_skeleton_enum"):
            # both end with (..., class_tracker_id, extra)
            return lambda *given: found(*given[:-2], None, given[-1])
        return found
