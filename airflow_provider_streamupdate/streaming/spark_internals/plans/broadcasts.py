"""The values of the broadcast variables that a Python function uses: it is pickled with their ids alone."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import attrs


@attrs.frozen
class Broadcasts(Mapping[int, Any]):
    """Values by ids, each loaded when it is asked for. KeyError for an id that the function does not have; what
    loading raises (a destroyed variable, encrypted files) is passed on.

    variables: those of the JVM, which know the files that the driver has written (pyspark.core.broadcast.Broadcast)
    """

    variables: Mapping[int, Any]

    def __getitem__(self, key: int) -> Any:
        with open(self.variables[key].value().path(), "rb") as file:
            return pickle.load(file)

    def __iter__(self) -> Iterator[int]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)


def broadcasts(function: Any) -> Broadcasts:
    """Return the broadcast variables of a PythonFunction of the JVM (PythonUDF.func)."""
    variables = function.broadcastVars()
    found = [variables.get(index) for index in range(variables.size())]
    return Broadcasts({int(variable.id()): variable for variable in found})
