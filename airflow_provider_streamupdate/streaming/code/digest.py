"""The digest of a pickled function."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

from .functions import MADE_BY_PYTHON
from .imports import Reach, effects
from .objects import describe_object
from .report import Report
from .sources import Sources
from .spark import BroadcastVariable
from .walk import Bag, Walk, canonical, digest

_WALKS = 4
_NONE: Mapping[int, Any] = MappingProxyType({})


@attrs.frozen
class CodeDigest:
    """A digest of what a function computes, and what else decides its results."""

    digest: str | None  # equal digests and equal `imports` compute the same; None where a value cannot be compared
    unknown: tuple[str, ...]  # why a value cannot be compared, sorted
    packages: tuple[str, ...]  # of `digest`, sorted: distributions that it uses ("numpy 2.2.0"), and "Python 3.11"
    # What importing the modules does that it uses, sorted: "module#digest". It is no part of `digest`: workers run
    # several functions, and what one's module sets (``getcontext().prec = 4``) holds for all.
    imports: tuple[str, ...] = ()

    @property
    def with_imports(self) -> str | None:
        """The digest of what the function computes where no other one has its modules imported."""
        return digest((self.digest, self.imports))[:12] if self.digest and self.imports else self.digest


def describe(command: bytes, broadcasts: Mapping[int, Any] = _NONE) -> CodeDigest:
    """Digest what Spark pickled (SimplePythonFunction.command): a function with its return type, a UDTF's class.

    broadcasts: the values of broadcast variables by their ids (plans/python_source.py)

    All counts that the function reaches: instructions, constants, defaults, closures, global variables, modules of the
    app, classes, and the values they hold. Lines, comments, docstrings, hints, names of local variables and the app's
    folder do not. Workers import the app's modules afresh, so what is used of a module counts as the driver has it and
    as it is written (imports.py). Where names are data, or code looks at itself, all of the app's modules count.

    Installed packages count by name and version, without those that they need; Python and its library by the minor
    version; Spark and this provider by name, since which of them run is compared elsewhere. Files, the environment and
    the network are data. Unknown are a function that cannot be loaded, a lost broadcast variable, and TaskContext.
    """
    packages = {f"Python {sys.version_info[0]}.{sys.version_info[1]}"}
    try:
        loaded = _load(command, broadcasts)
    except Exception as e:  # whatever the app's modules and objects raise
        return CodeDigest(None, (f"it cannot be loaded here: {type(e).__name__}: {e}",), tuple(packages))
    try:
        walk, roots = _described(loaded, broadcasts)
        sources, report = Sources(), walk.report
        reach = Reach(sources, report)
        described = [canonical(roots, walk.described), reach.run(sorted(walk.members)), report.noted()]
        imports = [f"{name}#{digest(does)[:8]}" for name, does in effects(sources, walk.imported)]
        packages |= {*report.packages, *reach.report.packages} - {""}
        whole = None if report.unknown else digest((described, sorted(packages)))[:12]
    except Exception as e:  # what the author's objects raise; a RecursionError where a value is nested too deeply
        return CodeDigest(None, (f"it cannot be described: {type(e).__name__}: {e}",), tuple(packages))
    return CodeDigest(whole, tuple(sorted(report.unknown)), tuple(sorted(packages)), tuple(imports))


def _described(loaded: Any, broadcasts: Mapping[int, Any]) -> tuple[Walk, Any]:
    """The walk imports what the function imports when it runs. That may fill what was described before it (a registry
    of the app's), so what was imported by a walk has it made again: the next one finds all that this one found."""
    for _ in range(_WALKS):
        before = len(sys.modules)
        walk = Walk(Report(broadcasts), describe_object)
        roots = [walk.of(loaded)]
        walk.finish()
        done: set[int] = set()
        while walk.report.level and not done >= walk.namespaces.keys():  # names are data: each can be meant
            more = [namespace for key, namespace in walk.namespaces.items() if key not in done]
            done |= walk.namespaces.keys()
            roots.append(Bag(tuple(_members(walk, namespace) for namespace in more)))
            walk.finish()
        if len(sys.modules) == before:
            break
    return walk, roots


def _members(walk: Walk, namespace: dict[str, Any]) -> Any:
    return walk.named((name, namespace[name]) for name in sorted(namespace) if name not in MADE_BY_PYTHON)


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
